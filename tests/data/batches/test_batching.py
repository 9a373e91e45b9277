import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
import torch
from helpers.small_corpora import corpus_in_memory
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import PAD
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import BatchLoader, EvalBatches, prefetch, select_share
from seq2seq.data.batches.batching import batch_ends, epoch_batches, stable_argsort
from seq2seq.data.corpus.corpus import Corpus

pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=80)


def batches_of(
    lengths: list[tuple[int, int]], max_tokens: int = 64, seed: int = 1, epoch: int = 0
) -> list[list[int]]:
    source, target = (np.array([pair[side] for pair in lengths], np.int32) for side in (0, 1))
    batches = epoch_batches(source, target, max_tokens=max_tokens, seed=seed, epoch=epoch)
    return [batch.tolist() for batch in batches]


@pytest.fixture
def corpus() -> Corpus:
    random = np.random.default_rng(5)
    return corpus_in_memory(random.integers(1, 30, 101), random.integers(1, 30, 101))


@given(lengths=pairs, max_tokens=st.integers(31, 200), epoch=st.integers(0, 3))
def test_every_row_is_in_one_batch_of_an_epoch(
    lengths: list[tuple[int, int]], max_tokens: int, epoch: int
) -> None:
    batches = batches_of(lengths, max_tokens, epoch=epoch)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert all(batches)


@given(lengths=pairs, max_tokens=st.integers(31, 200))
def test_no_batch_is_larger_than_allowed(lengths: list[tuple[int, int]], max_tokens: int) -> None:
    for batch in batches_of(lengths, max_tokens):
        longest = max(max(lengths[row]) + 1 for row in batch)
        assert len(batch) * longest <= max_tokens


@given(lengths=pairs, max_tokens=st.integers(31, 200))
def test_every_epoch_has_equally_many_batches(
    lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    counts = {len(batches_of(lengths, max_tokens, epoch=epoch)) for epoch in range(5)}
    assert len(counts) == 1


@given(longer=st.lists(st.integers(1, 30), max_size=60).map(sorted), max_tokens=st.integers(31, 99))
def test_a_batch_ends_where_one_more_row_would_not_fit(longer: list[int], max_tokens: int) -> None:
    expected, start = [], 0
    for row, length in enumerate(longer):
        if (row + 1 - start) * (length + 1) > max_tokens:
            expected.append(row)
            start = row
    if longer:
        expected.append(len(longer))
    assert batch_ends(np.array(longer, np.int32), max_tokens) == expected


def test_a_sentence_that_fits_no_batch_is_refused() -> None:
    assert batches_of([(3, 9)], max_tokens=10) == [[0]]
    with pytest.raises(ConfigError, match=r"has 11 pieces.*data\.max_tokens=10: .*=11 or more"):
        batches_of([(10, 3)], max_tokens=10)


def test_an_epoch_is_a_function_of_seed_and_index() -> None:
    lengths = [(1 + i % 7, 1 + i % 5) for i in range(200)]
    assert batches_of(lengths, seed=3, epoch=2) == batches_of(lengths, seed=3, epoch=2)
    epochs = [batches_of(lengths, seed=seed, epoch=n) for seed, n in ((3, 2), (3, 3), (4, 2))]
    contents = [{frozenset(batch) for batch in batches} for batches in epochs]
    # Not only the order changes: batches are made of other rows.
    assert contents[0] != contents[1]
    assert contents[0] != contents[2]


def test_batches_are_not_ordered_by_length() -> None:
    batches = batches_of([(1 + i % 25, 1 + i % 25) for i in range(500)])
    longest = [max(row % 25 for row in batch) for batch in batches]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))
    ordered = epoch_batches(
        *np.full((2, 9), range(9)), max_tokens=9, seed=1, epoch=0, shuffle=False
    )
    assert np.concatenate(ordered).tolist() == list(range(9))


@pytest.mark.parametrize("name", ["demo", "multi30k"])
def test_less_than_a_tenth_of_real_batches_is_padding(
    name: str, real_lengths: Callable[[str], tuple[np.ndarray, np.ndarray]]
) -> None:
    source, target = real_lengths(name)
    batches = epoch_batches(source, target, max_tokens=4096, seed=1, epoch=0)
    cells = sum(len(b) * (source[b].max() + target[b].max() + 2) for b in batches)
    tokens = source.sum() + target.sum() + 2 * len(source)
    assert 1 - tokens / cells < 0.1


@given(
    rows=st.lists(st.integers(0, 99), unique=True),
    world=st.integers(1, 5),
    steps=st.integers(1, 4),
)
def test_shares_are_disjoint_and_make_up_the_batch(rows: list[int], world: int, steps: int) -> None:
    batch = np.array(rows)
    shares = [
        select_share(batch, rank, world, step, steps).tolist()
        for rank in range(world)
        for step in range(steps)
    ]
    assert sorted(row for each in shares for row in each) == sorted(rows)
    sizes = [len(each) for each in shares]
    assert max(sizes) - min(sizes) <= 1


def test_shares_of_a_sorted_batch_have_similar_lengths() -> None:
    shares = [
        select_share(np.arange(100), rank, 2, step, 2) for rank in range(2) for step in range(2)
    ]
    assert max(each.mean() for each in shares) - min(each.mean() for each in shares) <= 3


@pytest.mark.parametrize(("world", "steps"), [(1, 1), (3, 1), (1, 2), (2, 3)])
def test_all_ranks_and_steps_together_see_the_global_batches(
    world: int, steps: int, corpus: Corpus
) -> None:
    loaders = [
        BatchLoader(corpus, max_tokens=64, seed=1, rank=rank, world=world, steps=steps)
        for rank in range(world)
    ]
    lengths = corpus.source_lengths, corpus.target_lengths
    for epoch in range(2):
        expected = epoch_batches(*lengths, max_tokens=64, seed=1, epoch=epoch)
        seen = [list(loader) for loader in loaders]
        assert {len(batches) for batches in seen} == {len(expected) * steps} == {len(loaders[0])}
        for index, rows in enumerate(expected):
            pieces = [b for batches in seen for b in batches[index * steps : (index + 1) * steps]]
            assert sorted(i for piece in pieces for i in piece.indices) == sorted(rows.tolist())
            assert sum(int((p.target[:, 1:] != PAD).sum()) for p in pieces) == pieces[0].total
            assert len({piece.total for piece in pieces}) == 1


def same(one: list[Batch], two: list[Batch]) -> bool:
    return len(one) == len(two) and all(
        torch.equal(a.source, b.source)
        and torch.equal(a.target, b.target)
        and (a.total, a.indices.tolist()) == (b.total, b.indices.tolist())
        for a, b in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("stops", [(3, 7), (1, 0), (0, 2), (5, None), (None, 4)])
@pytest.mark.parametrize(("rank", "steps"), [(0, 1), (1, 2)])
def test_interrupting_twice_changes_nothing(
    stops: tuple[int | None, int | None], rank: int, steps: int, corpus: Corpus
) -> None:
    def loader() -> BatchLoader:
        return BatchLoader(corpus, max_tokens=100, seed=9, rank=rank, world=2, steps=steps)

    uninterrupted = loader()
    expected = [batch for _ in range(4) for batch in uninterrupted]
    seen: list[Batch] = []
    state = None
    for stop in stops:
        each = loader()
        if state is not None:
            each.load_state_dict(state)
        # The rest of an epoch, then some batches of the next; None: all of them.
        seen += list(each)
        seen += list(islice(each, stop))
        state = each.state_dict()
    last = loader()
    last.load_state_dict(state)
    while len(seen) < len(expected):
        seen += list(last)
    assert same(seen[: len(expected)], expected)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_state_taken_between_epochs_starts_at_the_next(corpus: Corpus, epoch: int) -> None:
    before, resumed = (BatchLoader(corpus, max_tokens=100, seed=9) for _ in range(2))
    for _ in range(epoch):
        assert len(list(before)) == len(before)
    resumed.load_state_dict(before.state_dict())
    assert same(list(resumed), list(before))
    assert resumed.state_dict() == before.state_dict() == {"epoch": epoch, "position": len(before)}


def test_reading_exactly_the_length_finishes_an_epoch(corpus: Corpus) -> None:
    loader = BatchLoader(corpus, max_tokens=100, seed=9)
    for epoch in range(3):
        list(islice(loader, len(loader)))
        assert loader.state_dict() == {"epoch": epoch, "position": len(loader)}


def test_the_state_counts_the_batches_that_were_yielded_on_every_rank(corpus: Corpus) -> None:
    states = []
    for rank in range(3):
        loader = BatchLoader(corpus, max_tokens=100, seed=9, rank=rank, world=3)
        assert len(list(islice(loader, 2))) == 2
        states.append(loader.state_dict())
    assert states == [{"epoch": 0, "position": 2}] * 3


def test_a_state_beyond_the_epoch_is_refused(corpus: Corpus) -> None:
    loader = BatchLoader(corpus, max_tokens=1000, seed=9)
    with pytest.raises(ConfigError, match=f"at batch 99 .* has {len(loader)}"):
        loader.load_state_dict({"epoch": 0, "position": 99})


@pytest.mark.parametrize(
    "arguments", [{"rank": 2, "world": 2}, {"rank": -1}, {"steps": 0}, {"seed": -1}]
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, int], corpus: Corpus) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        BatchLoader(corpus, **{"max_tokens": 100, "seed": 0, **arguments})


@pytest.mark.parametrize("world", [1, 2, 5])
def test_evaluation_sees_every_sentence_once_in_order_of_length(world: int, corpus: Corpus) -> None:
    ranks = [EvalBatches(corpus, max_tokens=40, rank=rank, world=world) for rank in range(world)]
    assert len({len(batches) for batches in ranks}) == 1
    steps = [[i for batch in step for i in batch.indices] for step in zip(*ranks, strict=True)]
    assert sorted(row for step in steps for row in step) == list(range(len(corpus)))
    longer = np.maximum(corpus.source_lengths, corpus.target_lengths)
    longest = [int(longer[step].max()) for step in steps]
    assert longest == sorted(longest)
    if world == 5:
        # A batch of fewer sentences than ranks: some rank has none, but takes as many steps.
        assert any(len(batch.indices) == 0 for batches in ranks for batch in batches)


def test_batches_are_made_ahead_and_their_thread_ends_with_them() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(20):
            made.append(i)
            yield i
        raise ValueError("the end")

    before = threading.active_count()
    ahead = prefetch(items(), 3)
    assert [next(ahead) for _ in range(5)] == list(range(5))
    while len(made) < 8:  # until the thread has made three more
        time.sleep(0.001)
    ahead.close()
    assert threading.active_count() == before and len(made) < 11
    with pytest.raises(ValueError, match="the end"):
        list(prefetch(items(), 3))
    assert threading.active_count() == before


def test_the_thread_has_ended_when_the_process_does() -> None:
    """Otherwise Python aborts if the thread is busy."""
    script = """if True:
        import atexit, itertools, sys, threading
        from seq2seq.data.batches.batch_loader import prefetch

        atexit.register(lambda: print(threading.active_count()))  # the last to be called
        ahead = prefetch(itertools.count(), 3)
        next(ahead)
        sys.exit(3)
    """
    ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=300)
    assert (ended.returncode, ended.stdout) == (3, b"1\n")


@given(
    values=st.lists(st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, 1.5, -1.5]))
)
def test_the_fast_sort_is_the_stable_one(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert stable_argsort(array).tolist() == np.argsort(array, kind="stable").tolist()
