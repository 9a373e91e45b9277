"""The strengths of a system: scores by the length of the source, and by how rare words are.

Corpus scores hide both. The idea is that of compare-mt, Neubig et al. 2019, arXiv:1903.07926.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from seq2seq.languages import is_spaceless
from seq2seq.metrics.registry import References, bleu

LENGTHS = (0, 11, 21, 31, 41, 51)  # where each bucket begins
FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)  # likewise


class LengthBucket(NamedTuple):
    """The score of the sentences whose source has from `low` to `high` words."""

    low: int
    high: int | None  # None: no limit
    sentences: int
    score: float


class FrequencyBucket(NamedTuple):
    """Recall of the references' words that occur `low` to `high` times in a text."""

    low: int
    high: int | None
    words: int  # of the references
    recall: float  # in percent


def length_unit(language: str | None) -> str:
    """The unit in which sources of this language are measured."""
    return "characters" if is_spaceless(language) else "words"


def score_by_length(
    source: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    score: Callable[[list[str], References], float],
    language: str | None = None,
) -> list[LengthBucket]:
    """A score for the sentences of each range of source lengths that occurs.

    Args:
        score: of hypotheses and references.
        language: of the source: characters are counted where no spaces separate words.
    """
    spaceless = is_spaceless(language)
    lengths = [len("".join(s.split())) if spaceless else len(s.split()) for s in source]
    buckets = []
    for low, high in ranges_from(LENGTHS):
        rows = [i for i, n in enumerate(lengths) if n >= low and (high is None or n <= high)]
        if rows:
            some = [[stream[i] for i in rows] for stream in references]
            value = score([hypotheses[i] for i in rows], some)
            buckets.append(LengthBucket(low, high, len(rows), value))
    return buckets


def count_words(lines: Iterable[str], language: str | None = None) -> Counter[str]:
    """The frequency of each word of a text, split into words as by BLEU."""
    return Counter(chain.from_iterable(map(splitter(language), lines)))


def by_frequency(
    hypotheses: Sequence[str],
    references: Sequence[str],
    frequencies: Counter[str],
    language: str | None = None,
) -> list[FrequencyBucket]:
    """Recall of the references' words, by how often they occur in the training text.

    A word of a reference counts as recalled as often as its output has it too, in any position.
    Words are BLEU's, case-sensitive.

    Args:
        references: the first reference of each sentence.
        frequencies: `count_words` of the target side of the training text.
        language: of the target.
    """
    split = splitter(language)
    totals, matches = [0] * len(FREQUENCIES), [0] * len(FREQUENCIES)
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        written = Counter(split(hypothesis))
        for word, count in Counter(split(reference)).items():
            bucket = sum(frequencies[word] >= low for low in FREQUENCIES) - 1
            totals[bucket] += count
            matches[bucket] += min(count, written[word])
    return [
        FrequencyBucket(low, high, words, 100 * hits / words)
        for (low, high), words, hits in zip(ranges_from(FREQUENCIES), totals, matches, strict=True)
        if words
    ]


def ranges_from(starts: Sequence[int]) -> list[tuple[int, int | None]]:
    ends = [start - 1 for start in starts[1:]]
    return list(zip(starts, [*ends, None], strict=True))


def splitter(language: str | None) -> Callable[[str], list[str]]:
    tokenizer = bleu(language).tokenizer
    return lambda line: tokenizer(line.rstrip()).split()
