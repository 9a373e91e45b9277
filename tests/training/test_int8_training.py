"""`trainer.precision=int8-aware`: 8 bits in each pass, straight through to weights as they are."""

import math
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from helpers.tiny_runs import train_tiny, weights
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.weights import SHORTEST_ROW
from seq2seq.training.callbacks import Int8Passes

AWARE = "trainer.precision=int8-aware"
STEPS = ("data.max_tokens=1024", "schedule.steps=20", "model.dropout=0.1")


class StraightThrough(torch.autograd.Function):
    """Rows rounded to 127 levels on each side, written out; the gradient is passed on."""

    @staticmethod
    def forward(context: Any, x: Tensor, bits: int) -> Tensor:
        rows = []
        for row in x.reshape(-1, x.shape[-1]).tolist():
            mantissa, exponent = math.frexp(max(map(abs, row)) / 127)
            scale = math.ldexp(round(mantissa * 2**bits) / 2**bits, exponent)
            rows.append([round(number / scale) * scale for number in row])
        return torch.tensor(rows).view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def test_a_pass_is_that_of_rounded_matrices_and_inputs_straight_through() -> None:
    layers = nn.Sequential(nn.Linear(20, 24), nn.Tanh(), nn.Linear(24, 3))
    x = torch.randn(5, 20, requires_grad=True)
    expected, w = x, dict(layers.named_parameters())
    for name in ("0", "2"):
        matrix = StraightThrough.apply(w[f"{name}.weight"], 17)
        expected = StraightThrough.apply(expected, 24) @ matrix.T + w[f"{name}.bias"]
        expected = expected.tanh() if name == "0" else expected
    expected.square().sum().backward()
    gradients = {name: each.grad.clone() for name, each in w.items() if each.grad is not None}
    of_input, x.grad = x.grad, None
    before = {name: each.detach().clone() for name, each in w.items()}
    layers.zero_grad()

    passes, module = Int8Passes(), L.LightningModule()
    module.layers, trainer = layers, L.Trainer(logger=False, enable_checkpointing=False)
    passes.setup(trainer, module, "fit")
    passes.on_train_batch_start(trainer, module)
    found = layers(x)
    found.square().sum().backward()
    passes.on_after_backward(trainer, module)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(x.grad, of_input, atol=1e-5, rtol=1e-5)
    for name, each in w.items():
        assert torch.equal(each, before[name])
        torch.testing.assert_close(each.grad, gradients[name], atol=1e-5, rtol=1e-5)
    passes.teardown(trainer, module, "fit")
    first, _, last = layers
    plain = nn.functional.linear(x, first.weight, first.bias).tanh()
    plain = nn.functional.linear(plain, last.weight, last.bias)
    assert torch.equal(layers(x), plain)


@pytest.mark.slow
def test_a_run_keeps_weights_that_are_not_rounded(base: Path) -> None:
    whole = train_tiny(base, *STEPS, AWARE, "trainer.max_steps=6", "trainer.val_check_interval=4")
    plain = weights(train_tiny(base, *STEPS, "trainer.precision=32-true", "trainer.max_steps=6"))
    for name, value in weights(whole).items():
        if value.dim() >= 2 and value.shape[-1] >= SHORTEST_ROW and "norm" not in name:
            levels = value / (value.abs().amax(-1, keepdim=True) / 127)
            assert (levels - levels.round()).abs().max() > 0.1
            assert not torch.equal(value, plain[name])
    with pytest.raises(ConfigError, match=r"trainer.precision was 'int8-aware' and is '32-true'"):
        train_tiny(base, *STEPS, f"resume={whole / 'last.ckpt'}", "trainer.precision=32-true")


def test_an_average_of_weights_is_refused(base: Path) -> None:
    with pytest.raises(ConfigError, match="checkpoint.ema=null, or trainer.precision=auto"):
        train_tiny(base, AWARE, "checkpoint.ema=0.9")
