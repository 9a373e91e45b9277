"""Score modules: their two steps follow the formula, and how they start."""

import pytest
import torch
from cases import DIM, Largest, randn
from helpers.builders import assert_equal, gradients, position_scheme, randomised
from helpers.gradients import assert_same
from torch import Tensor

from seq2seq.attention import Place, Role
from seq2seq.attention.heads import position_bias, split_heads
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import SCORES, Score, Widths
from seq2seq.base.errors import ConfigError
from seq2seq.functional import scores
from seq2seq.functional.positions import rotate

H, D, C = 4, 8, 6


def module(name: str, key_width: int = D, projected: bool = True) -> Score:
    return randomised(SCORES.find(name)(Widths(H, D, key_width, projected)))


def formula(name: str, score: Score, q: Tensor, k: Tensor) -> Tensor:
    """The formula of a score, for every query beside every key."""
    of, keys = dict(score.named_parameters()), k.repeat_interleave(H // k.shape[1], dim=1)
    queries, beside = q[:, :, :, None], keys[:, :, None]
    T, S = q.shape[2], k.shape[2]
    both = torch.cat((queries.expand(-1, -1, -1, S, -1), beside.expand(-1, -1, T, -1, -1)), -1)
    if name in ("dot", "scaled_dot"):
        return (queries * beside).sum(-1) * (1.0 if name == "dot" else D**-0.5)
    if name == "gaussian":
        return -of["log_w"].exp()[:, None, None] / 2 * (queries - beside).square().sum(-1)
    if name == "general":
        return torch.einsum("bhtd,hdc,bhsc->bhts", q, of["weight"], keys)
    if name == "concat_linear":
        return torch.einsum("hc,bhtsc->bhts", of["weight"], both)
    weight = of["weight"] if name == "concat" else torch.cat((of["wq"], of["wk"]), dim=2)
    hidden = torch.einsum("hac,bhtsc->bhtsa", weight, both)
    if name == "additive":
        hidden = hidden + of["b"][:, None, None]
    return torch.einsum("ha,bhtsa->bhts", of["u"], hidden.tanh())


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize("name", SCORES)
def test_a_score_in_two_steps_follows_its_formula(name: str, groups: int) -> None:
    wide = name in ("general", "additive", "concat", "concat_linear")
    score, q = module(name, C if wide else D), randn(2, H, 3, D)
    k = randn(2, groups, 5, C if wide else D)
    remembered = score.keys(k.transpose(1, 2)).transpose(1, 2)
    assert_equal(score(score.queries(q), remembered), formula(name, score, q, k))


@pytest.mark.parametrize("name", [name for name in SCORES if SCORES[name].is_dot])
def test_a_score_as_a_dot_product_has_the_same_softmax_and_gradients(name: str) -> None:
    score = module(name)
    q, k = randn(2, H, 3, D).requires_grad_(), randn(2, 2, 5, D).requires_grad_()
    inner = score.queries(q)
    dotted = score.as_dot_product(inner, k)
    actual = scores.dot(dotted.query, k, dotted.scale)
    actual = (actual if dotted.bias is None else actual + dotted.bias).softmax(-1)
    expected = score(score.queries(q), k).softmax(-1)
    assert_same(actual, expected, q, k, *score.parameters())


def test_general_starts_as_the_dot_product_after_projections_and_at_random_without() -> None:
    widths = Widths(H, D, D, projected=True)
    general = SCORES["general"](widths).double()
    q, k = randn(2, H, 3, D), randn(2, 2, 5, D)
    assert_equal(general(general.queries(q), k), scores.dot(q, k))
    torch.default_generator.manual_seed(1)
    (weight,) = SCORES["general"](Widths(H, 300, 500, projected=False)).parameters()
    # Xavier: uniform with variance 2 / (inputs + outputs)
    assert weight.var().item() == pytest.approx(2 / 800, rel=0.02)


def test_the_gaussian_starts_with_a_width_that_makes_it_like_the_scaled_dot_product() -> None:
    gaussian = SCORES["gaussian"](Widths(H, 16, 16))
    (log_w,) = gaussian.parameters()
    assert_equal(log_w.exp(), torch.full((H,), 0.25))
    # Keys of one length: the softmax is that of the scaled dot product.
    q = randn(2, H, 3, 16)
    k = torch.nn.functional.normalize(randn(2, H, 5, 16), dim=-1)
    expected = scores.dot(q, k, 16**-0.5).softmax(-1)
    assert_equal(gaussian.double()(q, k).softmax(-1), expected, 1e-6)


@pytest.mark.parametrize("name", ["concat", "additive"])
def test_a_hidden_layer_starts_uniform_and_learns_from_the_first_step(name: str) -> None:
    attention = MultiHead(Place(Role.CROSS, DIM, DIM), num_heads=4, score=name).double()
    out, weights = attention(randn(2, 5, DIM), randn(2, 7, DIM), need_weights=True)
    assert_equal(weights, torch.full_like(weights, 1 / 7))
    (slope,) = gradients(out.square().sum(), attention.score.get_parameter("u"))
    assert slope.any()


def test_general_rotates_queries_after_its_matrix() -> None:
    place = Place(Role.ENCODER, DIM, DIM, position_scheme("rope"))
    attention = randomised(MultiHead(place, num_heads=H, num_kv_heads=H, score="general"))
    x, positions = randn(2, 6, DIM), torch.arange(6)
    weights = attention(x, need_weights=True).weights
    q, k = (
        linear(x).unflatten(-1, (H, D)).transpose(1, 2) for linear in (attention.q, attention.k)
    )
    mapped = scores.project_per_head(q, attention.score.get_parameter("weight").transpose(1, 2))
    expected = (rotate(mapped, positions) @ rotate(k, positions).transpose(-2, -1)).softmax(-1)
    assert_equal(weights, expected)


@pytest.mark.parametrize("name", SCORES)
def test_without_projections_widths_may_differ_where_the_formula_allows(name: str) -> None:
    place = Place(Role.CROSS, DIM, 20)
    options = {"num_heads": 2, "project": False, "score": name}
    if name in ("dot", "scaled_dot", "gaussian"):
        with pytest.raises(ConfigError, match=r"score needs one width.*Take score=general"):
            MultiHead(place, **options)
    else:
        attention = randomised(MultiHead(place, **options))
        assert attention(randn(2, 5, DIM), randn(2, 7, 20)).out.shape == (2, 5, 20)


def test_a_bias_of_positions_is_added_to_every_score() -> None:
    for name in SCORES:
        place = Place(Role.DECODER, DIM, DIM, position_scheme("alibi", causal=True))
        near = randomised(MultiHead(place, num_heads=1, num_kv_heads=1, score=name), 0.0)
        with torch.no_grad():
            near.v.weight.normal_()
        weights = near(randn(1, 4, DIM), need_weights=True).weights[0, 0]
        # All scores are equal; the one slope is 2^-8.
        expected = torch.tensor([-3.0, -2.0, -1.0, 0.0]).double().div(256).softmax(-1)
        assert_equal(weights[3], expected, 1e-6)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_costs_a_hidden_layer_if_it_computes_one(name: str) -> None:
    """Its largest result has an element for each query, key and hidden unit, or none has."""
    score, T, S = module(name), 20, 30
    with Largest() as largest:
        score(score.queries(randn(1, H, T, D)), score.keys(randn(1, S, H, D)).transpose(1, 2))
    time = MultiHead.cost({"name": "multihead", "num_heads": H, "score": name}).time
    # A Gaussian is computed with differences here, and as a dot product by its usual kernel.
    has_hidden = largest.elements >= H * T * S * D and name != "gaussian"
    assert time == ("T S A" if has_hidden else "T S D")


@pytest.mark.parametrize("name", ["dot", "general"])
def test_scores_that_start_smaller_add_a_smaller_term_of_distances(name: str) -> None:
    """Products of queries and keys are as large as in `scaled_dot`; with `transformer_xl`, terms of
    a query and a distance are D^(-1/4) as large.
    """
    attentions = []
    for score in (name, "scaled_dot"):
        torch.manual_seed(0)
        place = Place(Role.ENCODER, DIM, DIM, position_scheme("transformer_xl"))
        place.position.distance_bias.data.zero_()
        torch.manual_seed(1)
        attentions.append(MultiHead(place, num_heads=4, num_kv_heads=4, score=score).double())
    smaller, usual = attentions
    width, x = DIM // 4, randn(1, 5, DIM)
    assert_equal(smaller.q.weight * width**0.25, usual.q.weight, 1e-5)  # drawn in float32
    if name == "dot":
        products = [
            attention.score(*(split_heads(part(x), 4) for part in (attention.q, attention.k)))
            for attention in attentions
        ]
        assert_equal(*products, 1e-5)
    terms = [
        position_bias(attention.place, split_heads(attention.q(x), 4), torch.arange(5), 5)
        for attention in attentions
    ]
    assert terms[0] is not None and terms[1] is not None
    assert_equal(terms[0] * width**0.25, terms[1], 1e-5)
