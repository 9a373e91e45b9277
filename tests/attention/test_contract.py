"""The contract of attention: sentences that hold for every mechanism, role, position and kernel.

What is tested is found in conf/attn and in the tables, see `cases`.
"""

import itertools
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import DIM, Case, numbers, sort_cases
from helpers import SMALL, assert_equal, composed, gradients, mask_of, model_config, presets
from torch import Tensor

from seq2seq.attention import ATTENTION, Place, Role, build_attention
from seq2seq.errors import ConfigError
from seq2seq.models import MODELS, check_model

BUILT, REFUSED, UNDEFINED = sort_cases()
SIZES = (1, 7, 65)
Test = Callable[..., None]


def every(where: Callable[[Case], bool] = lambda case: True) -> Callable[[Test], Test]:
    """Run the test for every case of which `where` is true."""
    return pytest.mark.parametrize("case", [case for case in BUILT if where(case)], ids=str)


def in_role(*roles: Role) -> Callable[[Case], bool]:
    return lambda case: case.role in roles


def shows_weights(case: Case) -> bool:
    return case.mechanism.shows_weights


every_case = every()
every_source_case = every(in_role(Role.ENCODER, Role.CROSS))
every_decoder_case = every(in_role(Role.DECODER))
every_cross_case = every(in_role(Role.CROSS))
every_case_with_weights = every(shows_weights)


def lengths_of(size: int) -> list[int]:
    """Lengths of three rows whose longest has `size` tokens."""
    return [size, max(1, size // 2), 1]


def arguments(case: Case, size: int) -> tuple[Tensor, Tensor | None]:
    """Queries x, and what they attend to: None in self-attention, else `size` source states."""
    if case.role is Role.CROSS:
        return numbers(3, 5, DIM), numbers(3, size, DIM)
    return numbers(3, size, DIM), None


# --- Padding and the future -------------------------------------------------------------------


@every_source_case
@pytest.mark.parametrize("size", SIZES)
def test_padding_is_invisible(case: Case, size: int) -> None:
    attention, lengths = case.build(), lengths_of(size)
    mask = mask_of(lengths, size)
    x, source = arguments(case, size)
    clean = x if source is None else source
    dirty = torch.where(mask[..., None], clean, 1e3 * numbers(3, size, DIM)).requires_grad_()
    queries = (dirty if source is None else x, dirty)
    out = attention(queries[0], None if source is None else dirty, mask=mask).out
    real = mask if source is None else torch.ones(3, 5, dtype=torch.bool)
    slope = numbers(*out.shape) * real[..., None]
    of_source, *of_parameters = gradients((out * slope).sum(), dirty, *attention.parameters())

    # The same rows, each alone and without any padding.
    sums = [torch.zeros_like(p) for p in attention.parameters()]
    for row, length in enumerate(lengths):
        alone = clean[row : row + 1, :length].clone().requires_grad_()
        own = alone if source is None else x[row : row + 1]
        answer = attention(own, None if source is None else alone).out
        T = answer.shape[1]
        assert_equal(out[row : row + 1, :T], answer)
        loss = (answer * slope[row, :T]).sum()
        of_alone, *more = gradients(loss, alone, *attention.parameters())
        assert_equal(of_source[row : row + 1, :length], of_alone)
        assert not of_source[row, length:].any()
        sums = [total + one for total, one in zip(sums, more, strict=True)]
    assert_equal(of_parameters, sums)


@every_source_case
def test_a_row_of_padding_only_is_an_answer_to_nothing(case: Case) -> None:
    attention, size = case.build(), 7
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):  # what a projection adds to zeros
                parameter.zero_()
    mask = mask_of([size, 0, 3], size)
    x, source = arguments(case, size)
    x.requires_grad_()
    out = attention(x, source, mask=mask).out
    assert not out[1].any()
    assert out[[0, 2]].any()
    for slope in gradients(out.square().sum(), x, *attention.parameters()):
        assert slope.isfinite().all()


@every_decoder_case
@pytest.mark.parametrize("size", SIZES)
def test_the_future_is_invisible(case: Case, size: int) -> None:
    attention = case.build()
    x = numbers(2, size, DIM).requires_grad_()
    out = attention(x).out
    for now in {1, (size + 1) // 2, size}:
        future = torch.arange(size) >= now
        other = torch.where(future[:, None], 1e3 * numbers(2, size, DIM), x)
        assert_equal(attention(other).out[:, :now], out[:, :now])
        assert_equal(attention(x[:, :now]).out, out[:, :now])
        (slope,) = torch.autograd.grad(out[:, :now].square().sum(), x, retain_graph=True)
        assert not slope[:, now:].any()
        assert slope[:, :now].any()


# --- Step by step -----------------------------------------------------------------------------


def advance(attention: Any, x: Tensor, memory: Any, start: int, steps: list[int]) -> Tensor:
    """Feed x (N, T, E), whose first token stands at `start`, in pieces of so many tokens."""
    outs = []
    for piece in x.split(steps, dim=1):
        positions = torch.arange(start, start + piece.shape[1])
        outs.append(attention.advance(piece, memory, positions).out)
        start += piece.shape[1]
    return torch.cat(outs, dim=1)


@every_decoder_case
@pytest.mark.parametrize(
    "steps", [[1], [1] * 7, [2, 3, 2], [7], [1] * 65, [31, 1, 1, 32], [65]], ids=str
)
@torch.no_grad()
def test_one_by_one_equals_all_at_once(case: Case, steps: list[int]) -> None:
    attention, x = case.build(), numbers(2, sum(steps), DIM)
    memory = attention.new_memory()
    assert_equal(advance(attention, x, memory, 0, steps), attention(x).out)
    assert memory.rows == 2


@every_decoder_case
@torch.no_grad()
def test_positions_may_be_given_for_every_row(case: Case) -> None:
    attention, x = case.build(), numbers(2, 7, DIM)
    memory = attention.new_memory()
    positions = torch.arange(7).expand(2, 7)
    outs = [
        attention.advance(x[:, part], memory, positions[:, part]).out
        for part in (slice(0, 4), slice(4, 5), slice(5, 7))
    ]
    assert_equal(torch.cat(outs, dim=1), attention(x).out)


@every_decoder_case
@pytest.mark.parametrize("verb", ["fork", "keep"])
@torch.no_grad()
def test_fork_then_continue_equals_starting_there(case: Case, verb: str) -> None:
    attention = case.build()
    rows = torch.tensor([2, 0, 2, 1] if verb == "fork" else [0, 2])
    past, future = numbers(3, 40, DIM), numbers(len(rows), 3, DIM)
    memory = attention.new_memory()
    advance(attention, past, memory, 0, [33, 7])
    getattr(memory, verb)(rows)
    assert memory.rows == len(rows)
    continued = advance(attention, future, memory, 40, [1, 2])
    whole = attention(torch.cat((past[rows], future), dim=1)).out
    assert_equal(continued, whole[:, 40:])


@every_cross_case
@torch.no_grad()
def test_a_kept_source_answers_like_one_that_was_alone(case: Case) -> None:
    attention, rows = case.build(), torch.tensor([0, 2])
    source, mask, x = numbers(3, 7, DIM), mask_of([7, 4, 2], 7), numbers(2, 5, DIM)
    memory = attention.memory_of(source, mask)
    assert memory.rows == 3
    memory.keep(rows)
    assert memory.rows == 2
    assert_equal(attention.attend(x, memory).out, attention(x, source[rows], mask[rows]).out)


# --- Weights ----------------------------------------------------------------------------------


@every_case_with_weights
@pytest.mark.parametrize("size", SIZES)
def test_weights_sum_to_one_on_real_queries_and_vanish_on_padding(case: Case, size: int) -> None:
    attention = case.build()
    x, source = arguments(case, size)
    mask = None if case.role is Role.DECODER else mask_of(lengths_of(size), size)
    weights = attention(x, source, mask, need_weights=True).weights
    assert weights is not None
    assert weights.shape[0::2] == (3, x.shape[1]) and weights.shape[-1] == size
    assert (weights >= 0).all()
    rows = weights.sum(-1).transpose(1, 2)  # (N, T, H)
    if case.role is Role.ENCODER:
        rows = rows[mask]
    assert_equal(rows, torch.ones_like(rows))
    if mask is None:
        assert not weights.triu(1).any()
    else:
        assert not weights.movedim(-1, 1)[~mask].any()


@every_case_with_weights
@pytest.mark.parametrize("size", SIZES)
def test_asking_for_weights_does_not_change_the_answer(case: Case, size: int) -> None:
    attention = case.build()
    x, source = arguments(case, size)
    x.requires_grad_()
    mask = None if case.role is Role.DECODER else mask_of(lengths_of(size), size)
    plain = attention(x, source, mask)
    asked = attention(x, source, mask, need_weights=True)
    assert plain.weights is None
    real = mask if case.role is Role.ENCODER else torch.ones(x.shape[:2], dtype=torch.bool)
    assert_equal(asked.out[real], plain.out[real])
    inputs = (x, *attention.parameters())
    expected = gradients(plain.out[real].square().sum(), *inputs)
    assert_equal(gradients(asked.out[real].square().sum(), *inputs), expected)


@every(lambda case: shows_weights(case) and case.role is Role.DECODER)
@torch.no_grad()
def test_weights_of_a_step_are_the_rows_of_the_whole(case: Case) -> None:
    attention, x = case.build(), numbers(2, 7, DIM)
    whole = attention(x, need_weights=True).weights
    memory = attention.new_memory()
    attention.advance(x[:, :4], memory, torch.arange(4))
    step = attention.advance(x[:, 4:6], memory, torch.arange(4, 6), need_weights=True).weights
    assert step is not None and whole is not None
    assert_equal(step, whole[:, :, 4:6, : step.shape[-1]])


@every(lambda case: not shows_weights(case))
def test_a_mechanism_without_weights_refuses_to_show_any(case: Case) -> None:
    attention = case.build()
    x, source = arguments(case, 7)
    with pytest.raises(ValueError, match="has no weights"):
        attention(x, source, need_weights=True)


# --- Beams, parameters, types -----------------------------------------------------------------


@every_cross_case
@pytest.mark.parametrize("n", [1, 4])
@torch.no_grad()
def test_beams_are_queries(case: Case, n: int) -> None:
    attention, K = case.build(), 3
    source, mask, x = numbers(2, 7, DIM), mask_of([7, 3], 7), numbers(2 * K, n, DIM)
    memory = attention.memory_of(source, mask)
    tiled = attention.memory_of(source.repeat_interleave(K, 0), mask.repeat_interleave(K, 0))
    positions = torch.arange(5, 5 + n)
    need_weights = attention.shows_weights
    beams = attention.consult(x, memory, positions, need_weights)
    assert_equal(beams, attention.attend(x, tiled, positions, need_weights))
    every_row = attention.consult(x, memory, positions.expand(2 * K, n), need_weights)
    assert_equal(every_row, beams)


@every_case
def test_gradients_reach_every_parameter(case: Case) -> None:
    attention = case.build()
    x, source = arguments(case, 7)
    attention(x, source).out.square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys may cancel in the softmax; a matrix never does.
        assert parameter.dim() < 2 or parameter.grad.any(), name


@every_case
def test_gradients_are_those_of_finite_differences(case: Case) -> None:
    attention = case.build()
    x, source = arguments(case, 3)
    given = [x[:2, :3, :].clone().requires_grad_()]
    given += [] if source is None else [source[:2].clone().requires_grad_()]
    mask = None if case.role is Role.DECODER else mask_of([3, 2], 3)

    def answer(*inputs: Tensor) -> Tensor:
        out = attention(inputs[0], inputs[1] if len(inputs) > 1 else None, mask).out
        return out if case.role is not Role.ENCODER or mask is None else out[mask]

    used = given if source is None else given[:1] if not _reads_queries(attention) else given
    assert torch.autograd.gradcheck(answer, used, fast_mode=True)


@every_case
def test_the_state_dict_survives_a_round_trip(case: Case) -> None:
    saved, fresh = case.build(seed=1), case.build(seed=2)
    x, source = arguments(case, 7)
    assert not torch.allclose(fresh(x, source).out, saved(x, source).out) or not saved.state_dict()
    fresh.load_state_dict(saved.state_dict(), strict=True)
    assert torch.equal(fresh(x, source).out, saved(x, source).out)


@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_precision_runs(case: Case, dtype: torch.dtype) -> None:
    attention = case.build().to(dtype)
    x, source = arguments(case, 65)
    x = x.to(dtype).requires_grad_()
    source = None if source is None else source.to(dtype)
    mask = None if case.role is Role.DECODER else mask_of([65, 7, 0], 65)
    out = attention(x, source, mask).out
    assert out.dtype is dtype and out.isfinite().all()
    for slope in gradients(out.float().sum(), x, *attention.parameters()):
        assert slope.dtype is dtype and slope.isfinite().all()


@every_case
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_autocast_runs(case: Case, training: bool) -> None:
    attention = case.build().float().train(training)
    x, source = arguments(case, 7)
    x = x.float().requires_grad_(training)
    # In a model, states come out of other layers: some in bfloat16, some in float32.
    source = None if source is None else source.bfloat16()
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(training):
        out = attention(x, source).out
    assert out.isfinite().all()


def test_every_kernel_computes_the_same() -> None:
    groups = itertools.groupby(BUILT, key=lambda case: case._replace(kernel="auto"))
    compared = 0
    for case, alike in groups:
        first, *others = (each.build() for each in alike)
        x, source = arguments(case, 65)
        mask = None if case.role is Role.DECODER else mask_of([65, 7, 1], 65)
        real = mask if case.role is Role.ENCODER else torch.ones(x.shape[:2], dtype=torch.bool)
        for other in others:
            results = []
            for attention in (first, other):
                out = attention(x, source, mask).out[real]
                results.append((out, gradients(out.square().sum(), *attention.parameters())))
            assert_equal(results[1], results[0])
            compared += 1
    assert compared > 0


# --- What is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("preset", presets("attn"))
def test_every_preset_can_be_built_in_every_role_that_its_class_declares(preset: str) -> None:
    plain = {
        (case.model, case.role) for case in BUILT if case.preset == preset and "auto" in case[-1:]
    }
    for model in SMALL:
        roles = Case(preset, model, Role.CROSS).mechanism.roles & MODELS[model].roles
        assert {(model, role) for role in roles} <= plain


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("preset", presets("attn"))
def test_every_preset_runs_as_typed_in_every_model(preset: str, model: str) -> None:
    # Where the mechanism is not defined, its preset says what stands there (`elsewhere`).
    check_model(model_config(*SMALL[model], f"attn={preset}"))


@pytest.mark.parametrize("case", UNDEFINED, ids=str)
def test_a_wrong_role_is_refused_by_name(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        build_attention(case.options, Place(case.role, DIM, DIM))
    message = str(caught.value)
    assert f"{case.options['name']} is not defined for {case.role.description}" in message
    reason = case.mechanism.undefined[case.role]
    assert reason and reason in message
    for role in case.mechanism.roles:
        assert role.description in message.split("It is defined for")[1].split(".")[0]
    typed = re.search(r"\(python train\.py (.*)\)", message)
    assert typed, "the message says what to type"
    check_model(model_config(*SMALL[case.model], f"attn={case.preset}", *shlex.split(typed[1])))


@pytest.mark.parametrize("case", UNDEFINED, ids=str)
def test_what_is_asked_for_explicitly_is_never_replaced(case: Case) -> None:
    config = model_config(*SMALL[case.model], f"attn@{case.role}_attn={case.preset}")
    with pytest.raises(ConfigError, match=f"not defined for {case.role.description}"):
        check_model(config)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_kernel_or_position_that_cannot_be_is_refused_with_what_to_take(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        case.build()
    message = str(caught.value)
    asked, advised = message.split("Take ")
    if case.position != "none" and case.kernel == "auto":
        assert f"position={case.position}" in asked
        assert advised.startswith("position=sinusoidal")
    else:
        assert f"kernel={case.kernel}" in asked or f"position={case.position}" in asked
        assert re.match(r"(kernel|position)=\w+", advised)


@pytest.mark.parametrize("preset", presets("attn"))
def test_a_position_that_a_mechanism_does_not_honour_is_refused(preset: str) -> None:
    case = Case(preset, "transformer", Role.ENCODER)

    class Scheme:
        hook = "something_new"

        def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
            return x

    for role in case.mechanism.roles:
        with pytest.raises(ConfigError, match="position=sinusoidal"):
            build_attention(case.options, Place(role, DIM, DIM, Scheme()))


def test_an_unknown_mechanism_is_refused_with_the_nearest_name() -> None:
    place = Place(Role.ENCODER, DIM, DIM)
    with pytest.raises(ConfigError, match="unknown attention 'multihed'; did you mean 'multihead'"):
        build_attention({"name": "multihed"}, place)
    with pytest.raises(ConfigError, match="encoder_attn has no name: choose one of"):
        build_attention({"num_heads": 4}, place)
    for name in ATTENTION:
        with pytest.raises(ConfigError):
            build_attention({"name": name, "no_such_option": 1}, place)


def test_the_presets_of_the_zoo_are_found() -> None:
    assert {"mha", "fixed"} <= {case.preset for case in BUILT}
    assert {case.role for case in BUILT} == set(Role)
    assert {case.model for case in BUILT} == set(SMALL)
    assert composed("attn=mha")["attn"]["name"] in ATTENTION
