"""The ring of the last tokens, compared with a plain list of all tokens."""

import random

import torch
from helpers.builders import assert_equal, mask_of
from torch import Tensor

from seq2seq.attention.ring import RingMemory
from seq2seq.functional.local import Keys


def streams(rows: int, tokens: int) -> dict[str, Tensor]:
    shapes = {"k": (2, 3), "v": (1, 5)}  # heads and widths
    return {
        name: torch.randn(rows, heads, tokens, width) for name, (heads, width) in shapes.items()
    }


def assert_reads(seen: Keys, everything: dict[str, Tensor], start: int, end: int) -> None:
    assert seen.mask is None and seen.start == start
    k, v = (x[:, :, start:end] for x in everything.values())
    assert_equal((seen.k, seen.v), (k, v), 0)


def test_a_ring_holds_the_last_and_the_first_tokens_through_any_forks() -> None:
    for _ in range(40):
        size, first, rows = random.randint(1, 9), random.randint(0, 5), 3
        memory = RingMemory(size, first)
        everything = {name: x[:, :, :0] for name, x in streams(rows, 1).items()}
        for _ in range(30):
            verb = random.choice(["append", "append", "append", "fork", "keep"])
            if verb == "append" or not memory.length:
                new = streams(rows, random.choice([1, 1, 1, 2, 7, 40]))
                before = max(0, memory.length - size)
                seen = memory.append(new)
                everything = {name: torch.cat((x, new[name]), 2) for name, x in everything.items()}
                # The new tokens may read all that was there before them, and themselves.
                assert_reads(seen.read(), everything, before, memory.length)
                assert_reads(seen.read_first(), everything, 0, min(first, memory.length))
            else:
                chosen = random.choices(range(rows), k=random.randint(1, 4))
                index = torch.tensor(chosen if verb == "fork" else sorted(set(chosen)))
                getattr(memory, verb)(index)
                rows = len(index)
                everything = {name: x[index] for name, x in everything.items()}
            assert memory.rows == rows
            start = max(0, memory.length - size)
            assert_reads(memory.read(), everything, start, memory.length)
            assert_reads(memory.read_first(), everything, 0, min(first, memory.length))


def test_a_ring_does_not_grow_with_the_text() -> None:
    memory = RingMemory(size=4, first=2)
    for tokens in (3, 100, 1):
        memory.append(streams(3, tokens))
        # three rows, two heads of width three and one of five, in float32
        assert memory.nbytes == 3 * (min(4, memory.length) + 2) * (2 * 3 + 5) * 4
        held = [x.untyped_storage().nbytes() for x in memory._last.values()]
        assert sum(held) == 3 * min(4, memory.length) * (2 * 3 + 5) * 4


def test_a_whole_sequence_keeps_its_mask_and_is_not_copied() -> None:
    given, mask = streams(3, 7), mask_of([7, 4, 2], 7)
    memory = RingMemory.of(given, mask, first=3)
    seen = memory.read()
    assert seen.k.data_ptr() == given["k"].data_ptr() and seen.v.data_ptr() == given["v"].data_ptr()
    memory.keep(torch.tensor([0, 2]))
    seen, head = memory.read(), memory.read_first()
    assert_equal((seen.k, seen.v), tuple(x[[0, 2]] for x in given.values()), 0)
    assert_equal((head.k, head.v), tuple(x[[0, 2], :, :3] for x in given.values()), 0)
    assert seen.mask is not None and torch.equal(seen.mask, mask[[0, 2]])
    assert head.mask is not None and torch.equal(head.mask, mask[[0, 2], :3])
