"""Recurrent decoders in C; test_native.py has what they share with Transformers."""

import copy
from typing import Any

import pytest
import torch
from helpers.builders import TARGET_SIZE, every_other, small_model, source_batch
from helpers.native_code import needs_native

from seq2seq.attention.page_pool import PagePool
from seq2seq.base.errors import DataError
from seq2seq.base.symbols import PAD
from seq2seq.decoding.native.recurrent import NativeRNN
from seq2seq.decoding.precision import describe_backend, with_precision
from seq2seq.models.rnn import Recurrent

pytestmark = needs_native
MODELS = ("rnn", "rnn model.cell=lstm model.layers=2", "rnn_luong", "rnn_luong model.cell=lstm")
SCORES = ("additive", "concat", "dot", "scaled_dot", "general")


def build(variant: str) -> Recurrent:
    name, *options = variant.split()
    model = small_model(name, *options)
    assert isinstance(model, Recurrent)
    return model


def to_c(model: Recurrent, precision: str = "float32") -> NativeRNN:
    fast = with_precision(model.float(), precision)
    assert isinstance(fast, NativeRNN)
    return fast


@pytest.mark.parametrize("seed", every_other(range(25)))
@torch.no_grad()
def test_steps_of_any_shape_are_those_of_float64(seed: int) -> None:
    """Sentences that come and go, in one batch or in pages, with hypotheses that fork."""
    torch.manual_seed(seed)

    def draw(*choices: Any) -> Any:
        return choices[int(torch.randint(len(choices), ()))]

    heads = draw(1, 1, 2, 3)
    options = {
        "model.num_heads": heads,
        "model.dim": 2 * heads * draw(1, 4, 9, 17),
        "model.layers": draw(1, 2, 3),
        "model.cell": draw("gru", "lstm"),
        "model.project_scores": str(draw(True, False)).lower(),
        "attn": draw(*SCORES),
    }
    variant = " ".join(f"{name}={value}" for name, value in options.items())
    model = build(f"{draw('rnn', 'rnn_luong')} {variant}")
    K, pages = draw(1, 2, 5), draw(True, False)
    slow, states = copy.deepcopy(model), []
    fast = to_c(model)
    pools = [PagePool(400, 4) if pages else None for _ in range(2)]
    source = source_batch(*torch.randint(1, 20, (draw(1, 6),)).tolist())
    for each, pool in zip((fast, slow), pools, strict=True):
        states.append(each.start(each.encode(source), K, pool))
    for i in range(6):
        if i == 3 and pages:
            more = source_batch(*torch.randint(1, 20, (3,)).tolist())
            for each, pool, state in zip((fast, slow), pools, states, strict=True):
                state.merge(each.start(each.encode(more), K, pool))
        B = len(states[0].lengths)
        tokens = torch.randint(PAD + 1, TARGET_SIZE, (B * K, 1))
        found, expected = (
            each.step(tokens, state).hidden
            for each, state in zip((fast, slow), states, strict=True)
        )
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-5)
        parents = torch.arange(B)[:, None] * K + torch.randint(K, (B, K))
        left = torch.arange(i % 2 if B > 1 else 0, B)
        for state in states:
            state.fork(parents.flatten())
            state.keep(left)


@pytest.mark.parametrize("variant", MODELS)
@torch.no_grad()
def test_a_step_of_no_rows_changes_nothing(variant: str) -> None:
    fast = to_c(build(variant))
    state = fast.start(fast.encode(source_batch(3, 5)), 2)
    state.keep(torch.tensor([], dtype=torch.long))
    assert fast.step(torch.empty(0, 1, dtype=torch.long), state).hidden.shape[:2] == (0, 1)


@pytest.mark.parametrize("variant", MODELS)
@pytest.mark.parametrize("size", [30, 1e4, 1e30])
@torch.no_grad()
def test_saturated_gates_give_the_states_of_torch(variant: str, size: float) -> None:
    model, source = build(variant), source_batch(4, 2)
    for cell in model.cells:
        for bias in (cell.bias_ih, cell.bias_hh):
            bias.mul_(size)  # type: ignore[operator]
    slow, fast = copy.deepcopy(model).float(), to_c(model)
    states = [each.start(each.encode(source)) for each in (slow, fast)]
    for token in (5, 7, 4):
        tokens = torch.full((2, 1), token)
        expected, found = (
            each.step(tokens, state).hidden
            for each, state in zip((slow, fast), states, strict=True)
        )
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_the_hyperbolic_tangent_is_exact_to_a_millionth() -> None:
    model = build("rnn model.dim=256")
    small = torch.logspace(-30, 2, 256, dtype=torch.float64)
    for x in (small, -small, torch.linspace(-9, 9, 256).double()):
        model.readout.weight.zero_()
        model.readout.bias.copy_(x)
        fast = to_c(copy.deepcopy(model))
        state = fast.start(fast.encode(source_batch(3)))
        found = fast.step(torch.tensor([[5]]), state).hidden[0, 0]
        expected = model.readout.bias.float().double().tanh()
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("token", [-1, TARGET_SIZE, 2**62])
def test_an_id_beyond_the_vocabulary_is_refused_and_changes_nothing(token: int) -> None:
    fast = to_c(build("rnn"))
    state = fast.start(fast.encode(source_batch(4, 2)))
    before = state.past[0].state["hidden"].clone()  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=f"an id of {token} .* {TARGET_SIZE}"):
        fast.step(torch.tensor([[5], [token]]), state)
    assert torch.equal(state.past[0].state["hidden"], before)  # type: ignore[attr-defined]


@torch.no_grad()
def test_weights_are_those_of_torch_when_they_are_asked_for() -> None:
    model, source = build("rnn_luong"), source_batch(4)
    models = to_c(model), copy.deepcopy(model).float()
    states = [each.start(each.encode(source)) for each in models]
    found, expected = (
        each.step(torch.tensor([[5]]), state, True)
        for each, state in zip(models, states, strict=True)
    )
    assert found.weights is not None and expected.weights is not None
    torch.testing.assert_close(found.weights, expected.weights)


def test_cells_stay_in_float32_in_int8() -> None:
    fast = to_c(build("rnn"), "int8")
    first = fast.cells.cells[0]
    assert not first.input_gates.is_int8 and not first.hidden_gates.is_int8
    assert fast.cells.readout.is_int8 and describe_backend(fast) == "C"
