import json
import subprocess
import sys
import unicodedata

import pytest
import tokenizers as library
from hypothesis import example, given
from hypothesis import strategies as st

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.registry import check_options
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.registry import TOKENIZERS
from seq2seq.text.tokenization.tokenizer import Tokenizer

texts = st.text(st.characters(exclude_categories=["Cs"]))
LINES = ["the dog sees the cat", "der Hund sieht die Katze", "the theme of the thesis"]


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cn"])))
@example(text="Ma\u0308nner")
def test_with_nfc_decoding_gives_the_composed_text(text: str) -> None:
    composing = ByteLevelBPE(vocab_size=260, normalize="nfc").train(LINES)
    expected = unicodedata.normalize("NFC", text)
    assert composing.decode_batch(composing.encode_batch([text])) == [expected]


def test_half_a_character_is_decoded_as_a_replacement(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode_batch(["中"])
    assert len(ids) == 3
    assert set(tokenizer.decode_batch([ids[:2]])[0]) == {"\ufffd"}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": "1.0"}', "\0"])
def test_what_describes_no_tokenizer_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="does not describe a tokenizer"):
        Tokenizer.from_json(text)


def test_a_tokenizer_with_other_control_symbols_is_refused() -> None:
    foreign = library.Tokenizer(library.models.BPE())
    foreign.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    with pytest.raises(DataError, match=r"has the ids \[1, 0, 2, 3\]"):
        Tokenizer.from_json(foreign.to_str())


def test_a_tokenizer_that_cannot_encode_unknown_text_is_refused() -> None:
    made = TOKENIZERS.find("word")(vocab_size=None).train(["Ein Hund"])
    text = made.to_json().replace('"unk_token":"<unk>"', '"unk_token":"none"')
    assert text != made.to_json()
    with pytest.raises(DataError, match="does not describe a tokenizer"):
        Tokenizer.from_json(text)


def test_training_in_another_process_gives_the_same_tokenizer() -> None:
    program = (
        "import json, sys; from seq2seq.text.tokenization.bpe import ByteLevelBPE\n"
        "lines = json.load(sys.stdin)\n"
        "sys.stdout.write(ByteLevelBPE(vocab_size=300).train(lines).to_json())"
    )
    there = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(LINES),
        env={"PYTHONHASHSEED": "7", "RAYON_NUM_THREADS": "3"},
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    )
    assert there.stdout == ByteLevelBPE(vocab_size=300).train(LINES).to_json()


def test_frequent_neighbours_are_merged_until_the_vocabulary_is_full() -> None:
    # Two merges fit: "ab" occurs six times, then "abc" six times; "xy" occurs twice.
    trained = ByteLevelBPE(vocab_size=262).train(["abc\nabc\nabc\nabc\nabc\nabc\nxy\nxy"])
    assert trained.size == 262
    assert trained.pieces("abc\nxy") == ["abc", "\n", "x", "y"]


@pytest.mark.parametrize("limit", [2, 3, 8, 16])
def test_no_piece_is_longer_than_asked(limit: int) -> None:
    # Every beginning of the word is a word, so pieces grow a letter at a time up to the limit.
    words = ["abcdefghijklmnopqrst"[:end] for end in range(2, 21)]
    pieces = ByteLevelBPE(max_token_length=limit).train(words * 9).pieces(words[-1])
    assert max(map(len, pieces)) == limit


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vocab_size": 259}, "tokenizer.vocab_size=259 is too small.*take 260"),
        ({"max_token_length": 1}, "tokenizer.max_token_length=1 should be at least 2"),
    ],
)
def test_an_option_out_of_range_is_refused(options: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ByteLevelBPE(**options)


def test_the_table_knows_its_options() -> None:
    options = {"vocab_size": 260, "joint": False, "normalize": None, "max_token_length": 16}
    recipe = TOKENIZERS.find("bpe")
    check_options(recipe, options, "tokenizer")
    assert recipe(**options).train(LINES).size == 260
    with pytest.raises(ConfigError, match="tokenizer.joint='yes' should be true or false"):
        check_options(recipe, {**options, "joint": "yes"}, "tokenizer")


def test_a_piece_is_shown_without_its_leading_space(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces("the cat") == ["the", "cat"]
    assert tokenizer.spans("the cat") == [(0, 3), (4, 7)]
    assert tokenizer.pieces("中 ") == ["中", "中", "中", " "]
