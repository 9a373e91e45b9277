"""The contract of attention, continued: the memories of decoding."""

from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded, positions_of
from seq2seq.attention.memory import StateMemory
from seq2seq.attention.page_pool import PagePool
from seq2seq.models.state import DecodeState
from seq2seq.testing.subject import DIM, Subject, assert_equal, mask_of, randn

CPU = torch.device("cpu")


def advance(attention: Any, x: Tensor, memory: Any, start: int, steps: list[int]) -> Tensor:
    """Decode x (N, T, E), whose first token has the position `start`, in steps of these sizes."""
    outs = []
    for piece in x.split(steps, dim=1):
        positions = torch.arange(start, start + piece.shape[1])
        outs.append(attention.advance(piece, memory, positions))
        start += piece.shape[1]
    return torch.cat(outs, dim=1)


@torch.no_grad()
def check_steps(subject: Subject) -> None:
    """Decoding one or several tokens at a time gives the same outputs as training."""
    attention, x = subject.build(), randn(2, 65, DIM)
    for steps in [1], [1] * 7, [2, 3, 2], [7], [1] * 65, [31, 1, 1, 32], [65]:
        memory, tokens = attention.new_memory(), x[:, : sum(steps)]
        assert_equal(advance(attention, tokens, memory, 0, steps), attention(tokens).out)
        assert memory.rows == 2, f"a memory of two rows says that it has {memory.rows}"


@torch.no_grad()
def check_positions_by_row(subject: Subject) -> None:
    """Positions may be given separately for each row, (N, n)."""
    attention, x = subject.build(), randn(2, 7, DIM)
    memory = attention.new_memory()
    positions = torch.arange(7).expand(2, 7)
    outs = [
        attention.advance(x[:, part], memory, positions[:, part])
        for part in (slice(0, 4), slice(4, 5), slice(5, 7))
    ]
    assert_equal(torch.cat(outs, dim=1), attention(x).out)


@torch.no_grad()
def check_fork(subject: Subject, verb: str = "fork") -> None:
    """After a fork, a row continues as if it had always been a copy of its parent.

    Args:
        verb: method of the memory to check, `fork` or `keep`.
    """
    attention = subject.build()
    rows = torch.tensor([2, 0, 2, 1] if verb == "fork" else [0, 2])
    past, future = randn(3, 40, DIM), randn(len(rows), 3, DIM)
    memory = attention.new_memory()
    advance(attention, past, memory, 0, [33, 7])
    getattr(memory, verb)(rows)
    assert memory.rows == len(rows), f"{memory.rows} rows after `{verb}` of {len(rows)}"
    continued = advance(attention, future, memory, 40, [1, 2])
    whole = attention(torch.cat((past[rows], future), dim=1)).out
    assert_equal(continued, whole[:, 40:])


def check_keep(subject: Subject) -> None:
    """Rows that are kept continue as if the others had never existed."""
    check_fork(subject, "keep")


@torch.no_grad()
def check_kept_source(subject: Subject) -> None:
    """Sources that are kept give the same outputs as if the others had never existed."""
    attention, rows = subject.build(), torch.tensor([0, 2])
    source, mask, x = randn(3, 7, DIM), mask_of([7, 4, 2], 7), randn(2, 5, DIM)
    memory = attention.memory_of(Encoded(source, mask))
    assert memory.rows == 3, f"a memory of three sources says that it has {memory.rows}"
    memory.keep(rows)
    assert memory.rows == 2, f"{memory.rows} rows after `keep` of 2"
    expected = attention(x, source[rows], mask[rows]).out
    assert_equal(attention.attend(x, memory, positions_of(x)).out, expected)


@torch.no_grad()
def check_beams_as_queries(subject: Subject) -> None:
    """The beams of a sentence share its source, and give the same outputs as with a copy each."""
    attention, K, n = subject.build(), 3, 4
    source, mask, x = randn(2, 7, DIM), mask_of([7, 3], 7), randn(2 * K, n, DIM)
    memory = attention.memory_of(Encoded(source, mask))
    for_each_beam = Encoded(source.repeat_interleave(K, 0), mask.repeat_interleave(K, 0))
    tiled = attention.memory_of(for_each_beam)
    positions = torch.arange(5, 5 + n)
    need_weights = attention.shows_weights
    beams = attention.attend_beams(x, memory, positions, need_weights)
    assert_equal(beams, attention.attend(x, tiled, positions, need_weights))
    every_row = attention.attend_beams(x, memory, positions.expand(2 * K, n), need_weights)
    assert_equal(every_row, beams)


@torch.no_grad()
def check_size_of_memory(subject: Subject) -> None:
    """A decoder's memory reports its size: half the rows take half the bytes."""
    attention = subject.build()
    memory = attention.new_memory()
    attention.advance(randn(4, 9, DIM), memory, torch.arange(9))
    whole = memory.nbytes
    assert isinstance(whole, int) and whole > 0, f"after nine tokens `nbytes` is {whole}"
    memory.keep(torch.tensor([1, 2]))
    assert 2 * memory.nbytes == whole, f"{memory.nbytes} bytes are left of {whole}"


@torch.no_grad()
def check_decoding(subject: Subject) -> None:
    """Beams in shared batches, with or without pages, give the same outputs as separate rows."""
    attention, B, K, length = subject.build(), 3, 4, 0
    rows = attention.new_memory()
    states = [
        DecodeState([StateMemory(none=randn(B, 1))], [attention.new_memory()], K, CPU, pool)
        for pool in (None, PagePool(200, 4))
    ]
    for n in (1, 1, 3, 1, 2, 5, 1):
        x = randn(K * B, n, DIM)
        expected = attention.advance(x, rows, length + torch.arange(n))
        for state in states:
            assert_equal(attention.advance(x, state.past[0], state.begin(n)), expected)
        length += n
        parents = (K * torch.arange(B)[:, None] + torch.randint(K, (B, K))).flatten()
        rows.fork(parents)
        for state in states:
            state.fork(parents)
        if length == 5:
            B = 2
            rows.keep(torch.tensor([0, 1, 2, 3, 8, 9, 10, 11]))
            for state in states:
                state.keep(torch.tensor([0, 2]))


@torch.no_grad()
def check_ages(subject: Subject) -> None:
    """With pages, sentences that started at different times can be decoded together."""
    attention, pool, x = subject.build(), PagePool(200, 4), randn(2, 9, DIM)
    old, young = (
        DecodeState([StateMemory(none=randn(1, 1))], [attention.new_memory()], 1, CPU, pool)
        for _ in range(2)
    )
    attention.advance(x[:1, :4], old.past[0], old.begin(4))
    old.merge(young)
    expected = attention(x).out
    for t in range(4):
        step = torch.stack((x[0, 4 + t], x[1, t]))[:, None]
        out = attention.advance(step, old.past[0], old.begin(1))
        assert_equal(out[:, 0], torch.stack((expected[0, 4 + t], expected[1, t])))
