import pickle
import random
import unicodedata
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, NAMES, PAD, UNK
from seq2seq.decoding.constraints.spelling import Spelling, count_occurrences
from seq2seq.text.tokenization.registry import TOKENIZERS
from seq2seq.text.tokenization.tokenizer import Tokenizer

LINES = [
    "The dog sees the cats, and the cat's house (a greenhouse)",
    "We're \"here\", they've left; you'll see 12 dogs in 3 houses.",
    "Männer sähen die Äpfel der Mädchen.",
    "我的房子很大，中文中文没有空格。 东京都の中の家",
    "naïve 👩‍👩‍👧 ▁ <s> <0x41> שלום עולם हिन्दी भाषा",
] * 3
KINDS = {
    "bpe": ("bpe", {"vocab_size": 500}),
    "bpe nfc cjk": ("bpe", {"vocab_size": 400, "normalize": "nfc", "isolate_cjk": True}),
    "bpe bytes": ("bpe", {"vocab_size": 260}),
    "unigram": ("unigram", {"vocab_size": 460}),
    "unigram nfc cjk": ("unigram", {"vocab_size": 440, "normalize": "nfc", "isolate_cjk": True}),
    "word": ("word", {}),
    "word punctuation": ("word", {"isolate_punctuation": True}),
    "char": ("char", {}),
}
OPEN = [kind for kind in KINDS if kind.startswith(("bpe", "unigram"))]  # can spell anything
SPACED = [kind for kind in KINDS if kind.startswith(("unigram", "word"))]
every_kind = pytest.mark.parametrize("kind", KINDS)
open_kind = pytest.mark.parametrize("kind", OPEN)

hostile = st.text(st.characters(exclude_categories=["Cs"]))
# What tokenizers cut in surprising places.
familiar = st.lists(
    st.sampled_from(
        [*"aehos'rlvtdm ", "  ", "\n", "the", " dog", " cats", "'re", "'ll", ".", "<", "▁", "中文"]
        + [
            "房子",
            "，",
            "の",
            "12",
            "é",
            "न्",
            "👩‍👩‍👧",
            "\0",
            "\u0301",
            "\ufdd0",
            "\ue000",
            "\u3000",
        ]
    )
).map("".join)
texts = st.one_of(hostile, familiar)


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    name, options = KINDS[kind]
    return TOKENIZERS.find(name)(**options).train(LINES).with_tags(["de"])


@cache
def spelling_of(kind: str) -> Spelling:
    return Spelling(tokenizer_of(kind))


def normal(kind: str, text: str) -> str:
    """A text as the tokenizer normalizes it."""
    if "nfc" in kind:
        text = unicodedata.normalize("NFC", text)
    if kind.startswith("unigram"):
        text = text.replace("\ufdd0", "\ufffd").replace("\ufdd1", "\ufffd")
    if kind.startswith("word"):
        text = " ".join(text.replace("\ufdd1", "\ufffd").split())
    return text


def read(kind: str, written: bytes) -> str:
    """The text of the bytes that pieces write, if they are a whole text."""
    text = written.decode("utf-8", "replace")
    if kind in SPACED:
        text = text.removeprefix(" ").replace("\ufdd0", "<").replace("\ufdd1", "▁")
    return text


def joined(kind: str, ids: list[int]) -> bytes:
    return b"".join(spelling_of(kind).writes[i] for i in ids)


def known_text(kind: str, seed: int) -> str:
    """Random words of the training text, which every tokenizer knows."""
    generator = random.Random(seed)
    if kind == "char":
        return "".join(generator.choices("".join(LINES), k=30))
    words = " ".join(LINES).replace("\u3000", " ").split()
    return " ".join(generator.choices(words, k=6))


def bytewise(kind: str, rest: bytes) -> set[int]:
    """The ids that may continue a text which must go on with `rest`, by the definition."""
    writes = spelling_of(kind).writes

    @cache
    def can(rest: bytes) -> bool:
        return any(
            written and (written.startswith(rest) or (rest.startswith(written) and can(left)))
            for written in set(writes)
            for left in [rest[len(written) :]]
        )

    return {
        i
        for i, written in enumerate(writes)
        if written
        and (written.startswith(rest) or (rest.startswith(written) and can(rest[len(written) :])))
    }


@every_kind
@given(text=texts)
@example(text=" ")
@example(text="'")
def test_the_pieces_of_a_text_write_that_text(kind: str, text: str) -> None:
    tokenizer, spelling = tokenizer_of(kind), spelling_of(kind)
    [ids] = tokenizer.encode_batch([text])
    assert read(kind, joined(kind, ids)) == tokenizer.decode_batch([ids])[0]
    if UNK not in ids:
        assert read(kind, joined(kind, ids)) == normal(kind, text)
    if UNK not in ids and not kind.startswith("word"):  # which drop a space at the end
        assert spelling.bytes_of(text) == joined(kind, ids) or not text


@every_kind
def test_a_piece_writes_what_the_tokenizer_decodes(kind: str) -> None:
    tokenizer, spelling = tokenizer_of(kind), spelling_of(kind)
    after, first = tokenizer.texts(), tokenizer.decode_batch([[i] for i in range(tokenizer.size)])
    assert len(spelling.writes) == tokenizer.size
    for i, written in enumerate(spelling.writes):
        if "\ufffd" not in after[i]:
            text = written.decode()
            assert text.replace("\ufdd0", "<").replace("\ufdd1", "▁") == after[i]
            assert read(kind, written) == first[i]
    silent = [i for i, written in enumerate(spelling.writes) if not written]
    assert silent == [*range(len(NAMES)), tokenizer.tag_id("de")]


def walk(kind: str, prefix: str, generator: random.Random) -> list[int]:
    """Pieces that begin with a prefix, chosen at random among those allowed."""
    spelling = spelling_of(kind)
    forced, rest = spelling.extend(prefix)
    ids = [*forced]
    while rest:
        allowed = spelling.pieces_for(rest).tolist()
        assert allowed == sorted(allowed)
        assert set(allowed) == bytewise(kind, rest)
        assert allowed, f"nothing may follow: {rest!r}"
        ids.append(generator.choice(allowed))
        left = rest[len(spelling.writes[ids[-1]]) :]
        assert len(left) < len(rest)
        rest = left
    return ids


@open_kind
@given(prefix=texts, seed=st.integers(0, 9))
def test_any_beginning_can_be_continued(kind: str, prefix: str, seed: int) -> None:
    ids = walk(kind, prefix, random.Random(seed))
    assert read(kind, joined(kind, ids)).startswith(normal(kind, prefix))
    assert not {PAD, BOS, EOS, UNK} & set(ids)


@every_kind
def test_known_texts_cut_anywhere_are_continued(kind: str) -> None:
    generator = random.Random(1)
    for seed in range(300):
        text = known_text(kind, seed)
        prefix = text[: generator.randrange(len(text) + 1)]
        ids = walk(kind, prefix, generator)
        [decoded] = tokenizer_of(kind).decode_batch([ids])
        assert decoded.startswith(normal(kind, prefix))


@every_kind
@given(text=texts, known=st.integers(0, 20), ends=st.tuples(*[st.integers(0, 40)] * 2))
def test_pieces_that_may_continue_any_bytes_follow_the_definition(
    kind: str, text: str, known: int, ends: tuple[int, int]
) -> None:
    written = (text if known > 10 else known_text(kind, known)).encode()
    rest = written[min(ends) : max(ends)]
    allowed = spelling_of(kind).pieces_for(rest).tolist()
    assert allowed == sorted(bytewise(kind, rest))


@open_kind
@given(text=texts, place=st.integers(0, 50))
@example(text="it're", place=4)
@example(text="  \n  x", place=2)
@example(text="中文中文中文没有空格", place=5)
def test_later_text_does_not_change_the_forced_pieces(kind: str, text: str, place: int) -> None:
    tokenizer, spelling = tokenizer_of(kind), spelling_of(kind)
    text = normal(kind, text)
    [ids] = tokenizer.encode_batch([text])
    forced, rest = spelling.extend(text[:place])
    assert ids[: len(forced)] == forced
    for piece in ids[len(forced) :]:  # and the usual pieces of the whole text are allowed
        assert not rest or piece in spelling.pieces_for(rest)
        rest = rest[len(spelling.writes[piece]) :]
    assert rest == b""


@pytest.mark.parametrize("kind", ["word", "word punctuation", "char"])
def test_the_words_of_a_known_text_are_among_those_allowed(kind: str) -> None:
    tokenizer, spelling = tokenizer_of(kind), spelling_of(kind)
    for seed in range(100):
        text = known_text(kind, seed)
        [ids] = tokenizer.encode_batch([text])
        for place in range(len(text) + 1):
            forced, rest = spelling.extend(text[:place])
            assert ids[: len(forced)] == forced
            for piece in ids[len(forced) :]:
                assert not rest or piece in spelling.pieces_for(rest)
                rest = rest[len(spelling.writes[piece]) :]
            # A space at the end of a text is not part of it.
            assert rest == b"" or (rest == b" " and place == len(text))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_only_the_last_word_is_open(kind: str) -> None:
    tokenizer, spelling = tokenizer_of(kind), spelling_of(kind)
    [the] = tokenizer.encode_batch(["The"])
    assert spelling.extend("The do") == (the, b" do")
    assert spelling.extend("The ") == (the, b" ")
    assert spelling.extend("") == ([], b"")


def test_text_without_spaces_is_forced_up_to_its_last_pieces() -> None:
    for kind in ("bpe", "unigram"):
        long = "中文中文没有空格我的房子很大" * 20
        forced, rest = spelling_of(kind).extend(long)
        [ids] = tokenizer_of(kind).encode_batch([long])
        assert forced == ids[: len(forced)] and len(ids) - len(forced) <= 3
        assert long.encode().endswith(rest)


def test_characters_are_all_forced() -> None:
    forced, rest = spelling_of("char").extend("The do ")
    assert [spelling_of("char").writes[i] for i in forced] == [
        b"T",
        b"h",
        b"e",
        *b" |d|o| ".split(b"|"),
    ]
    assert rest == b""


@pytest.mark.parametrize(
    ("kind", "prefix", "named"),
    [
        ("word", "The xylophone sees", "xylophone"),
        ("word punctuation", "The dogx", "dogx"),
        ("char", "The Zebra", "Z"),
    ],
)
def test_a_word_without_pieces_is_named(kind: str, prefix: str, named: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot write '{named}'.*tokenizer=bpe"):
        spelling_of(kind).extend(prefix)


def test_a_rest_that_no_pieces_spell_allows_no_piece() -> None:
    assert spelling_of("word").pieces_for(b" xylophone").tolist() == []
    assert spelling_of("char").pieces_for(b"aZ").tolist() == []


@every_kind
@pytest.mark.parametrize("phrase", ["the cat's house", "dog", " house ", "Männer", "中文"])
def test_spellings_contain_the_phrase_and_are_different(kind: str, phrase: str) -> None:
    spelling = spelling_of(kind)
    try:
        found = spelling.spellings(phrase)
    except ConfigError:
        assert not kind.startswith(("bpe", "unigram"))
        return
    assert len(set(map(tuple, found))) == len(found) > 0
    for ids in found:
        assert phrase.strip().encode() in joined(kind, ids)
        for some in (ids[1:], ids[:-1]):  # no piece too many
            assert phrase.strip().encode() not in joined(kind, some)


@every_kind
def test_the_phrase_in_a_text_is_one_of_its_spellings(kind: str) -> None:
    [ids] = tokenizer_of(kind).encode_batch([LINES[0]])
    for phrase in ("cats", "The", "greenhouse", "house", "The dog"):
        for spelt in spelling_of(kind).spellings(phrase):
            if any(ids[i : i + len(spelt)] == spelt for i in range(len(ids))):
                break
        else:
            pytest.fail(f"{phrase} is not found in {kind}")


def test_bpe_spells_a_phrase_with_and_without_the_space() -> None:
    tokenizer = tokenizer_of("bpe")
    inside, start = tokenizer.encode_batch(["a the dog", "the dog"])
    assert spelling_of("bpe").spellings("the dog") == [inside[1:], start]


def test_unigram_spells_a_phrase_with_and_without_the_space() -> None:
    written = [joined("unigram", ids) for ids in spelling_of("unigram").spellings("dog")]
    assert written[0] == b" dog" and b"dog" in written


def test_a_word_with_its_punctuation_may_be_a_piece() -> None:
    spelling = spelling_of("word")
    written = [[spelling.writes[i] for i in ids] for ids in spelling.spellings("3 houses")]
    assert written == [[b" 3", b" houses."]]


@pytest.mark.parametrize(("phrase", "named"), [("the xylophone", "xylophone"), ("Zebra", "Zebra")])
def test_a_phrase_without_spellings_is_named(phrase: str, named: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot write '{named}'"):
        spelling_of("word").spellings(phrase)


@pytest.mark.parametrize("phrase", ["", "  "])
def test_an_empty_phrase_is_refused(phrase: str) -> None:
    with pytest.raises(ConfigError, match="a phrase is empty"):
        spelling_of("bpe").spellings(phrase)


@pytest.mark.parametrize(
    ("phrase", "text", "there"),
    [
        ("house", "a house.", True),
        ("house", "(house)", True),
        ("house", "houses, greenhouse, house", True),
        ("house", "houses greenhouse house_2", False),
        ("green house", "a green house's door", True),
        ("C++", "in C++11", True),
        ("भाषा", "भाषाएँ", False),
        ("房子", "我的房子很大", False),
        ("", "", True),
    ],
)
def test_a_phrase_occurs_as_whole_words(phrase: str, text: str, there: bool) -> None:
    assert count_occurrences(phrase, text) == there
    assert (count_occurrences(phrase, text, anywhere=True) > 0) == (phrase in text)


@every_kind
def test_a_spelling_that_was_used_can_be_pickled(kind: str) -> None:
    ours = spelling_of(kind)
    expected = ours.spellings("dogs")
    theirs = pickle.loads(pickle.dumps(ours))
    assert theirs.writes == ours.writes and theirs.spellings("dogs") == expected
