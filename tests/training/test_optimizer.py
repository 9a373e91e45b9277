"""Which parameters learn at which rate."""

import pytest
import torch
from helpers import model_config, small_model, source_batch

from seq2seq.models import Seq2Seq, build_model
from seq2seq.symbols import BOS
from seq2seq.training.config.options import OptimizerOptions
from seq2seq.training.optimizer import build_optimizer, parameter_groups

ADAM = OptimizerOptions("adam", lr=0.01, betas=(0.9, 0.98), eps=1e-12, weight_decay=0.0)


@pytest.mark.parametrize("attn", ["mha", "dot", "general", "performer"])
def test_every_parameter_is_in_one_group(attn: str) -> None:
    model = small_model("transformer", f"attn={attn}")
    groups = parameter_groups(model, 1.0)
    found = [id(p) for group in groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in model.parameters())
    assert len(groups) == (1 if attn == "mha" else 2)


def trained(attn: str, scale: float) -> tuple[Seq2Seq, torch.Tensor]:
    """A model after five updates, whose projections of queries and keys are drawn at a scale."""
    torch.manual_seed(0)
    model = build_model(model_config("transformer", f"attn={attn}"), 13, 11).double().eval()
    reference = build_model(model_config("transformer", "attn=scaled_dot"), 13, 11)
    weights = {name: p.double() for name, p in reference.state_dict().items()}
    for name in weights:
        if name.endswith((".q.weight", ".k.weight")):
            weights[name] = weights[name] * scale
    model.load_state_dict(weights, strict=False)
    optimizer = build_optimizer(model, ADAM, fused=False)
    source, target = source_batch(7, 5), torch.tensor([[BOS, 4, 5], [BOS, 6, 7]])
    for _ in range(5):
        optimizer.zero_grad()
        hidden = model(source, target).hidden
        (hidden - 1).square().sum().backward()
        optimizer.step()
    return model, model(source, target).hidden


def test_an_unscaled_dot_product_learns_as_the_scaled_one_does() -> None:
    width = 8  # of each of four heads
    dot, answer = trained("dot", width**-0.25)
    scaled, expected = trained("scaled_dot", 1.0)
    # Adam's eps tells gradients of different sizes apart a little; the learning rate is 0.01.
    torch.testing.assert_close(answer, expected, atol=2e-4, rtol=0)
    pairs = zip(dot.named_parameters(), scaled.parameters(), strict=True)
    for (name, one), other in pairs:
        size = width**-0.25 if name.endswith((".q.weight", ".k.weight")) else 1.0
        torch.testing.assert_close(one, size * other, atol=2e-4, rtol=0)
