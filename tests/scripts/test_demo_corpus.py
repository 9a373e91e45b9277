"""The claims of data/README.md about data/demo, measured on the files themselves."""

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import sacrebleu

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "data" / "demo"
PARTS = ("train", "valid", "test")
SIDES = ("source", "target")


def plain(word: str) -> str:
    return word.strip(".,?!").lower()


class Pair(NamedTuple):
    """A line of the three files: words of both sides, and links between their indices."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]

    def words(self, side: int) -> list[str]:
        """The word forms of one side, without punctuation and in lower case."""
        return [plain(word) for word in (self.source, self.target)[side]]


def read(part: str) -> list[Pair]:
    columns = [
        (DEMO / f"{part}.{suffix}").read_text(encoding="utf-8").splitlines()
        for suffix in ("de", "en", "align")
    ]
    return [
        Pair(
            source.split(),
            target.split(),
            [(int(i), int(j)) for i, j in (link.split("-") for link in links.split())],
        )
        for source, target, links in zip(*columns, strict=True)
    ]


def bleu(hypotheses: list[str], pairs: list[Pair]) -> float:
    references = [" ".join(pair.target) for pair in pairs]
    return sacrebleu.corpus_bleu(hypotheses, [references]).score


pytestmark = pytest.mark.slow  # the corpus never changes, and edit distances take a while


@pytest.fixture(scope="module")
def train() -> list[Pair]:
    return read("train")


@pytest.fixture(scope="module")
def test() -> list[Pair]:
    return read("test")


@pytest.fixture(scope="module")
def readme() -> dict[str, str]:
    """The rows of the table of measurements in data/README.md."""
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (.+?) +\| +([\d.,%]+) +\|$", text, re.MULTILINE))


def test_the_sizes_are_those_of_a_small_corpus(
    train: list[Pair], test: list[Pair], readme: dict[str, str]
) -> None:
    valid = read("valid")
    assert len(valid) == len(test) == 500
    assert 10_000 <= len(train) <= 20_000
    assert sum(path.stat().st_size for path in DEMO.iterdir()) <= 3_000_000
    mean = [sum(len(pair[side]) for pair in train) / len(train) for side in (0, 1)]
    assert all(8 <= length <= 12 for length in mean)
    assert readme["Sentence pairs to train on"] == f"{len(train):,}"
    assert readme["German words a sentence"] == f"{mean[0]:.1f}"
    assert readme["English words a sentence"] == f"{mean[1]:.1f}"


def test_no_source_sentence_comes_twice() -> None:
    sources = [" ".join(pair.source) for part in PARTS for pair in read(part)]
    assert len(set(sources)) == len(sources)


def test_every_link_is_inside_its_sentences_and_unique() -> None:
    for pair in (pair for part in PARTS for pair in read(part)):
        assert pair.links == sorted(set(pair.links))
        assert all(0 <= i < len(pair.source) and 0 <= j < len(pair.target) for i, j in pair.links)


@pytest.mark.parametrize("side", [0, 1], ids=SIDES)
def test_the_vocabulary_is_rich_and_its_words_frequent(
    train: list[Pair], side: int, readme: dict[str, str]
) -> None:
    counts = Counter(word for pair in train for word in pair.words(side))
    assert len(counts) >= 800
    assert np.median(list(counts.values())) >= 30
    assert readme[f"{('German', 'English')[side]} word forms"] == f"{len(counts):,}"


@pytest.mark.parametrize("side", [0, 1], ids=SIDES)
def test_every_word_form_of_the_other_parts_occurs_in_training(
    train: list[Pair], test: list[Pair], side: int
) -> None:
    counts = Counter(word for pair in train for word in pair.words(side))
    others = test + read("valid")
    assert min(counts[word] for pair in others for word in pair.words(side)) >= 3


def glossary(train: list[Pair]) -> dict[str, str]:
    """The most frequent translation of every German word form, by the reference links."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in train:
        for i, word in enumerate(pair.source):
            linked = [pair.target[j].strip(".,?!") for source, j in pair.links if source == i]
            # Only the first word of a sentence is capitalised, and I always is.
            kept = [form if form[0] == "I" and len(form) == 1 else form.lower() for form in linked]
            counts[plain(word)][" ".join(kept)] += 1
    return {word: translations.most_common(1)[0][0] for word, translations in counts.items()}


def test_translating_word_for_word_is_not_enough(
    train: list[Pair], test: list[Pair], readme: dict[str, str]
) -> None:
    words = glossary(train)
    hypotheses = []
    for pair in test:
        translated = " ".join(filter(None, (words.get(plain(w), w) for w in pair.source)))
        hypotheses.append(translated[:1].upper() + translated[1:] + pair.source[-1][-1])
    references = [" ".join(pair.target) for pair in test]
    score = sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True).score
    assert bleu(hypotheses, test) <= score <= 35
    assert readme["BLEU of a word-for-word glossary"] == f"{score:.1f}"


def identifiers(train: list[Pair], test: list[Pair]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    vocabulary: defaultdict[str, int] = defaultdict(lambda: len(vocabulary) + 1)
    return (
        [np.array([vocabulary[word] for word in pair.words(0)]) for pair in train],
        [np.array([vocabulary[word] for word in pair.words(0)]) for pair in test],
    )


def nearest_by_words(known: list[np.ndarray], new: list[np.ndarray]) -> np.ndarray:
    """For every new sentence, the known one with the largest Dice overlap of word sets."""
    size = 1 + max(int(sentence.max()) for sentence in known + new)

    def bags(sentences: list[np.ndarray]) -> np.ndarray:
        rows = np.zeros((len(sentences), size), dtype=np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            row[sentence] = 1
        return rows

    left, right = bags(new), bags(known)
    overlap = left @ right.T
    return (overlap / (left.sum(1)[:, None] + right.sum(1)[None, :])).argmax(1)


def nearest_by_edits(known: list[np.ndarray], new: list[np.ndarray]) -> np.ndarray:
    """For every new sentence, the known one at the smallest edit distance, in one batch."""
    lengths = np.array([len(sentence) for sentence in known])
    longest = int(lengths.max())
    padded = np.zeros((longest, len(known)), dtype=np.int16)
    for column, sentence in enumerate(known):
        padded[: len(sentence), column] = sentence
    best = []
    for sentence in new:
        row = np.repeat(np.arange(longest + 1, dtype=np.int16)[:, None], len(known), axis=1)
        for word in sentence:
            substituted = np.minimum(row[:-1] + (padded != word), row[1:] + 1)
            row[0] += 1
            for j in range(longest):
                np.minimum(substituted[j], row[j] + 1, out=row[j + 1])
        best.append(int(row[lengths, np.arange(len(known))].argmin()))
    return np.array(best)


def test_repeating_the_nearest_training_sentence_is_not_enough(
    train: list[Pair], test: list[Pair], readme: dict[str, str]
) -> None:
    known, new = identifiers(train, test)
    scores = [
        bleu([" ".join(train[i].target) for i in nearest(known, new)], test)
        for nearest in (nearest_by_words, nearest_by_edits)
    ]
    assert max(scores) <= 50
    assert readme["BLEU of the nearest training sentence"] == f"{max(scores):.1f}"


def test_the_diagonal_is_a_poor_alignment(test: list[Pair], readme: dict[str, str]) -> None:
    guessed = reference = common = 0
    for source, target, links in test:
        diagonal = {
            (i, min(len(target) - 1, round(i * len(target) / len(source))))
            for i in range(len(source))
        }
        guessed, reference = guessed + len(diagonal), reference + len(links)
        common += len(diagonal.intersection(links))
    error = 1 - 2 * common / (guessed + reference)
    assert error >= 0.5
    assert readme["Alignment error rate of the diagonal"] == f"{error:.2f}"


@pytest.mark.parametrize("side", [0, 1], ids=SIDES)
def test_some_words_have_no_counterpart(
    test: list[Pair], side: int, readme: dict[str, str]
) -> None:
    words = sum(len(pair[side]) for pair in test)
    aligned = sum(len({link[side] for link in pair.links}) for pair in test)
    share = 1 - aligned / words
    assert share >= 0.05
    assert readme[f"{('German', 'English')[side]} words without a link"] == f"{share:.1%}"


def test_some_german_words_have_several_english_ones(
    test: list[Pair], readme: dict[str, str]
) -> None:
    counts = [n for pair in test for n in Counter(i for i, _ in pair.links).values()]
    share = sum(n > 1 for n in counts) / len(counts)
    assert share >= 0.10
    assert readme["Aligned German words with several English ones"] == f"{share:.1%}"
