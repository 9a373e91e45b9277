"""Scores by length."""

from sacrebleu.metrics.bleu import BLEU

from seq2seq.metrics.assessment import Assessor, LengthBucket, length_unit
from seq2seq.metrics.registry import References, find_metrics


def score_by_length(
    metric: str, source: list[str], hypotheses: list[str], reference: list[str], language: str
) -> list[LengthBucket]:
    kinds = find_metrics([metric])
    return Assessor(source, [reference], kinds, (language, None)).assess(hypotheses).lengths


def bleu(hypotheses: list[str], references: References) -> float:
    return BLEU().corpus_score(hypotheses, references).score


def test_each_sentence_is_in_the_bucket_of_its_source() -> None:
    lengths = [0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 900]
    source = [" ".join(["w"] * n) for n in lengths]
    texts = [f"{n} a b c d" for n in lengths]
    right = [text if n % 10 else "" for text, n in zip(texts, lengths, strict=True)]
    buckets = score_by_length("exact", source, right, texts, "en")
    rows = [(b.low, b.high, b.sentences, round(b.score, 6)) for b in buckets]
    assert rows == [
        (0, 10, 3, round(100 / 3, 6)),
        (11, 20, 2, 50),
        (21, 30, 2, 50),
        (31, 40, 2, 50),
        (41, 50, 2, 50),
        (51, None, 2, 50),
    ]


def test_a_bucket_is_scored_as_a_separate_corpus() -> None:
    source = ["a b", "w " * 15, "c d"]
    hypotheses = ["a cat sat here", "x y z w", "the dog runs very far"]
    references = ["a cat sat there", "x y z v", "the dog runs too far"]
    short, long = score_by_length("bleu", source, hypotheses, references, "en")
    assert short.score == bleu(hypotheses[::2], [references[::2]])
    assert long.score == bleu(hypotheses[1:2], [references[1:2]])


def test_sources_without_spaces_are_measured_in_characters() -> None:
    buckets = score_by_length("bleu", ["他们在公园里跑步他们在公园"], ["x"], ["x"], "zh")
    assert [(b.low, b.sentences) for b in buckets] == [(11, 1)]
    assert (length_unit("zh"), length_unit("de"), length_unit(None)) == (
        "characters",
        "words",
        "words",
    )
