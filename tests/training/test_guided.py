"""The loss of a guided head against sums written out, gradients included."""

import math

import pytest
import torch
from helpers.builders import SMALL, assert_equal, gradients, model_config, small_model, source_batch
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.data.links.piece_links import BatchLinks
from seq2seq.models import PassOptions, build_model, check_model
from seq2seq.training.config.options import GuidedOptions
from seq2seq.training.guided import (
    MIN_WEIGHT,
    GuidedHead,
    align_loss,
    explain_untrainable,
    find_guided_head,
)

B, T, S = 2, 4, 5
# Row, target piece, source piece, share: a piece from two, two pieces from one, one row in reverse.
ENTRIES = [
    (0, 0, 2, 1.0),
    (0, 1, 0, 0.25),
    (0, 1, 4, 0.75),
    (0, 2, 2, 1.0),
    (1, 0, 3, 1.0),
    (1, 3, 0, 1.0),
]


def links_of(entries: list[tuple[int, int, int, float]], total: int = 0) -> BatchLinks:
    places = torch.tensor([entry[:3] for entry in entries], dtype=torch.int64).view(-1, 3).T
    shares = torch.tensor([entry[3] for entry in entries], dtype=torch.float32)
    return BatchLinks(places, shares, len({entry[:2] for entry in entries}), total)


def written_out(weights: Tensor, entries: list[tuple[int, int, int, float]]) -> Tensor:
    total = torch.zeros((), dtype=weights.dtype)
    for row, target, source, share in entries:
        total = total + share * (math.log(share) - weights[row, target, source].log())
    return total


def test_the_loss_is_the_divergence_of_pencil_and_paper() -> None:
    # The first piece costs log 2, the second twice log((1/2) / (1/8)) / 2.
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]], dtype=torch.float64)
    links = links_of([(0, 0, 0, 1.0), (0, 1, 0, 0.5), (0, 1, 1, 0.5)])
    assert_equal(align_loss(weights, links), torch.tensor(3 * math.log(2), dtype=torch.float64))


def test_the_loss_and_its_gradient_are_those_of_the_sum_written_out() -> None:
    scores = torch.randn(B, T, S, dtype=torch.float64, requires_grad=True)
    loss = align_loss(scores.softmax(-1), links_of(ENTRIES))
    expected = written_out(scores.softmax(-1), ENTRIES)
    assert_equal(loss, expected)
    assert_equal(gradients(loss, scores), gradients(expected, scores))


def test_finite_differences_agree_with_the_loss_of_a_head() -> None:
    scores = torch.randn(B, T, S, dtype=torch.float64, requires_grad=True)
    links = links_of(ENTRIES)
    assert torch.autograd.gradcheck(lambda x: align_loss(x.softmax(-1), links), scores)


def test_the_loss_is_minimal_where_the_weights_are_the_shares() -> None:
    wanted = torch.zeros(B, T, S, dtype=torch.float64)
    for row, target, source, share in ENTRIES:
        wanted[row, target, source] = share
    zero = torch.zeros((), dtype=torch.float64)
    assert_equal(align_loss(wanted, links_of(ENTRIES)), zero)
    for _ in range(5):
        other = torch.rand(B, T, S, dtype=torch.float64)
        assert align_loss(other / other.sum(-1, keepdim=True), links_of(ENTRIES)) > 0


def test_no_links_cost_nothing_and_keep_the_gradient() -> None:
    weights = torch.rand(1, T, S, requires_grad=True)
    loss = align_loss(weights, links_of([]))
    loss.backward()
    assert loss.item() == 0
    assert weights.grad is not None and not weights.grad.any()


def test_a_weight_of_zero_costs_much_but_stays_finite() -> None:
    weights = torch.zeros(B, T, S, requires_grad=True)
    loss = align_loss(weights, links_of(ENTRIES))
    loss.backward()
    assert loss.isfinite() and loss > 100
    assert weights.grad is not None and weights.grad.isfinite().all()


def test_half_precision_is_summed_in_float32() -> None:
    weights = torch.rand(B, T, S).softmax(-1)
    loss = align_loss(weights.bfloat16(), links_of(ENTRIES))
    assert loss.dtype is torch.float32
    assert_equal(loss, align_loss(weights, links_of(ENTRIES)), 0.05)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_that_is_asked_for_gives_the_weights_that_all_together_give(layer: int) -> None:
    model = small_model("transformer")
    source, target = source_batch(7, 4), torch.randint(4, 11, (2, 5))
    every, one = (model(source, target, PassOptions(layers)) for layers in (True, (layer,)))
    assert one.weights.shape[0] == 1
    assert_equal(one.weights[0], every.weights[layer])
    assert_equal(one.hidden, every.hidden)
    assert model(source, target, PassOptions(())).weights is None


def guide_of(*overrides: str, model: str = "transformer", **options: int) -> GuidedHead | None:
    checked = check_model(model_config(model, *overrides))
    return find_guided_head(GuidedOptions(links="a.align", **options), checked)


def test_the_head_is_by_default_in_the_last_layer_but_one_if_that_is_not_the_first() -> None:
    assert guide_of() == (1, 0, 0.5)
    assert guide_of("model.decoder_layers=3") == (1, 0, 0.5)
    assert guide_of("model.decoder_layers=6") == (4, 0, 0.5)
    assert guide_of("model.decoder_layers=1") == (0, 0, 0.5)
    assert guide_of(layer=1, head=4) == (0, 3, 0.5)
    assert guide_of(model="rnn") == guide_of(model="rnn_luong") == (0, 0, 0.5)


def test_without_links_no_head_is_guided() -> None:
    model = check_model(model_config("transformer"))
    assert find_guided_head(GuidedOptions(), model) is None


@pytest.mark.parametrize(
    ("overrides", "options", "words"),
    [
        ([], {"layer": 3}, r"guided.layer=3 should be at least 1 and at most 2"),
        ([], {"head": 5}, r"guided.head=5 should be at least 1 and at most 4"),
        (["attn=fixed"], {}, r"Fixed has none.*attn@cross_attn=mha"),
        (["attn=linformer"], {}, r"Linformer has none.*attn@cross_attn=mha"),
        (["attn=concat_linear"], {}, r"the weights of MultiHead are the same for all words"),
        (["attn=linear"], {}, r"the weights of Linear are not probabilities"),
        (["attn=local_p"], {}, r"the weights of LocalPredictive are not probabilities"),
    ],
)
def test_a_head_that_cannot_be_trained_is_refused_by_name(
    overrides: list[str], options: dict[str, int], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        guide_of(*overrides, **options)


def test_a_link_outside_the_window_costs_a_constant_and_teaches_nothing() -> None:
    built = build_model(model_config("rnn_luong", "attn=local_m", "attn.radius=1"), 13, 11)
    assert explain_untrainable(built.cross) is None
    source, target = source_batch(3), torch.randint(4, 11, (1, 6))
    weights = built(source, target, PassOptions((0,))).weights[0, :, 0].detach().requires_grad_()
    # Of three source pieces, word 3 sees the last and word 5 none.
    assert_equal(weights.sum(-1), torch.tensor([[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]))
    for word, piece, reached in ((1, 2, True), (3, 0, False), (5, 2, False)):
        loss = align_loss(weights, links_of([(0, word, piece, 1.0)]))
        assert gradients(loss, weights)[0].any() == reached
        assert reached or loss.item() == pytest.approx(-math.log(MIN_WEIGHT))


def test_every_model_gives_gradients_of_the_loss_to_its_weights() -> None:
    for model in SMALL:
        built = build_model(model_config(model), 13, 11)
        with torch.no_grad():
            for p in built.parameters():
                p += 0.1 * torch.randn_like(p)  # an additive score begins with zeros
        weights = built(source_batch(5, 3), torch.randint(4, 11, (2, 4)), PassOptions((0,))).weights
        loss = align_loss(weights[0, :, 0], links_of([(0, 0, 2, 1.0), (1, 3, 1, 1.0)]))
        loss.backward()
        moved = {n for n, p in built.named_parameters() if p.grad is not None and p.grad.any()}
        # Both the queries and the keys learn.
        for part in ("encoder.", "embeddings.target.", "embeddings.source."):
            assert any(name.startswith(part) for name in moved), (model, part)
