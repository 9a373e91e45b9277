"""The recurrent unit of the decoder, compared with a loop in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from cases import DIM, randn
from helpers.builders import gradients, randomised, small_model, source_batch
from helpers.gradients import assert_same
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seq2seq.attention import Place, Role
from seq2seq.attention.page_pool import PagePool
from seq2seq.attention.ssru import SSRU
from seq2seq.base.symbols import BOS
from seq2seq.functional.ssru import gated_means


def unit() -> SSRU:
    return randomised(SSRU(Place(Role.DECODER, DIM, DIM)))


def by_loop(attention: SSRU, x: torch.Tensor) -> np.ndarray:
    """The formula, token by token: x (N, T, E) -> (N, T, E)."""
    W, Wf, b = (p.detach().numpy() for p in (attention.x.weight, *attention.gate.parameters()))
    state, outs = np.zeros((len(x), DIM)), []
    for token in x.detach().numpy().transpose(1, 0, 2):
        f = 1 / (1 + np.exp(-(token @ Wf.T + b)))
        state = f * state + (1 - f) * (token @ W.T)
        outs.append(np.maximum(state, 0))
    return np.stack(outs, axis=1)


def assert_loop(out: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3, 31, 64, 65, 300])
def test_a_whole_sequence_equals_the_loop(length: int) -> None:
    attention, x = unit(), randn(2, length, DIM)
    assert_loop(attention(x).out, by_loop(attention, x))


@torch.no_grad()
def test_steps_forks_and_merges_equal_the_loop() -> None:
    attention, x = unit(), randn(3, 40, DIM)
    expected = by_loop(attention, x)
    memory, late = attention.new_memory(), attention.new_memory()
    for start, n in ((0, 1), (1, 1), (2, 7), (9, 22)):
        part, places = slice(start, start + n), torch.arange(start, start + n)
        assert_loop(attention.advance(x[:, part], memory, places), expected[:, part])
    memory.fork(torch.tensor([2, 0, 0]))
    attention.advance(x[1:2, :3], late, torch.arange(3))
    memory.merge(late, 3, 1)
    rows, ages = torch.tensor([2, 0, 0, 1]), torch.tensor([31, 31, 31, 3])
    for _ in range(4):
        token = x[rows, ages][:, None]
        assert_loop(attention.advance(token, memory, ages[:, None])[:, 0], expected[rows, ages])
        ages += 1
    assert memory.nbytes == 4 * DIM * 8


def test_gradients_are_those_of_the_loop() -> None:
    x, gate = randn(2, 13, 4).requires_grad_(), randn(2, 13, 4).requires_grad_()
    before = randn(2, 4).requires_grad_()
    state, states, f = before, [], torch.sigmoid(gate)
    for t in range(13):
        state = f[:, t] * state + (1 - f[:, t]) * x[:, t]
        states.append(state)
    assert_same(gated_means(x, gate, before), torch.stack(states, 1), x, gate, before)


def test_saturated_gates_give_finite_gradients() -> None:
    x = torch.ones(1, 2000, 2).requires_grad_()
    gate = torch.tensor([200.0, -200.0]).expand(1, 2000, 2).clone().requires_grad_()
    states = gated_means(x, gate)
    assert states[0, :, 0].max() == 0 and torch.equal(states[0, :, 1], torch.ones(2000))
    for slope in gradients(states.sum(), x, gate):
        assert slope.isfinite().all()


def test_sums_of_bfloat16_are_float32() -> None:
    x, gate = torch.randn(1, 4096, 3).bfloat16(), (torch.randn(1, 4096, 3) + 4).bfloat16()
    wide = gated_means(x.double(), gate.double())
    narrow = gated_means(x, gate)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), wide, rtol=0, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("position", ["rope", "sinusoidal"])
def test_a_paged_model_remembers_one_vector_a_layer_beside_the_source(position: str) -> None:
    chosen = "attn@decoder_attn=ssru", f"position={position}"
    model = small_model("transformer", *chosen)
    source, pool = source_batch(5, 3), PagePool(64, 4)
    paged = model.start(model.encode(source), 2, pool)
    plain = model.start(model.encode(source), 2)
    tokens = torch.full((4, 1), BOS)
    for state in (paged, plain):
        for _ in range(6):
            hidden = model.step(tokens, state).hidden
            state.fork(torch.tensor([1, 1, 2, 2]))
        assert [memory.nbytes for memory in state.past] == [4 * 32 * 8] * 2
    one, other = (model.step(tokens, state).hidden for state in (paged, plain))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert hidden.shape == (4, 1, 32)


class Elements(TorchDispatchMode):
    """Counts the elements of all results."""

    total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.total += sum(x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor))
        return out


def test_the_scan_takes_as_many_rounds_as_the_length_has_bits() -> None:
    """Work per token grows by the same amount whenever the length is multiplied by four."""
    per_token = []
    for length in (1024, 4096, 16384):
        x = randn(1, length, 1)
        with Elements() as elements:
            gated_means(x, x)
        per_token.append(elements.total / length)
    first, second = per_token[1] - per_token[0], per_token[2] - per_token[1]
    assert first == pytest.approx(second, rel=0.01) and first > 4
    assert SSRU.usual_cost.time == "T log T E"
