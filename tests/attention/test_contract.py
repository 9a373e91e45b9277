"""The contract of attention: sentences that hold for every mechanism, role, position and kernel.

What is tested comes from conf/attn and the tables, see `cases`.
"""

import itertools
from typing import Any

import pytest
import torch
from cases import (
    BUILT,
    DIM,
    SIZES,
    Case,
    by_default_kernel,
    every,
    in_cross,
    in_decoder,
    inputs_of,
    lengths_of,
    randn,
    reads_source,
)
from helpers import assert_equal, gradients, mask_of
from torch import Tensor

from seq2seq.attention import Role
from seq2seq.attention.base import Encoded, positions_of


@every(reads_source)
def test_padding_is_invisible(case: Case) -> None:
    for size in SIZES:
        attention, lengths = case.build(), lengths_of(size)
        parameters = list(attention.parameters())
        x, source, mask, real = inputs_of(case, size)
        assert mask is not None
        with torch.no_grad():
            (x if source is None else source).copy_(
                torch.where(mask[..., None], randn(3, size, DIM), 1e3 * randn(3, size, DIM))
            )
        attended = x if source is None else source
        out = attention(x, source, mask).out
        slope = randn(*out.shape) * real[..., None]
        of_attended, *of_parameters = gradients((out * slope).sum(), attended, *parameters)

        # The same rows, each alone and without any padding.
        sums = [torch.zeros_like(p) for p in parameters]
        for row, length in enumerate(lengths):
            alone = attended[row : row + 1, :length].detach().requires_grad_()
            answer = attention(*((alone,) if source is None else (x[row : row + 1], alone))).out
            T = answer.shape[1]
            assert_equal(out[row : row + 1, :T], answer)
            of_alone, *more = gradients((answer * slope[row, :T]).sum(), alone, *parameters)
            assert_equal(of_attended[row : row + 1, :length], of_alone)
            assert not of_attended[row, length:].any()
            sums = [total + one for total, one in zip(sums, more, strict=True)]
        assert_equal(of_parameters, sums)


@every(reads_source)
def test_a_row_of_padding_only_is_an_answer_to_nothing(case: Case) -> None:
    attention, size = case.build(), 7
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):  # what a projection adds to zeros
                parameter.zero_()
    given = inputs_of(case, size)
    out = attention(given.x, given.source, mask_of([size, 0, 3], size)).out
    assert not out[1].any()
    assert out[[0, 2]].any()
    for slope in gradients(out.square().sum(), *given.leaves, *attention.parameters()):
        assert slope.isfinite().all()


@every(in_decoder)
def test_the_future_is_invisible(case: Case) -> None:
    for size in SIZES:
        attention = case.build()
        x = randn(2, size, DIM).requires_grad_()
        out = attention(x).out
        for now in {1, (size + 1) // 2, size}:
            future = torch.arange(size) >= now
            other = torch.where(future[:, None], 1e3 * randn(2, size, DIM), x)
            assert_equal(attention(other).out[:, :now], out[:, :now])
            assert_equal(attention(x[:, :now]).out, out[:, :now])
            (slope,) = torch.autograd.grad(out[:, :now].square().sum(), x, retain_graph=True)
            assert not slope[:, now:].any()
            assert slope[:, :now].any()


def advance(attention: Any, x: Tensor, memory: Any, start: int, steps: list[int]) -> Tensor:
    """Feed x (N, T, E), whose first token stands at `start`, in pieces of these lengths."""
    outs = []
    for piece in x.split(steps, dim=1):
        positions = torch.arange(start, start + piece.shape[1])
        outs.append(attention.advance(piece, memory, positions))
        start += piece.shape[1]
    return torch.cat(outs, dim=1)


@every(in_decoder)
@torch.no_grad()
def test_one_by_one_equals_all_at_once(case: Case) -> None:
    attention, x = case.build(), randn(2, 65, DIM)
    for steps in [1], [1] * 7, [2, 3, 2], [7], [1] * 65, [31, 1, 1, 32], [65]:
        memory, tokens = attention.new_memory(), x[:, : sum(steps)]
        assert_equal(advance(attention, tokens, memory, 0, steps), attention(tokens).out)
        assert memory.rows == 2


@every(in_decoder, by_default_kernel)
@torch.no_grad()
def test_positions_may_be_given_for_every_row(case: Case) -> None:
    attention, x = case.build(), randn(2, 7, DIM)
    memory = attention.new_memory()
    positions = torch.arange(7).expand(2, 7)
    outs = [
        attention.advance(x[:, part], memory, positions[:, part])
        for part in (slice(0, 4), slice(4, 5), slice(5, 7))
    ]
    assert_equal(torch.cat(outs, dim=1), attention(x).out)


@every(in_decoder, by_default_kernel)
@pytest.mark.parametrize("verb", ["fork", "keep"])
@torch.no_grad()
def test_fork_then_continue_equals_starting_there(case: Case, verb: str) -> None:
    attention = case.build()
    rows = torch.tensor([2, 0, 2, 1] if verb == "fork" else [0, 2])
    past, future = randn(3, 40, DIM), randn(len(rows), 3, DIM)
    memory = attention.new_memory()
    advance(attention, past, memory, 0, [33, 7])
    getattr(memory, verb)(rows)
    assert memory.rows == len(rows)
    continued = advance(attention, future, memory, 40, [1, 2])
    whole = attention(torch.cat((past[rows], future), dim=1)).out
    assert_equal(continued, whole[:, 40:])


@every(in_cross, by_default_kernel)
@torch.no_grad()
def test_a_kept_source_answers_like_one_that_was_alone(case: Case) -> None:
    attention, rows = case.build(), torch.tensor([0, 2])
    source, mask, x = randn(3, 7, DIM), mask_of([7, 4, 2], 7), randn(2, 5, DIM)
    memory = attention.memory_of(Encoded(source, mask))
    assert memory.rows == 3
    memory.keep(rows)
    assert memory.rows == 2
    assert_equal(
        attention.attend(x, memory, positions_of(x)).out, attention(x, source[rows], mask[rows]).out
    )


@every(in_cross, by_default_kernel)
@torch.no_grad()
def test_beams_are_queries(case: Case) -> None:
    attention, K, n = case.build(), 3, 4
    source, mask, x = randn(2, 7, DIM), mask_of([7, 3], 7), randn(2 * K, n, DIM)
    memory = attention.memory_of(Encoded(source, mask))
    tiled = attention.memory_of(
        Encoded(source.repeat_interleave(K, 0), mask.repeat_interleave(K, 0))
    )
    positions = torch.arange(5, 5 + n)
    need_weights = attention.shows_weights
    beams = attention.attend_beams(x, memory, positions, need_weights)
    assert_equal(beams, attention.attend(x, tiled, positions, need_weights))
    every_row = attention.attend_beams(x, memory, positions.expand(2 * K, n), need_weights)
    assert_equal(every_row, beams)


@every(by_default_kernel)
def test_the_answer_depends_on_queries_and_source_as_the_class_says(case: Case) -> None:
    attention, given = case.build(), inputs_of(case, 7)
    out = attention(given.x, given.source, given.mask).out[given.real]
    of_queries, *_, of_attended = gradients(out.square().sum(), given.x, *given.leaves)
    # In self-attention the queries are the source too. What cancels in the softmax leaves rounding.
    reads = attention.reads_queries or case.role is not Role.CROSS
    assert (of_queries.abs().max() > 1e-9) == reads
    assert of_attended.any()


@every(by_default_kernel)
def test_gradients_reach_every_parameter(case: Case) -> None:
    attention, (x, source, mask, real) = case.build(), inputs_of(case, 7)
    attention(x, source, mask).out[real].square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys may cancel in the softmax; a matrix never does.
        assert parameter.dim() < 2 or parameter.grad.any(), name


@every(by_default_kernel)
def test_the_state_dict_survives_a_round_trip(case: Case) -> None:
    saved, fresh = case.build(seed=1), case.build(seed=2)
    x, source, mask, _ = inputs_of(case, 7)
    expected = saved(x, source, mask).out
    if saved.state_dict():
        assert not torch.allclose(fresh(x, source, mask).out, expected)
    fresh.load_state_dict(saved.state_dict(), strict=True)
    assert torch.equal(fresh(x, source, mask).out, expected)


@every()
def test_every_precision_runs(case: Case) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        attention, given = case.build().to(dtype), inputs_of(case, 65, dtype)
        mask = None if given.mask is None else mask_of([65, 7, 0], 65)
        out = attention(given.x, given.source, mask).out
        assert out.dtype is dtype and out.isfinite().all()
        for slope in gradients(out.float().sum(), *given.leaves, *attention.parameters()):
            assert slope.dtype is dtype and slope.isfinite().all()


@every()
def test_states_of_two_precisions_meet_under_autocast(case: Case) -> None:
    # In a model, states come out of other layers: some in bfloat16, some in float32.
    attention, (x, source, mask, real) = case.build().float(), inputs_of(case, 7)
    kinds = (torch.float32, torch.bfloat16)
    for training, of_x, of_source in itertools.product((True, False), kinds, kinds):
        other = None if source is None else source.to(of_source)
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(training):
            out = attention(x.to(of_x), other, mask).out
        assert out[real].isfinite().all()


def groups_of_kernels() -> list[list[Case]]:
    """Cases that differ by their kernel only."""
    groups: dict[Case, list[Case]] = {}
    for case in BUILT:
        groups.setdefault(case._replace(kernel=""), []).append(case)
    return [group for group in groups.values() if len(group) > 1]


@pytest.mark.parametrize("group", groups_of_kernels(), ids=lambda group: str(group[0]))
def test_every_kernel_computes_the_same(group: list[Case]) -> None:
    x, source, mask, real = given = inputs_of(group[0], 65)
    results = []
    for case in group:
        attention = case.build()
        out = attention(x, source, mask).out[real]
        slopes = gradients(out.square().sum(), *given.leaves, *attention.parameters())
        results.append((out, *slopes))
    for other in results[1:]:
        assert_equal(other, results[0])
