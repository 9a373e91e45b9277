"""The layers around attention, compared with their formulas."""

import math
from typing import Any

import pytest
import torch
from helpers.builders import assert_equal, position_scheme, randomised
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.functional.positions import rotate, sinusoid
from seq2seq.models.layers.dropout import Dropout
from seq2seq.models.layers.embedding import Embeddings
from seq2seq.models.layers.layer import FeedForward, LayerOptions, Residual, build_norm


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


ACTIVATIONS = {
    "relu": lambda z: max(z, 0.0),
    "gelu": lambda z: z / 2 * (1 + math.erf(z / math.sqrt(2))),
    "swiglu": lambda z: z / (1 + math.exp(-z)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_feed_forward_network_is_its_formula(activation: Any) -> None:
    feed, x = (
        randomised(FeedForward(6, LayerOptions(ffn_dim=10, activation=activation, dropout=0.1))),
        randn(2, 3, 6),
    )
    inner = (x @ feed.up.weight.T + feed.up.bias).clone()
    inner = inner.detach().apply_(ACTIVATIONS[activation])
    if activation == "swiglu":
        assert feed.gate is not None
        inner = inner * (x @ feed.gate.weight.T + feed.gate.bias)
    assert_equal(feed(x), inner @ feed.down.weight.T + feed.down.bias)


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_a_feed_forward_network_without_gradients_gives_the_same_and_keeps_its_input(
    activation: Any,
) -> None:
    feed, x = (
        randomised(FeedForward(6, LayerOptions(ffn_dim=10, activation=activation, dropout=0.0))),
        randn(2, 3, 6),
    )
    expected, before = feed(x), x.clone()
    with torch.no_grad():
        assert torch.equal(feed(x), expected)
    assert torch.equal(x, before)


def test_layer_norm_and_rms_norm_are_their_formulas() -> None:
    x = 3 * randn(2, 5, 8) + 1
    layer = randomised(build_norm(8, LayerOptions(ffn_dim=1)))
    rms = randomised(build_norm(8, LayerOptions(ffn_dim=1, norm="rmsnorm")))
    assert isinstance(layer, nn.LayerNorm) and isinstance(rms, nn.RMSNorm)
    mean, square = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
    centred = (x - mean) / (square - mean.square() + 1e-5).sqrt()
    assert_equal(layer(x), centred * layer.weight + layer.bias)
    assert_equal(rms(x), x / (square + 1e-6).sqrt() * rms.weight)


def test_pre_norm_normalises_what_enters_and_post_norm_what_leaves() -> None:
    x, norm = randn(2, 5, 8), randomised(nn.LayerNorm(8))
    sublayer = randomised(nn.Linear(8, 8))
    pre = Residual(8, LayerOptions(ffn_dim=1, norm_order="pre")).eval()
    post = Residual(8, LayerOptions(ffn_dim=1, norm_order="post")).eval()
    pre.norm = post.norm = norm
    around = [r.add_residual(x, sublayer(r.pre_norm(x))) for r in (pre, post)]
    assert_equal(around, [x + sublayer(norm(x)), norm(x + sublayer(x))])


def test_the_residual_drops_what_the_sublayer_adds_and_not_the_input() -> None:
    x = torch.ones(1000)
    added = Residual(1000, LayerOptions(ffn_dim=1, dropout=0.5)).add_residual(x, x) - x
    assert set(added.tolist()) == {0.0, 2.0}


def test_dropout_acts_in_training_only() -> None:
    x, layer = torch.ones(1000), Dropout(0.5)
    assert set(layer(x).tolist()) == {0.0, 2.0}
    assert layer.eval()(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, math.nan])
def test_a_dropout_that_is_not_a_probability_is_refused(p: float) -> None:
    with pytest.raises(ConfigError, match="dropout"):
        Dropout(p)


@pytest.mark.parametrize("tie, matrices", [("none", 3), ("target", 2), ("all", 1)])
def test_tied_embeddings_are_one_parameter(tie: Any, matrices: int) -> None:
    embeddings = Embeddings(13, 13, dim=6, tie=tie)
    of_vocabularies = [p for p in embeddings.parameters() if p.dim() == 2]
    assert len(of_vocabularies) == matrices
    with torch.no_grad():
        embeddings.target.weight.add_(1.0)
    tied = torch.equal(embeddings.output.weight, embeddings.target.weight)
    assert tied == (tie != "none")
    assert (embeddings.source is embeddings.target) == (tie == "all")


def test_embeddings_are_rows_of_their_matrix_scaled_by_the_root_of_the_width() -> None:
    ids = torch.tensor([[1, 5], [0, 3]])
    scaled, plain = (Embeddings(13, 11, dim=16, tie="target", scale=s) for s in (True, False))
    assert_equal(scaled.embed_source(ids), 4 * scaled.source.weight[ids])
    assert_equal(scaled.embed_target(ids), 4 * scaled.target.weight[ids])
    assert_equal(plain.embed_source(ids), plain.source.weight[ids])


def test_fresh_embeddings_have_the_variance_of_one_over_the_width() -> None:
    embeddings = Embeddings(1000, 1000, dim=64, tie="none")
    for weight in (embeddings.source.weight, embeddings.target.weight, embeddings.output.weight):
        assert weight.std().item() == pytest.approx(1 / 8, rel=0.05)
    assert not embeddings.output.bias.any()


def test_position_schemes_act_at_their_hook_and_nowhere_else() -> None:
    x, heads, positions = randn(2, 3, 8), randn(2, 4, 3, 8), torch.tensor([4, 5, 9])
    names = "none", "sinusoidal", "rope"
    none, added, turned = (position_scheme(name, dim=8) for name in names)
    assert [scheme.hook for scheme in (none, added, turned)] == [None, "embed", "rotate"]
    assert_equal(added.embed(x, positions), x + sinusoid(positions, 8))
    assert_equal(turned.rotate(heads, positions), rotate(heads, positions))
    for scheme in (none, turned):
        assert scheme.embed(x, positions) is x
    for scheme in (none, added):
        assert scheme.rotate(heads, positions) is heads


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_a_seed_fixes_the_embeddings(tie: Any) -> None:
    """The order of draws must not depend on where tensors are in memory."""
    first, second = [], []
    for states in (first, second):
        for _ in range(5):
            torch.default_generator.manual_seed(1)
            states.append(Embeddings(7, 7, dim=4, tie=tie).state_dict())
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert torch.equal(one["source.weight"], first[0]["source.weight"])
