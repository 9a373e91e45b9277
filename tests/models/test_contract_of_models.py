"""The contract of models: what holds for every architecture with every attention."""

from itertools import filterfalse

import pytest
import torch
from helpers.builders import (
    SMALL,
    TARGET_SIZE,
    assert_equal,
    every_attention,
    every_other,
    gradients,
    marked,
    model_config,
    presets,
    small_model,
    source_batch,
)
from torch import Tensor

from seq2seq.attention import ATTENTION, Attention
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.models import Encoded, PassOptions, Seq2Seq, build_model, check_model

# Each line changes one option of the default, or two that interact.
VARIANTS = [
    "transformer",
    "transformer model.norm_order=post",
    "transformer model.norm=rmsnorm",
    "transformer model.norm=rmsnorm model.norm_order=post",
    "transformer model.activation=gelu",
    "transformer model.activation=swiglu",
    "transformer model.scale=false",
    "transformer model.share_layers=true",
    "transformer model.tie=none model.encoder_layers=1",
    "transformer position=rope",
    "transformer position=none",
    "transformer position=learned",
    "transformer position=alibi",
    "transformer position=t5",
    "transformer position=t5 attn=gaussian",
    "transformer position=transformer_xl",
    "transformer position=rope attn=general",
    "transformer attn=gqa position=rope model.norm=rmsnorm model.activation=swiglu",
    "transformer attn@encoder_attn=mqa attn@decoder_attn=gqa attn@cross_attn=mha",
    "transformer attn@encoder_attn=additive attn@decoder_attn=mqa attn@cross_attn=fixed",
    "rnn",
    "rnn model.layers=2",
    "rnn model.cell=lstm",
    "rnn model.cell=lstm model.layers=2",
    "rnn model.cell=lstm attn=dot",
    "rnn_luong model.cell=lstm model.layers=2",
    "rnn model.num_heads=4",
    "rnn model.num_heads=4 attn=gqa model.tie=none",
]
VARIANTS += every_attention()

every_variant = pytest.mark.parametrize("variant", marked(VARIANTS))


def build(variant: str) -> Seq2Seq:
    return small_model(*variant.split())


def shows_weights(variant: str) -> bool:
    cross = model_config(*variant.split())["attention"]["cross"]
    return ATTENTION[cross["name"]].shows_weights


every_variant_with_weights = pytest.mark.parametrize(
    "variant", marked(filter(shows_weights, VARIANTS))
)
every_variant_without = pytest.mark.parametrize(
    "variant", marked(filterfalse(shows_weights, VARIANTS))
)


def target_batch(rows: int, tokens: int) -> Tensor:
    """(rows, tokens) ids that begin with bos."""
    ids = torch.randint(4, TARGET_SIZE, (rows, tokens))
    ids[:, 0] = BOS
    return ids


@every_variant
@torch.no_grad()
def test_step_by_step_equals_teacher_forcing(variant: str) -> None:
    model, source, target = build(variant), source_batch(7, 4, 1), target_batch(3, 7)
    expected = model(source, target).hidden
    for steps in [1] * 7, [2, 3, 2], [7]:
        state = model.start(model.encode(source))
        hidden = [model.step(tokens, state).hidden for tokens in target.split(steps, dim=1)]
        assert_equal(torch.cat(hidden, dim=1), expected)
        assert state.length == 7


@every_variant
@torch.no_grad()
def test_a_sentence_alone_equals_itself_in_a_padded_batch(variant: str) -> None:
    model, lengths = build(variant), [65, 7, 1]
    source, target = source_batch(*lengths, size=70), target_batch(3, 9)
    encoded, together = model.encode(source), model(source, target).hidden
    for row, length in enumerate(lengths):
        alone = source[row : row + 1, :length]
        assert_equal(encoded.states[row, :length], model.encode(alone).states[0])
        assert encoded.mask[row].tolist() == [i < length for i in range(70)]
        for T in (9, 4):
            assert_equal(together[row, :T], model(alone, target[row : row + 1, :T]).hidden[0])


@every_variant
@torch.no_grad()
def test_later_target_tokens_change_nothing_before_them(variant: str) -> None:
    model, source, target = build(variant), source_batch(7, 4), target_batch(2, 7)
    expected = model(source, target).hidden
    other = target.clone()
    other[:, 4:] = (other[:, 4:] + 1) % TARGET_SIZE
    changed = model(source, other).hidden
    assert_equal(changed[:, :4], expected[:, :4])
    assert not torch.allclose(changed[:, 4:], expected[:, 4:])


@every_variant_with_weights
@torch.no_grad()
def test_asking_for_weights_shows_an_alignment_and_does_not_change_the_answer(variant: str) -> None:
    model, source, target = build(variant), source_batch(7, 4, 1), target_batch(3, 5)
    plain, asked = model(source, target), model(source, target, PassOptions(need_weights=True))
    assert plain.weights is None and asked.weights is not None
    assert_equal(asked.hidden, plain.hidden)
    layers, *_, tokens, pieces = asked.weights.shape
    assert (layers, tokens, pieces) == (2 if "transformer" in variant else 1, 5, 7)
    if all(a.sums_to_one for a in model.modules() if isinstance(a, Attention)):
        assert_equal(asked.weights.sum(-1), torch.ones(asked.weights.shape[:-1]).double())
    assert not asked.weights.movedim(-1, 2).movedim(0, 2)[source == PAD].any()
    state = model.start(model.encode(source))
    model.step(target[:, :3], state)
    step = model.step(target[:, 3:], state, need_weights=True)
    assert_equal(step.weights, asked.weights[..., 3:, :])


@every_variant_without
def test_a_model_without_weights_says_so(variant: str) -> None:
    with pytest.raises(ValueError, match="has no weights"):
        build(variant)(source_batch(7), target_batch(1, 5), PassOptions(need_weights=True))


@every_variant
@torch.no_grad()
def test_beams_continue_their_parents_and_sentences_leave(variant: str) -> None:
    model, K = build(variant), 3
    source, past, future = source_batch(7, 4, 2), target_batch(9, 4), target_batch(9, 2)
    state = model.start(model.encode(source), beams=K)
    tiled = source.repeat_interleave(K, dim=0)
    assert_equal(model.step(past, state).hidden, model(tiled, past).hidden)
    # Each row continues another of its sentence; some repeat.
    parents = torch.tensor([2, 0, 0, 3, 4, 5, 7, 8, 6])
    state.fork(parents)
    state.keep(torch.tensor([0, 2]))
    rows = torch.tensor([0, 1, 2, 6, 7, 8])
    continued = model.step(future[rows], state).hidden
    whole = torch.cat((past[parents], future), dim=1)[rows]
    assert_equal(continued, model(tiled[rows], whole).hidden[:, 4:])


@every_variant
def test_gradients_reach_every_parameter_and_no_padding(variant: str) -> None:
    model, source, target = build(variant), source_batch(7, 4, 1), target_batch(3, 5)
    model.logits(model(source, target).hidden).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.dim() < 2 or parameter.grad.any(), name
    source_grad = model.embeddings.source.weight.grad
    assert source_grad is not None
    if model.embeddings.source is not model.embeddings.target:
        assert not source_grad[PAD].any()
        assert source_grad[EOS].any()


@every_variant
@torch.no_grad()
def test_the_state_dict_survives_a_round_trip(variant: str) -> None:
    saved, fresh = build(variant), build(variant)
    source, target = source_batch(7, 4), target_batch(2, 5)
    expected = saved(source, target).hidden
    assert not torch.allclose(fresh(source, target).hidden, expected)
    fresh.load_state_dict(saved.state_dict(), strict=True)
    assert torch.equal(fresh(source, target).hidden, expected)


@pytest.mark.parametrize("variant", every_other(VARIANTS))
def test_training_and_validation_run_in_mixed_precision(variant: str) -> None:
    model, source, target = build(variant).float(), source_batch(7, 4, 1), target_batch(3, 5)
    for run in (with_gradient, step_by_step):
        exact = run(model, source, target)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = run(model, source, target)
        assert (mixed.float() - exact).norm() < 0.1 * exact.norm()


def with_gradient(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    hidden = model(source, target).hidden
    for slope in gradients(hidden.float().sum(), *model.parameters()):
        assert slope.isfinite().all()
    return hidden.detach()


@torch.no_grad()
def step_by_step(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    state = model.start(model.encode(source))
    hidden = [model.step(tokens, state).hidden for tokens in target.split(1, dim=1)]
    return torch.cat(hidden, dim=1)


@pytest.mark.parametrize("position", presets("position"))
@torch.no_grad()
def test_the_decoder_sees_the_source_as_a_set_of_states(position: str) -> None:
    # Source and target positions have no common axis: a scheme inside attention is skipped there.
    model, order = small_model("transformer", f"position={position}"), torch.tensor([2, 0, 3, 1])
    encoded, target = model.encode(source_batch(4, 3)), target_batch(2, 5)
    shuffled = Encoded(encoded.states[:, order], encoded.mask[:, order])
    expected = model.step(target, model.start(encoded)).hidden
    assert_equal(model.step(target, model.start(shuffled)).hidden, expected)


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("tie, shared", [("none", 0), ("target", 1), ("all", 2)])
def test_tying_shares_one_parameter(model: str, tie: str, shared: int) -> None:
    sizes: list[int] = []
    for choice in ("none", tie):
        config = model_config(model, f"model.tie={choice}")
        built = build_model(config, 13, 13)
        sizes.append(sum(p.numel() for p in built.parameters()))
    assert sizes[0] - sizes[1] == shared * 13 * 32


@pytest.mark.parametrize(
    "wrong, message",
    [
        ("rnn position=rope", "position=none"),
        ("rnn position=sinusoidal", "position=none"),
        ("rnn model.dim=31", r"model\.dim=31 must be even"),
        ("transformer model.num_heads=5", "num_heads=5 does not divide dim=32"),
    ],
)
def test_an_impossible_model_is_refused_before_it_takes_memory(wrong: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_model(model_config(*wrong.split()))
