"""What all tokenizers guarantee, and what each of them does."""

import re
import unicodedata
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.symbols import BOS, EOS, NAMES, PAD, UNK
from seq2seq.text.tokenization.registry import TOKENIZERS, build_recipe
from seq2seq.text.tokenization.splitting import split_into_parts
from seq2seq.text.tokenization.tokenizer import Tokenizer

LINES = ["the dog sees the cat.", "der Hund sieht die Katze!", "the theme of the thesis", "x < y"]
NASTY = [
    "<s>",
    "</s> <unk><pad>",
    "<0x41><0xE4>",
    "a<s>b</s>",
    "▁▁a▁",
    "  two  spaces  ",
    "tab\tnewline\n\r\nend ",
    "👩‍👩‍👧 שלום עולם \u202eabc\u202c",
    "\0 \x01 \x85 \u2028 \xa0 \ufeff \ufffd Ġ",
    "Ma\u0308nner",
    "日本語の文 と 中文。",
    "<tag en>",
    "\ufdd0 \ufdd1 <",
]
KINDS = {
    "bpe": {"vocab_size": 400},
    "bpe cjk": {"name": "bpe", "vocab_size": 400, "isolate_cjk": True},
    "unigram": {"vocab_size": 700},
    "unigram cjk": {"name": "unigram", "vocab_size": 700, "isolate_cjk": True},
    "word": {},
    "word marks": {"name": "word", "isolate_punctuation": True},
    "char": {},
}
# Trained on hostile text, which gives every reason to form a piece with the name of a symbol.
HOSTILE = [*LINES, *NASTY, " ".join(NAMES) + " <0x41> <tag en>"] * 9

every_kind = pytest.mark.parametrize("kind", KINDS)
texts = st.text(st.characters(exclude_categories=["Cs"]))


def learn(kind: str, lines: Iterable[str] = HOSTILE, **options: object) -> Tokenizer:
    return build_recipe({"name": kind, **KINDS[kind], **options}).train(lines)


@pytest.fixture(scope="module")
def learnt() -> dict[str, Tokenizer]:
    """Each as restored from a checkpoint."""
    return {kind: Tokenizer.from_json(learn(kind).to_json()) for kind in KINDS}


def kept(kind: str, text: str) -> str:
    """The text that each kind keeps, by its docstring, if every word is known."""
    if kind.startswith("unigram"):
        return re.sub("[\ufdd0\ufdd1]", "\ufffd", text)
    if kind.startswith("word"):
        # Not str.split: U+001C to U+001F are white space to Python, but not to Unicode.
        return re.sub(r"[^\S\x1c-\x1f]+", " ", text).strip(" ").replace("\ufdd1", "\ufffd")
    return text


@every_kind
@pytest.mark.parametrize("text", [*LINES, *NASTY, "", " "])
def test_known_text_comes_back_as_its_docstring_says(
    kind: str, text: str, learnt: dict[str, Tokenizer]
) -> None:
    tokenizer = learnt[kind]
    [ids] = tokenizer.encode_batch([text])
    assert UNK not in ids
    assert tokenizer.decode_batch([ids]) == [kept(kind, text)]


@pytest.mark.parametrize("kind", ["bpe", "bpe cjk", "unigram", "unigram cjk"])
@given(text=texts)
@example(text=" <0x41>")
def test_subwords_give_back_any_text(kind: str, text: str, learnt: dict[str, Tokenizer]) -> None:
    tokenizer = learnt[kind]
    ids = tokenizer.encode_batch([text])
    assert UNK not in ids[0]
    assert tokenizer.decode_batch(ids) == [kept(kind, text)]


@pytest.mark.parametrize("kind", ["word", "word marks", "char"])
@given(text=texts)
def test_words_and_characters_give_back_any_text_they_have_seen(kind: str, text: str) -> None:
    tokenizer = learn(kind, [text])
    ids = tokenizer.encode_batch([text])
    assert UNK not in ids[0]
    assert tokenizer.decode_batch(ids) == [kept(kind, text)]


@every_kind
@given(parts=st.lists(st.sampled_from([*NAMES, "<0x41>", "<tag en>", " ", "s", "<", ">", "▁"])))
def test_no_text_produces_a_symbol_of_any_tokenizer(
    kind: str, parts: list[str], learnt: dict[str, Tokenizer]
) -> None:
    text = "".join(parts)
    [ids] = learnt[kind].encode_batch([text])
    assert not {PAD, BOS, EOS} & set(ids)
    # UNK stands for what is not in the vocabulary, never for its name.
    if kind not in ("word", "word marks"):
        assert UNK not in ids and learnt[kind].decode_batch([ids]) == [kept(kind, text)]


@every_kind
@given(text=texts)
@example(text="\u2028\xa0 x ")
@example(text="a\t\tb  c.")
def test_spans_are_parts_of_the_text_in_order(
    kind: str, text: str, learnt: dict[str, Tokenizer]
) -> None:
    tokenizer = learnt[kind]
    spans = tokenizer.spans(text)
    assert len(spans) == len(tokenizer.encode_batch([text])[0])
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    covered = {place for start, end in spans for place in range(start, end)}
    between = "".join(text[i] for i in set(range(len(text))) - covered)
    assert not between.strip(" " if kind.startswith("bpe") else None)


@every_kind
@given(
    parts=st.lists(st.sampled_from([*NASTY, "a dog. ", "中文。", " ", "\t"])),
    max_pieces=st.integers(1, 9),
)
def test_a_long_text_is_cut_without_loss_by_any_kind(
    kind: str, parts: list[str], max_pieces: int, learnt: dict[str, Tokenizer]
) -> None:
    text = "".join(parts)
    cut = split_into_parts(text, learnt[kind], max_pieces)
    assert "".join(cut) == text
    # A single character may need more pieces than that, never a longer part.
    sizes = [len(ids) for ids in learnt[kind].encode_batch(cut)]
    assert kind != "char" or max(sizes) <= max_pieces


@every_kind
def test_its_description_makes_the_same_tokenizer_of_any_kind(kind: str) -> None:
    tokenizer = learn(kind)
    copy = Tokenizer.from_json(tokenizer.to_json())
    assert copy.to_json() == tokenizer.to_json()
    assert copy.size == tokenizer.size
    assert copy.encode_batch(NASTY) == tokenizer.encode_batch(NASTY)
    assert copy.encode_batch([]) == copy.decode_batch([]) == copy.encode_batch([""])[0] == []


@pytest.mark.parametrize("kind", ["bpe cjk", "word", "char"])
def test_the_same_lines_give_the_same_tokenizer(kind: str) -> None:
    assert learn(kind).to_json() == learn(kind).to_json()


@every_kind
def test_decoding_of_any_kind_stops_at_the_end_and_skips_symbols(
    kind: str, learnt: dict[str, Tokenizer]
) -> None:
    tokenizer = learnt[kind]
    [ids] = tokenizer.encode_batch(["the dog"])
    rows = [[BOS, *ids, EOS, *ids], [PAD, UNK, *ids], [EOS], []]
    assert tokenizer.decode_batch(rows) == ["the dog", "the dog", "", ""]


@every_kind
def test_the_composed_form_is_an_option_of_every_kind(kind: str) -> None:
    text = "Ma\u0308nner"
    composing = learn(kind, [text] * 9, normalize="nfc")
    ids = composing.encode_batch([text])
    assert composing.decode_batch(ids) == [unicodedata.normalize("NFC", text)]
    assert composing.spans(text)[-1][1] == len(text)
    if kind in ("bpe", "word"):
        assert composing.pieces(text) == [text]


@every_kind
@pytest.mark.parametrize("lines", [[], ["a"], [""], ["a b a b"]])
def test_a_tiny_text_is_enough_for_any_kind(kind: str, lines: list[str]) -> None:
    assert 4 <= learn(kind, lines).size < 270


@every_kind
def test_an_error_in_the_text_comes_through_training_of_any_kind(kind: str) -> None:
    def lines() -> Iterable[str]:
        yield "good"
        raise DataError("line 2 is broken")

    with pytest.raises(DataError, match="line 2 is broken"):
        learn(kind, lines())


@every_kind
def test_training_of_any_kind_prints_nothing(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    learn(kind)
    assert capfd.readouterr() == ("", "")


def test_words_are_what_space_separates_and_if_asked_punctuation() -> None:
    assert learn("word", ["a"]).pieces("(a  b.)\tI_TURN_LEFT") == ["(a", "b.)", "I_TURN_LEFT"]
    tokenizer = learn("word marks", ["(a  b.) c-d $5 '"])
    assert tokenizer.pieces("(a  b.) c-d $5 '") == [*"(ab.)", *"c-d", *"$5", "'"]


def test_a_mark_knows_whether_a_space_stood_before_it() -> None:
    tokenizer = learn("word marks", ["a (b ) , c"])
    text = "a(b) ,c"
    [ids] = tokenizer.encode_batch([text])
    # "▁)" and "c" after a mark were not in the text; "▁(" was, "(" was not.
    assert ids.count(UNK) == 3
    assert tokenizer.decode_batch(tokenizer.encode_batch(["a (b ) , c"])) == ["a (b ) , c"]


@pytest.mark.parametrize("kind", ["word marks", "char"])
def test_only_the_frequent_pieces_are_kept(kind: str) -> None:
    lines = ["a b c c b c"] if kind == "word marks" else ["abccbc"]
    assert learn(kind, lines, vocab_size=6).pieces(lines[0]) == ["a", *"bccbc"]
    [ids] = learn(kind, lines, vocab_size=6).encode_batch(lines)
    assert [i == UNK for i in ids] == [True, False, False, False, False, False]
    [ids] = learn(kind, lines, min_frequency=3).encode_batch(lines)
    assert [i == UNK for i in ids] == [True, True, False, False, True, False]


def test_what_is_not_in_the_vocabulary_is_unknown_and_left_out() -> None:
    tokenizer = learn("word", ["the dog runs"])
    [ids] = tokenizer.encode_batch(["the cat runs"])
    assert ids[1] == UNK and ids.count(UNK) == 1
    assert tokenizer.decode_batch([ids]) == ["the runs"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_isolated_characters_merge_with_nothing(kind: str) -> None:
    lines = ["中文中文 日本語 kana カナ"] * 50
    merged = learn(kind, lines).pieces("中文中文")
    assert len(merged) < 4
    alone = learn(f"{kind} cjk", lines).pieces("x 中文中文 カナ kana")
    assert max(len(p) for p in alone if not p.isascii()) == 1
    assert kind == "unigram" or "kana" in alone


def test_a_unigram_model_says_that_a_script_does_not_fit() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size=300 is too small.*tokenizer=bpe"):
        learn("unigram", ["".join(map(chr, range(0x4E00, 0x4F00)))], vocab_size=300)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("unigram", {"vocab_size": 259}, "vocab_size=259 is too small: 256 bytes"),
        ("unigram", {"max_token_length": 0}, "max_token_length=0 should be at least 1"),
        ("unigram", {"normalize": "nfkc"}, "'nfkc'"),
        ("word", {"vocab_size": 4}, "vocab_size=4 is too small.*null for all words"),
        ("word", {"min_frequency": 0}, "min_frequency=0 should be at least 1"),
        ("word", {"isolate_punctuation": "yes"}, "should be true or false"),
        ("char", {"vocab_size": 4}, "vocab_size=4 is too small.*null for all characters"),
        ("char", {"min_frequency": -1}, "min_frequency=-1 should be at least 1"),
        ("char", {"isolate_cjk": True}, "unknown option tokenizer.isolate_cjk"),
        ("bpe", {"isolate_cjk": 1}, "should be true or false"),
    ],
)
def test_an_option_of_any_kind_out_of_range_is_refused(
    kind: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        learn(kind, **options)


def test_every_kind_of_the_table_is_tested() -> None:
    learnt_elsewhere = {"sentencepiece", "subword_nmt"}  # in test_pretrained.py
    learnt = set(TOKENIZERS) - learnt_elsewhere
    assert {str(KINDS[kind].get("name", kind)) for kind in KINDS} == learnt
