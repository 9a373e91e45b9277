"""Hypotheses that share the tokens of their sentence, compared with separate rows."""

import random

import torch
from helpers.builders import assert_equal

from seq2seq.attention.memory import DenseMemory
from seq2seq.attention.slab import BeamTable, SlabMemory, to_slabs

CPU = torch.device("cpu")


def test_a_beam_reads_what_its_hypothesis_wrote_and_not_its_column() -> None:
    table = BeamTable(1, 2, CPU)
    table.grow(torch.tensor([0]))
    table.grow(torch.tensor([1]))
    table.fork(torch.tensor([1, 1]))
    # Both continue beam 1; places 0 2 4 6 are those of beam 0.
    table.grow(torch.tensor([2]))
    assert table.visible.int().tolist() == [[[0, 1, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1]]]
    table.fork(torch.tensor([0, 0]))
    # Of two new tokens the first does not see the second.
    table.grow(torch.tensor([3, 4]))
    assert table.visible[0].int().tolist() == [
        [0, 1, 0, 1, 1, 0, 1, 0, 0, 0],
        [0, 1, 0, 1, 1, 0, 1, 0, 1, 0],
        [0, 1, 0, 1, 1, 0, 0, 1, 0, 0],
        [0, 1, 0, 1, 1, 0, 0, 1, 0, 1],
    ]


def test_entries_list_the_tokens_of_each_hypothesis() -> None:
    """Compare with lists of what each hypothesis wrote, through forks, keeps and growth."""
    draw = random.Random(0)
    for K in (2, 3, 5):
        B, table = 4, BeamTable(4, K, CPU)
        written: list[list[int]] = [[] for _ in range(B * K)]
        while table.length < 90:
            n = draw.choice([1, 1, 1, 4])
            table.grow(table.length + torch.arange(n))
            own = range(table.length - n, table.length)
            written = [[*w, *(t * K + row % K for t in own)] for row, w in enumerate(written)]
            entries, length = table.fork_view()
            assert entries[:, :length].tolist() == written
            visible = table.visible.view(B, K, n, -1)[:, :, -1].flatten(0, 1)
            assert [sorted(w) for w in written] == [row.nonzero()[:, 0].tolist() for row in visible]
            parents = [b * K + draw.randrange(K) for b in range(B) for _ in range(K)]
            if draw.random() < 0.5:
                table.fork(torch.tensor(parents))
            else:  # as the native decoder does
                entries, length = table.fork_view()
                entries[:, :length] = entries[parents, :length]
            written = [written[parent] for parent in parents]
            if draw.random() < 0.03 and B > 1:
                left = sorted(draw.sample(range(B), B - 1))
                rows = [b * K + k for b in left for k in range(K)]
                table.keep(left, torch.tensor(rows))
                B, written = len(left), [written[row] for row in rows]


def test_tokens_are_written_once_and_do_not_move() -> None:
    table = BeamTable(2, 3, CPU)
    memory, written = SlabMemory(table), torch.randn(6, 32, 2, 4)
    table.grow(torch.tensor([0]))
    memory.append({"k": written[:, :1]})
    place = memory.read()[0]["k"].data_ptr()
    for t in range(1, 32):
        table.fork(torch.tensor([0, 0, 1, 3, 5, 5]))
        memory.fork(torch.tensor([0, 0, 1, 3, 5, 5]))
        table.grow(torch.tensor([t]))
        memory.append({"k": written[:, t : t + 1]})
    slabs = memory.read()[0]["k"]
    assert slabs.data_ptr() == place and memory.rows == 2
    for b, k, t in ((0, 0, 0), (0, 2, 5), (1, 1, 31)):
        assert_equal(slabs[b, 3 * t + k], written[3 * b + k, t], 0)
    memory.keep(torch.tensor([3, 4, 5]))
    assert_equal(memory.read()[0]["k"], slabs[1:], 0)
    assert memory.nbytes == 3 * 32 * 2 * 4 * 4


def test_a_memory_that_cannot_be_shared_stays_in_rows() -> None:
    memory = DenseMemory()
    assert to_slabs(memory, BeamTable(2, 3, CPU)) is memory
