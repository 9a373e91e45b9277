"""Where each dropout of a model acts, and that none acts unless it is asked for."""

from typing import Any

import pytest
import torch
from helpers.builders import TARGET_SIZE, assert_equal, model_config, small_model, source_batch
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.models import Seq2Seq
from seq2seq.models.layers.dropout import Dropout, drop_words
from seq2seq.models.layers.layer import FeedForward

MODELS = ("transformer", "rnn", "rnn_luong")
NONE = ("model.dropout=0",)


def hidden(model: Seq2Seq, seed: int = 1) -> Tensor:
    """The output of a model in training for a small batch."""
    torch.manual_seed(0)
    source, target = source_batch(5, 3), torch.randint(4, TARGET_SIZE, (2, 4))
    torch.manual_seed(seed)
    return model.train()(source, target).hidden


def word_dropout(p: float) -> tuple[Tensor, Tensor]:
    """Drop words that are all ones. Returns: which were dropped (rows, places), and the rest."""
    ids = torch.randint(UNK, 50, (400, 100))
    x = drop_words(torch.ones(400, 100, 3), ids, p)
    gone = (x == 0).all(-1)
    assert torch.equal(gone, (x == 0).any(-1))
    return gone, x[~gone]


def test_word_dropout_drops_whole_words_with_its_probability_and_leaves_the_others_alone() -> None:
    gone, left = word_dropout(0.2)
    assert gone.float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert (left == 1).all()


def test_word_dropout_draws_for_each_occurrence_of_a_word() -> None:
    torch.manual_seed(1)
    x = drop_words(torch.ones(1, 64, 2), torch.full((1, 64), 7), 0.5)
    assert 0 < (x == 0).all(-1).sum() < 64


def test_begin_end_and_padding_are_never_dropped() -> None:
    ids = torch.tensor([BOS, EOS, PAD]).repeat(100, 1)
    x = torch.randn(100, 3, 2)
    assert torch.equal(drop_words(x, ids, 0.9), x)


def test_a_word_that_was_dropped_gets_no_gradient() -> None:
    x = torch.randn(4, 30, 2, requires_grad=True)
    out = drop_words(x, torch.full((4, 30), 7), 0.5)
    out.sum().backward()
    assert x.grad is not None
    assert_equal(x.grad, (out != 0).to(x.dtype))


@pytest.mark.parametrize("model", MODELS)
def test_without_dropout_a_model_in_training_draws_nothing(model: str) -> None:
    built = small_model(model, *NONE)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    hidden(built)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("option", ["word_dropout", "attention_dropout"])
def test_dropout_changes_answers_in_training_only(model: str, option: str) -> None:
    torch.manual_seed(3)
    built = small_model(model, *NONE, f"model.{option}=0.5")
    assert not torch.equal(hidden(built, seed=1), hidden(built, seed=2))
    torch.manual_seed(3)
    plain = small_model(model, *NONE)
    source, target = source_batch(5, 3), torch.randint(4, TARGET_SIZE, (2, 4))
    assert torch.equal(built.eval()(source, target).hidden, plain.eval()(source, target).hidden)


@pytest.mark.parametrize("model", MODELS)
def test_words_of_both_sides_are_dropped(model: str) -> None:
    built = small_model(model, *NONE, "model.word_dropout=0.5").train()
    ids = torch.full((20, 20), 5)
    for embedded in (built.embeddings.embed_source(ids), built.embeddings.embed_target(ids)):
        gone = (embedded == 0).all(-1)
        assert gone.any() and not gone.all()


def rates(model: Seq2Seq, kind: Any) -> list[float]:
    """Probabilities of the dropouts inside the modules of a kind."""
    inside = [module for module in model.modules() if isinstance(module, kind)]
    return [part.p for module in inside for part in module.modules() if isinstance(part, Dropout)]


def test_feed_forward_networks_use_the_common_dropout_unless_given_another() -> None:
    common, changed, zero = (
        small_model("transformer", "model.dropout=0.3", *more)
        for more in ((), ("model.activation_dropout=0.1",), ("model.activation_dropout=0",))
    )
    assert set(rates(common, FeedForward)) == {0.3}
    assert set(rates(changed, FeedForward)) == {0.1}
    assert set(rates(zero, FeedForward)) == {0.0}
    assert sorted(set(rates(changed, Seq2Seq))) == [0.1, 0.3]


def test_attentions_use_the_attention_dropout_unless_given_another() -> None:
    def dropouts(*typed: str) -> list[float]:
        config = model_config("transformer", "model.attention_dropout=0.1", *typed)
        return [options["dropout"] for options in config["attention"].values()]

    assert dropouts() == [0.1, 0.1, 0.1]
    assert dropouts("attn.dropout=0.2") == [0.2, 0.2, 0.2]
    assert dropouts("attn@cross_attn=gqa", "cross_attn.dropout=0") == [0.1, 0.1, 0]
    # So does the substitute for a mechanism that is not defined in a role.
    assert (
        model_config("transformer", "model.attention_dropout=0.1", "attn=longformer")["attention"][
            "cross"
        ]["dropout"]
        == 0.1
    )
