import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from helpers.small_corpora import corpus_in_memory
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.batches import batching
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.batches.batching import batch_ends, chunks, epoch_batches, max_lengths, sample
from seq2seq.data.corpus.corpus import Corpus, Share

weights = st.sampled_from([0.001, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 3.3])


@st.composite
def weighted(draw: st.DrawFn) -> tuple[np.ndarray, list[Share]]:
    """Lengths of some rows, cut into shares with weights."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    ends = np.cumsum(sizes).tolist()
    lengths = draw(st.lists(st.integers(1, 30), min_size=ends[-1], max_size=ends[-1]))
    starts = [0, *ends[:-1]]
    shares = [Share(a, b, draw(weights)) for a, b in zip(starts, ends, strict=True)]
    return np.array(lengths, np.uint16), shares


def generator(seed: int | tuple[int, int]) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn_rows(longer: np.ndarray, shares: Sequence[Share], seed: int) -> np.ndarray:
    return np.concatenate(list(chunks(sample(longer, shares, generator(seed)))))


@given(case=weighted(), seed=st.integers(0, 99))
def test_rows_are_visited_as_often_as_their_weight(
    case: tuple[np.ndarray, list[Share]], seed: int
) -> None:
    longer, shares = case
    counts = Counter(drawn_rows(longer, shares, seed).tolist())
    for start, stop, weight in shares:
        each = [counts[row] for row in range(start, stop)]
        assert set(each) <= {int(weight), int(weight) + 1}
        rounded = weight * (stop - start)
        assert abs(sum(each) - rounded) < 0.5 + 1e-9 or (rounded < 1 and sum(each) == 1)


@given(case=weighted(), seed=st.integers(0, 99))
def test_the_lengths_of_an_epoch_never_exceed_their_bounds(
    case: tuple[np.ndarray, list[Share]], seed: int
) -> None:
    longer, shares = case
    visited = np.sort(longer[drawn_rows(longer, shares, seed)])
    bound = max_lengths(longer, shares)
    assert len(visited) == len(bound)
    assert (visited <= bound).all()


@pytest.mark.parametrize("fraction", [0.3, 0.7])
def test_every_row_is_drawn_with_the_same_probability(fraction: float) -> None:
    longer = np.array([1, 2, 2, 2, 3, 5, 5, 8, 9, 9], np.uint16)
    drawn = Counter(
        row
        for seed in range(2000)
        for row in drawn_rows(longer, [Share(0, 10, fraction)], seed).tolist()
    )
    # Four standard deviations of a binomial count of 2,000 draws.
    spread = 4 * (2000 * fraction * (1 - fraction)) ** 0.5
    assert all(abs(drawn[row] - 2000 * fraction) < spread for row in range(10))


@given(case=weighted(), seed=st.integers(0, 5))
def test_weighted_epochs_have_equally_many_batches_that_all_fit(
    case: tuple[np.ndarray, list[Share]], seed: int
) -> None:
    longer, shares = case
    counts = set()
    for epoch in range(4):
        batches = epoch_batches(
            longer.astype(np.int32),
            np.ones(len(longer), np.int32),
            max_tokens=64,
            seed=seed,
            epoch=epoch,
            shares=shares,
        )
        counts.add(len(batches))
        assert all(len(batch) * (int(longer[batch].max()) + 1) <= 64 for batch in batches)
    assert len(counts) == 1


def test_an_epoch_of_many_rows_is_ordered_in_little_memory() -> None:
    rows = 1_000_000
    lengths = generator(1).integers(1, 60, (2, rows)).astype(np.int32)
    tracemalloc.start()
    try:
        batches = epoch_batches(*lengths, max_tokens=4096, seed=1, epoch=0)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A row number has four bytes; the list of batches some more.
    assert sum(map(len, batches)) == rows
    assert kept < 5 * rows and peak < 16 * rows


@pytest.mark.parametrize("weights", [(), (1.0, 1.0), (2.5, 0.4)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_is_sorted_cut_into_batches_and_shuffled(
    weights: tuple[float, ...], shuffle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = generator(6).integers(1, 30, (2, 500)).astype(np.int32)
    longer = np.maximum(source, target).astype(np.uint16)
    starts = (0, 200), (200, 500)
    shares = [Share(*span, weight) for span, weight in zip(starts, weights, strict=False)]
    limits: dict[str, Any] = {"max_tokens": 90, "seed": 3, "epoch": 2}

    random = generator((3, 2))
    each = shares if shares else [(0, 500, 1.0)]
    rows: list[int] = []
    for start, stop, weight in each:
        rows += [*range(start, stop)] * int(weight)
        if weight % 1:
            rows += drawn(start, stop, round(weight % 1 * (stop - start)), longer, random)
    noise = random.random(len(rows), dtype=np.float32) * np.float32(3) * np.float32(shuffle)

    def key(i: int) -> tuple[int, float]:
        row = rows[i]
        difference = np.float32(target[row] - source[row]) + noise[i]
        return int(longer[row]), float(-difference if longer[row] % 2 else difference)

    order = [rows[i] for i in sorted(range(len(rows)), key=key)]
    cuts = batch_ends(max_lengths(longer, shares or [Share(0, 500, 1)]), 90)
    expected = [order[a:b] for a, b in pairwise([0, *cuts])]
    if shuffle:
        expected = [expected[i] for i in random.permutation(len(expected))]
    # In one part, and in many.
    for size in (batching.CHUNK, 7):
        monkeypatch.setattr(batching, "CHUNK", size)
        batches = epoch_batches(source, target, **limits, shuffle=shuffle, shares=shares)
        assert [batch.tolist() for batch in batches] == expected
        assert len(batches) == len(expected)


def drawn(
    start: int, stop: int, count: int, longer: np.ndarray, random: np.random.Generator
) -> list[int]:
    """A sample of the rows: in order of length, at equal distances from a random start."""
    ordered = sorted(random.permutation(np.arange(start, stop)), key=lambda row: longer[row])
    begin = random.random()
    return [int(ordered[int((i + begin) * (len(ordered) / count))]) for i in range(count)]


def test_an_epoch_read_to_its_length_is_not_kept() -> None:
    rows = 50_000
    lengths = generator(1).integers(1, 20, rows).astype(np.int32)
    corpus = corpus_in_memory(lengths, lengths)
    loader = BatchLoader(corpus, max_tokens=2000, seed=1)
    next(iter(loader))
    tracemalloc.start()
    try:
        reader = iter(loader)
        for _ in range(len(loader)):
            next(reader)
        kept = tracemalloc.get_traced_memory()[0]
        assert next(reader, None) is None
    finally:
        tracemalloc.stop()
    assert kept < 3 * rows


def corpus_of_two(weights: Sequence[float]) -> Corpus:
    """Two components of 30 and 50 pairs."""
    lengths = generator(3).integers(1, 20, 80).astype(np.int32)
    return corpus_in_memory(lengths, lengths, kept=[30, 50], weights=weights)


Loader = Callable[[], BatchLoader]


@pytest.fixture
def loader() -> Loader:
    return lambda: BatchLoader(corpus_of_two([2.5, 0.4]), max_tokens=90, seed=4)


def test_a_loader_samples_components_by_their_weights(loader: Loader) -> None:
    each = loader()
    epochs = [[i for batch in each for i in batch.indices] for _ in range(3)]
    for rows in epochs:
        assert len([row for row in rows if row < 30]) == 75
        assert len([row for row in rows if row >= 30]) == 20
    assert epochs[0] != epochs[1]
    assert len({frozenset(row for row in rows if row >= 30) for rows in epochs}) == 3


def test_interrupting_a_weighted_epoch_changes_nothing(loader: Loader) -> None:
    whole, stopped, resumed = loader(), loader(), loader()
    expected = [batch.indices.tolist() for _ in range(2) for batch in whole]
    seen = [batch.indices.tolist() for batch in islice(stopped, 3)]
    resumed.load_state_dict(stopped.state_dict())
    seen += [batch.indices.tolist() for _ in range(2) for batch in resumed]
    assert seen == expected
