"""Scores by length and by rare words."""

from collections import Counter

from sacrebleu.metrics.bleu import BLEU

from seq2seq.metrics.buckets import by_frequency, count_words, length_unit, score_by_length
from seq2seq.metrics.registry import References


def bleu(hypotheses: list[str], references: References) -> float:
    return BLEU().corpus_score(hypotheses, references).score


def test_each_sentence_is_in_the_bucket_of_its_source() -> None:
    lengths = [0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 900]
    source = [" ".join(["w"] * n) for n in lengths]
    texts = [f"{n} a b c d" for n in lengths]
    buckets = score_by_length(source, texts, [texts], lambda some, _: float(some[-1].split()[0]))
    rows = [(b.low, b.high, b.sentences, b.score) for b in buckets]
    assert rows == [
        (0, 10, 3, 10),
        (11, 20, 2, 20),
        (21, 30, 2, 30),
        (31, 40, 2, 40),
        (41, 50, 2, 50),
        (51, None, 2, 900),
    ]


def test_a_bucket_is_scored_as_a_separate_corpus() -> None:
    source = ["a b", "w " * 15, "c d"]
    hypotheses = ["a cat sat here", "x y z w", "the dog runs very far"]
    references = ["a cat sat there", "x y z v", "the dog runs too far"]
    short, long = score_by_length(source, hypotheses, [references], bleu)
    assert short.score == bleu(hypotheses[::2], [references[::2]])
    assert long.score == bleu(hypotheses[1:2], [references[1:2]])


def test_sources_without_spaces_are_measured_in_characters() -> None:
    buckets = score_by_length(["他们在公园里跑步他们在公园"], ["x"], [["x"]], bleu, "zh")
    assert [(b.low, b.sentences) for b in buckets] == [(11, 1)]
    assert (length_unit("zh"), length_unit("de"), length_unit(None)) == (
        "characters",
        "words",
        "words",
    )


def test_recall_of_rare_words_by_pencil_and_paper() -> None:
    frequencies = Counter({"the": 5000, "dog": 3, "axolotl": 1})
    hypotheses = ["the dog sees the newt", "the axolotl"]
    references = ["the dog sees the axolotl", "an axolotl"]
    buckets = by_frequency(hypotheses, references, frequencies)
    rows = {bucket.low: (bucket.words, bucket.recall) for bucket in buckets}
    # Never seen: sees (recalled) and an (not); once: axolotl, one of two; the: two of two.
    assert rows == {0: (2, 50), 1: (2, 50), 2: (1, 100), 1000: (2, 100)}


def test_a_word_that_is_written_once_is_recalled_once() -> None:
    (bucket,) = by_frequency(["a"], ["a a a a"], Counter())
    assert (bucket.words, bucket.recall) == (4, 25)


def test_words_are_those_of_bleu() -> None:
    assert count_words(["A dog, a dog."]) == {"A": 1, "dog": 2, ",": 1, "a": 1, ".": 1}
    assert count_words(["我爱我"], "zh") == {"我": 2, "爱": 1}
