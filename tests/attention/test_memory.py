"""Memories, compared with plain lists of what was put in."""

import random

import torch
from helpers.builders import assert_equal, mask_of
from torch import Tensor

from seq2seq.attention import StateMemory
from seq2seq.attention.memory import DenseMemory, JointMemory


def streams(rows: int, tokens: int) -> dict[str, Tensor]:
    shapes = {"k": (2, 3), "v": (1, 5)}  # heads and widths
    return {name: torch.randn(rows, tokens, *shape) for name, shape in shapes.items()}


def test_a_dense_memory_reads_what_was_appended_through_any_forks() -> None:
    for _ in range(20):
        memory, rows = DenseMemory(), 3
        expected = {name: x[:, :0] for name, x in streams(rows, 1).items()}
        for _ in range(30):
            verb = random.choice(["append", "append", "append", "fork", "keep"])
            if verb == "append" or not memory.length:
                new = streams(rows, random.choice([1, 1, 1, 2, 7, 40]))
                memory.append(new)
                expected = {name: torch.cat((expected[name], new[name]), dim=1) for name in new}
            else:
                chosen = random.choices(range(rows), k=random.randint(1, 4))
                index = torch.tensor(chosen if verb == "fork" else sorted(set(chosen)))
                getattr(memory, verb)(index)
                rows = len(index)
                expected = {name: x[index] for name, x in expected.items()}
            read, mask = memory.read()
            assert mask is None and memory.rows == rows
            assert_equal(read, expected, 0)


def stored(memory: DenseMemory) -> dict[str, Tensor]:
    """What is remembered, as the native decoder reads it: rows of the storage, by an index."""
    kept = memory.kept
    rows = {name: x if kept is None else x[kept] for name, x in memory.storage.items()}
    return {name: x[:, :, : memory.length].transpose(1, 2) for name, x in rows.items()}


def test_removed_rows_stay_in_storage_until_the_others_are_copied() -> None:
    """Rows are dropped while tokens are written in place, as the native decoder does."""
    for _ in range(20):
        memory, rows = DenseMemory(), 9
        expected = {name: x[:, :0] for name, x in streams(rows, 1).items()}
        for _ in range(40):
            verb = random.choice(["extend", "extend", "extend", "append", "keep", "read", "bytes"])
            if verb in ("extend", "append") or not memory.length:
                new = streams(rows, random.choice([1, 1, 2, 20]))
                if verb == "extend":
                    start = memory.length
                    memory.extend(new, new["k"].shape[1])
                    for name, x in memory.storage.items():
                        at = torch.arange(rows) if memory.kept is None else memory.kept
                        x[at, :, start : memory.length] = new[name].transpose(1, 2)
                else:
                    memory.append(new)
                expected = {name: torch.cat((expected[name], new[name]), dim=1) for name in new}
            elif verb == "keep":
                index = torch.tensor(sorted(random.sample(range(rows), max(1, rows - 1))))
                before = {name: x.data_ptr() for name, x in memory.storage.items()}
                memory.keep(index)
                rows = len(index)
                expected = {name: x[index] for name, x in expected.items()}
                assert {name: x.data_ptr() for name, x in memory.storage.items()} == before
            elif verb == "read":
                assert_equal(memory.read()[0], expected, 0)
                assert memory.kept is None
            else:
                assert memory.nbytes == sum(x.nbytes for x in expected.values())
            assert memory.rows == rows
            assert_equal(stored(memory), expected, 0)


def test_a_whole_sequence_and_its_mask_lose_the_same_rows() -> None:
    given, mask = streams(5, 7), mask_of([7, 4, 2, 1, 5], 7)
    memory = DenseMemory.of(given, mask)
    memory.keep(torch.tensor([0, 2, 3, 4]))
    memory.keep(torch.tensor([1, 3]))
    assert memory.rows == 2 and torch.equal(memory.kept, torch.tensor([2, 4]))  # type: ignore[arg-type]
    assert memory.mask is not None and torch.equal(memory.mask, mask[[2, 4]])
    assert_equal(stored(memory), {name: x[[2, 4]] for name, x in given.items()}, 0)
    memory.compact()
    assert memory.kept is None and len(memory.storage["k"]) == 2
    assert_equal(memory.read()[0], {name: x[[2, 4]] for name, x in given.items()}, 0)
    memory.keep(torch.tensor([], dtype=torch.long))
    assert memory.rows == 0 and memory.nbytes == 0


def test_an_index_is_copied_so_that_its_owner_may_change_it() -> None:
    memory, given, parents = DenseMemory(), streams(2, 3), torch.tensor([1, 1])
    memory.append(given)
    memory.fork(parents)
    parents[:] = 0
    assert_equal(memory.read()[0], {name: x[[1, 1]] for name, x in given.items()}, 0)


def test_a_whole_sequence_is_not_copied() -> None:
    given = streams(2, 7)
    read, _ = DenseMemory.of(given, None).read()
    assert all(read[name].data_ptr() == given[name].data_ptr() for name in given)


def test_appending_rarely_moves_the_tokens() -> None:
    memory, places = DenseMemory(), set()
    for _ in range(1000):
        memory.append(streams(1, 1))
        places.add(memory.read()[0]["k"].data_ptr())
    # 32, 64, ... 1024: doubling
    assert len(places) <= 6


def test_a_state_memory_moves_all_its_tensors_together() -> None:
    state = {"hidden": torch.randn(3, 2, 4), "sums": torch.randn(3, 5)}
    memory = StateMemory(**state)
    memory.fork(torch.tensor([2, 2, 0, 1]))
    memory.keep(torch.tensor([1, 3]))
    assert memory.rows == 2
    assert_equal(memory.state, {name: x[[2, 1]] for name, x in state.items()}, 0)


def test_a_joint_memory_moves_its_tokens_and_its_state_together() -> None:
    given, state = streams(3, 4), torch.randn(3, 5)
    memory = JointMemory(DenseMemory(), StateMemory(sums=state))
    memory.append(given)
    assert memory.rows == 3 and memory.nbytes == 3 * (4 * 11 + 5) * 4
    memory.fork(torch.tensor([2, 2, 0, 1]))
    memory.keep(torch.tensor([1, 3]))
    assert memory.rows == 2
    read, mask = memory.read()
    assert mask is None
    assert_equal(read, {name: x[[2, 1]] for name, x in given.items()}, 0)
    assert_equal(memory.context.state["sums"], state[[2, 1]], 0)


def test_tensors_with_gradients_can_be_forked() -> None:
    memory, new = DenseMemory(), streams(3, 2)
    memory.append({name: x.requires_grad_() for name, x in new.items()})
    memory.fork(torch.tensor([2, 0, 0]))
    assert_equal(memory.read()[0], {name: x[[2, 0, 0]] for name, x in new.items()}, 0)


def test_a_given_sequence_is_never_written_to() -> None:
    given, mask = streams(3, 7), mask_of([7, 4, 2], 7)
    before = {name: x.clone() for name, x in given.items()}
    memory = DenseMemory.of(given, mask)
    for rows in ([2, 1, 0], [1, 2], [0]):
        memory.keep(torch.tensor(rows))
    assert_equal(given, before, 0)
    assert_equal(memory.read()[0], {name: x[[1]] for name, x in before.items()}, 0)
