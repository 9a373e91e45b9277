"""Rows of different ages in one memory each continue as if they were alone."""

import pytest
import torch
from cases import DIM, Case, by_default_kernel, every, in_cross, in_decoder, randn
from helpers.builders import assert_equal, mask_of

from seq2seq.attention.base import Encoded, positions_of
from seq2seq.attention.memory import DenseMemory, JointMemory


def of_no_fixed_length(case: Case) -> bool:
    """True if one memory can hold rows of different lengths without pages."""
    memory = (case.build().new_memory if in_decoder(case) else lambda: None)()
    return case.mechanism.can_merge and not isinstance(memory, DenseMemory | JointMemory)


@every(in_decoder, by_default_kernel, of_no_fixed_length)
@torch.no_grad()
def test_rows_of_different_ages_continue_as_if_alone(case: Case) -> None:
    attention, total = case.build(), 50
    x, ages = randn(6, total, DIM), torch.tensor([0, 0, 3, 3, 37, 0])

    def part(rows: slice, length: int) -> object:
        memory = attention.new_memory()
        if length:
            positions = torch.arange(length)
            attention.advance(x[rows, :length], memory, positions)
        return memory

    memory = part(slice(0, 2), 0)
    memory.merge(part(slice(2, 4), 3), 2, 2)
    memory.merge(part(slice(4, 5), 37), 4, 1)
    memory.merge(part(slice(5, 6), 0), 5, 1)
    assert memory.rows == 6
    rows, expected = torch.arange(6), attention(x).out
    for n in (1, 3, 1, 1, 2):
        positions = ages[:, None] + torch.arange(n)
        out = attention.advance(x[rows[:, None], positions], memory, positions)
        assert_equal(out, expected[rows[:, None], positions])
        ages = ages + n
        for verb, chosen in [("fork", [0, 1, 2, 2, 4, 4, 5]), ("keep", [0, 2, 3, 4, 5, 6])]:
            index = torch.tensor(chosen)
            getattr(memory, verb)(index)
            rows, ages = rows[index], ages[index]


@every(in_decoder, by_default_kernel, of_no_fixed_length)
@torch.no_grad()
def test_rows_of_one_age_stay_in_step(case: Case) -> None:
    attention, x = case.build(), randn(4, 9, DIM)
    both = [attention.new_memory() for _ in range(2)]
    for memory, rows in zip(both, x.split([1, 3]), strict=True):
        attention.advance(rows[:, :7], memory, torch.arange(7))
    both[0].merge(both[1], 1, 3)
    out = attention.advance(x[:, 7:], both[0], torch.arange(7, 9))
    assert_equal(out, attention(x).out[:, 7:])


@every(in_decoder, by_default_kernel, lambda case: not case.mechanism.can_merge)
def test_memories_that_cannot_merge_say_so(case: Case) -> None:
    attention = case.build()
    with pytest.raises(ValueError, match="rows of one length"):
        attention.new_memory().merge(attention.new_memory(), 1, 1)


@every(in_cross, by_default_kernel)
@torch.no_grad()
def test_sources_merge_or_say_why_not(case: Case) -> None:
    attention, lengths = case.build(), [7, 4, 9, 1]
    source, x = randn(4, 9, DIM), randn(4, 5, DIM)
    memory, other = (
        attention.memory_of(
            Encoded(source[rows, : max(lengths[rows])], mask_of(lengths[rows], size))
        )
        for rows, size in ((slice(0, 2), 7), (slice(2, 4), 9))
    )
    if isinstance(memory, DenseMemory | JointMemory):
        with pytest.raises(ValueError, match="pages=PagePool"):
            memory.merge(other, 2, 2)
        return
    memory.merge(other, 2, 2)
    memory.keep(torch.tensor([0, 2, 3]))
    mask, rows = mask_of(lengths, 9), [0, 2, 3]
    need_weights = attention.shows_weights
    expected = attention(x[rows], source[rows], mask[rows], need_weights)
    assert_equal(attention.attend(x[rows], memory, positions_of(x), need_weights), expected)
