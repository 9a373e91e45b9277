"""The contract of attention: sentences that hold for every mechanism, role, position and kernel.

What is tested is found in conf/attn and in the tables, see `cases`.
"""

import itertools
import re
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

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


def every(
    where: Callable[[Case], bool] = lambda case: True,
    bug: Callable[[Case], bool] = lambda case: False,
    reason: str = "",
) -> Callable[[Test], Test]:
    """Run the test for every case of which `where` is true; where `bug` is, it is known to fail."""
    known = pytest.mark.xfail(strict=True, reason=reason)
    cases = [
        pytest.param(case, marks=[known] if bug(case) else [], id=str(case))
        for case in BUILT
        if where(case)
    ]
    return pytest.mark.parametrize("case", cases)


def in_role(*roles: Role) -> Callable[[Case], bool]:
    return lambda case: case.role in roles


def shows_weights(case: Case) -> bool:
    return case.mechanism.shows_weights


def groups_of_kernels() -> list[list[Case]]:
    """Cases that differ by their kernel only."""
    by_rest = itertools.groupby(BUILT, key=lambda case: case._replace(kernel=""))
    found = [list(group) for _, group in by_rest]
    return [group for group in found if len(group) > 1]


every_case = every()
every_source_case = every(in_role(Role.ENCODER, Role.CROSS))
every_decoder_case = every(in_role(Role.DECODER))
every_cross_case = every(in_role(Role.CROSS))
every_case_with_weights = every(shows_weights)


def lengths_of(size: int) -> list[int]:
    """Lengths of three rows whose longest has `size` tokens."""
    return [size, max(1, size // 2), 1]


class Inputs(NamedTuple):
    """What `forward` takes, for three rows of different lengths."""

    x: Tensor  # queries; they need a gradient
    source: Tensor | None  # what they attend to; None in self-attention
    mask: Tensor | None  # padding behind the shorter rows; none in the decoder, which has its wall
    real: Tensor  # (N, T), the queries whose answers mean anything

    @property
    def leaves(self) -> list[Tensor]:
        return [self.x] if self.source is None else [self.x, self.source]


def inputs_of(case: Case, size: int, dtype: torch.dtype = torch.float64) -> Inputs:
    """Five queries to `size` states of a source, or `size` tokens that attend to themselves."""
    cross = case.role is Role.CROSS
    x = numbers(3, 5 if cross else size, DIM).to(dtype).requires_grad_()
    source = numbers(3, size, DIM).to(dtype).requires_grad_() if cross else None
    mask = None if case.role is Role.DECODER else mask_of(lengths_of(size), size)
    all_real = torch.ones(x.shape[:2], dtype=torch.bool)
    real = mask if case.role is Role.ENCODER and mask is not None else all_real
    return Inputs(x, source, mask, real)


# --- Padding and the future -------------------------------------------------------------------


@every_source_case
def test_padding_is_invisible(case: Case) -> None:
    for size in SIZES:
        attention, lengths = case.build(), lengths_of(size)
        parameters = list(attention.parameters())
        x, source, mask, real = inputs_of(case, size)
        assert mask is not None
        with torch.no_grad():
            (x if source is None else source).copy_(
                torch.where(mask[..., None], numbers(3, size, DIM), 1e3 * numbers(3, size, DIM))
            )
        attended = x if source is None else source
        out = attention(x, source, mask).out
        slope = numbers(*out.shape) * real[..., None]
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


@every(
    in_role(Role.ENCODER, Role.CROSS),
    bug=lambda case: case.preset == "fixed" and case.model == "rnn",
    reason="BUG attention/fixed.py final_state: a row without real tokens shows its padding",
)
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


@every_decoder_case
def test_the_future_is_invisible(case: Case) -> None:
    for size in SIZES:
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
@torch.no_grad()
def test_one_by_one_equals_all_at_once(case: Case) -> None:
    attention, x = case.build(), numbers(2, 65, DIM)
    for steps in [1], [1] * 7, [2, 3, 2], [7], [1] * 65, [31, 1, 1, 32], [65]:
        memory, tokens = attention.new_memory(), x[:, : sum(steps)]
        assert_equal(advance(attention, tokens, memory, 0, steps), attention(tokens).out)
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
def test_weights_sum_to_one_on_real_queries_and_vanish_on_padding(case: Case) -> None:
    for size in SIZES:
        attention, (x, source, mask, real) = case.build(), inputs_of(case, size)
        weights = attention(x, source, mask, need_weights=True).weights
        assert weights is not None
        assert weights.shape[0::2] == x.shape[:2] and weights.shape[3] == size
        assert (weights >= 0).all()
        rows = weights.sum(-1).transpose(1, 2)[real]  # of all heads
        assert_equal(rows, torch.ones_like(rows))
        if mask is None:
            assert not weights.triu(1).any()
        else:
            assert not weights.movedim(3, 1)[~mask].any()


@every_case_with_weights
def test_asking_for_weights_does_not_change_the_answer(case: Case) -> None:
    for size in SIZES:
        attention, given = case.build(), inputs_of(case, size)
        x, source, mask, real = given
        plain, asked = attention(x, source, mask), attention(x, source, mask, need_weights=True)
        assert plain.weights is None
        assert_equal(asked.out[real], plain.out[real])
        leaves = (*given.leaves, *attention.parameters())
        expected = gradients(plain.out[real].square().sum(), *leaves)
        assert_equal(gradients(asked.out[real].square().sum(), *leaves), expected)


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
    attention, (x, source, mask, _) = case.build(), inputs_of(case, 7)
    with pytest.raises(ValueError, match="has no weights"):
        attention(x, source, mask, need_weights=True)


# --- Beams, parameters, types -----------------------------------------------------------------


@every_cross_case
@torch.no_grad()
def test_beams_are_queries(case: Case) -> None:
    attention, K, n = case.build(), 3, 4
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
    attention, (x, source, mask, real) = case.build(), inputs_of(case, 7)
    attention(x, source, mask).out[real].square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys may cancel in the softmax; a matrix never does.
        assert parameter.dim() < 2 or parameter.grad.any(), name


@every_case
def test_the_state_dict_survives_a_round_trip(case: Case) -> None:
    saved, fresh = case.build(seed=1), case.build(seed=2)
    x, source, mask, _ = inputs_of(case, 7)
    expected = saved(x, source, mask).out
    if saved.state_dict():
        assert not torch.allclose(fresh(x, source, mask).out, expected)
    fresh.load_state_dict(saved.state_dict(), strict=True)
    assert torch.equal(fresh(x, source, mask).out, expected)


@every_case
def test_every_precision_runs(case: Case) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        attention, given = case.build().to(dtype), inputs_of(case, 65, dtype)
        mask = None if given.mask is None else mask_of([65, 7, 0], 65)
        out = attention(given.x, given.source, mask).out
        assert out.dtype is dtype and out.isfinite().all()
        for slope in gradients(out.float().sum(), *given.leaves, *attention.parameters()):
            assert slope.dtype is dtype and slope.isfinite().all()


@every(
    bug=lambda case: case.model == "rnn" and "dot" in case.preset and case.kernel != "explicit",
    reason="BUG functional/fused.py: q, k and v of two types are refused when no gradient is "
    "wanted; an RNN under autocast has float32 states and bfloat16 queries",
)
def test_states_of_two_precisions_meet_under_autocast(case: Case) -> None:
    # In a model, states come out of other layers: some in bfloat16, some in float32.
    attention, (x, source, mask, real) = case.build().float(), inputs_of(case, 7)
    kinds = (torch.float32, torch.bfloat16)
    for training, of_x, of_source in itertools.product((True, False), kinds, kinds):
        other = None if source is None else source.to(of_source)
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(training):
            out = attention(x.to(of_x), other, mask).out
        assert out[real].isfinite().all()


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
