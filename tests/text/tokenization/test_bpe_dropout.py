"""Our merges against the library's, and the effect of dropping some."""

from collections import Counter
from itertools import islice, repeat

import pytest
from helpers.tiny_runs import DEMO, tokenizer

from seq2seq.base.errors import ConfigError
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.bpe_dropout import BPEDropout, draw_drops
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.text.tokenization.unigram import Unigram

HOSTILE = [
    "",
    " ",
    "  two  spaces  ",
    "\ttabs\tand\u00a0no break\u2028line",
    "<s> </s> <pad> <unk> <tag de>",
    "don't they'll I'VE 's",
    "naïve café ÄÖÜß Straße",
    "e\u0301 composed é",
    "日本語のテキスト 中文 한국어",
    "👩‍👩‍👧‍👦 🇩🇪 \U0010ffff",
    "\x00\x01\x7f\x80",
    "a" * 300,
    "ababababab" * 20,
    "1234567890,.;:!?()[]{}",
    "İstanbul ﬁne ẞ",
    "\ufeffmark",
]


@pytest.fixture(scope="module")
def learnt() -> tuple[Tokenizer, list[str]]:
    """A tokenizer learnt from all of data/demo, and the lines."""
    lines = [
        line
        for part in ("train", "valid", "test")
        for side in ("de", "en")
        for line in (DEMO / f"{part}.{side}").read_text(encoding="utf-8").splitlines()
    ]
    return ByteLevelBPE(vocab_size=2000).train(lines), lines


def plain(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    merger = BPEDropout(tokenizer)
    return [merger.segment(text, repeat(False)) for text in texts]


def test_without_drops_the_demo_corpus_is_cut_as_the_library_cuts_it(
    learnt: tuple[Tokenizer, list[str]],
) -> None:
    pieces, lines = learnt
    assert plain(pieces, lines) == pieces.encode_batch(lines)


@pytest.mark.parametrize("isolate", [True, False])
def test_without_drops_hostile_text_is_cut_as_the_library_cuts_it(isolate: bool) -> None:
    # Learnt from itself, so that merges join bytes of characters and runs of one letter.
    pieces = ByteLevelBPE(vocab_size=600, isolate_cjk=isolate).train(HOSTILE * 3)
    assert plain(pieces, HOSTILE) == pieces.encode_batch(HOSTILE)


def test_whatever_is_dropped_the_text_comes_back(learnt: tuple[Tokenizer, list[str]]) -> None:
    pieces, lines = learnt
    merger, texts = BPEDropout(pieces), [*HOSTILE, *lines[:100]]
    for p in (0.1, 0.5, 0.9):
        rows = [merger.segment(text, draw_drops(p, 1, 0, i, 0)) for i, text in enumerate(texts)]
        assert pieces.decode_batch(rows) == texts


def test_if_all_is_dropped_there_are_bytes() -> None:
    text = "Das Kind schläft."
    rows = BPEDropout(tokenizer()).segment(text, repeat(True))
    assert len(rows) == len(text.encode())


def small() -> BPEDropout:
    """Merges a b, then ab c, then b c."""
    pieces = ByteLevelBPE(vocab_size=263).train(["ab"] * 9 + ["abc"] * 5 + ["bc"] * 2)
    return BPEDropout(pieces)


def test_the_first_merge_that_is_not_dropped_is_made() -> None:
    merger = small()
    a, b, c = (merger.segment(letter, repeat(False))[0] for letter in "abc")
    ab, abc, bc = (merger.segment(word, repeat(False))[0] for word in ("ab", "abc", "bc"))
    for drawn, expected in (
        ((False, False), [abc]),
        ((False, True), [ab, c]),
        ((True, False), [a, bc]),
        ((True, True), [a, b, c]),
    ):
        # Merges that need a dropped one are not possible: no more draws.
        assert merger.segment("abc", iter(drawn)) == expected


def test_a_merge_is_dropped_with_its_probability_and_not_for_good() -> None:
    merger = small()
    words = [tuple(merger.segment("abc", draw_drops(0.3, 1, 0, row, 0))) for row in range(4000)]
    shares = sorted(count / 4000 for count in Counter(words).values())
    # a b c: both dropped; ab c: the second dropped; a bc: the first only; abc: none.
    expected = sorted([0.3 * 0.3, 0.7 * 0.3, 0.3 * 0.7, 0.7 * 0.7])
    assert shares == pytest.approx(expected, abs=0.03)
    # In ab ab, a merge that is dropped in one step may be applied in the next.
    pieces = ByteLevelBPE(vocab_size=261).train(["ab"] * 9)
    rows = BPEDropout(pieces).segment("abab", iter((True, False, False)))
    assert rows == BPEDropout(pieces).segment("abab", repeat(False))


def test_draws_are_a_function_of_seed_epoch_row_and_side() -> None:
    def first(*key: int) -> tuple[bool, ...]:
        return tuple(islice(draw_drops(0.5, *key), 200))

    keys = [(1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)]
    assert len({first(*key) for key in keys}) == len(keys)
    assert all(first(*key) == first(*key) for key in keys)


def test_draws_are_true_with_their_probability() -> None:
    for p in (0.0, 0.1, 0.5, 0.999):
        drawn = list(islice(draw_drops(p, 2**32 - 1, 5, 7, 1), 20_000))
        assert sum(drawn) / 20_000 == pytest.approx(p, abs=0.012)


def test_only_merges_can_be_dropped() -> None:
    pieces = Unigram(vocab_size=300).train(["a text of a few words", "and another one"])
    with pytest.raises(ConfigError, match="tokenizer=bpe"):
        BPEDropout(pieces)
