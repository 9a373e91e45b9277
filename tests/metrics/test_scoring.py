import math

import pytest
import torch
from helpers.builders import SOURCE_SIZE, TARGET_SIZE, small_model
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS
from seq2seq.metrics import scoring as passes
from seq2seq.metrics.scoring import Pair, TranslationScore, cross_weights, log_probabilities
from seq2seq.models import PassOptions, Seq2Seq
from seq2seq.training.loss import cross_entropy

LENGTHS = [(3, 5), (1, 1), (9, 2), (2, 9), (6, 6), (1, 7)]


def some_pairs() -> list[Pair]:
    return [
        Pair(
            "",
            "",
            torch.randint(4, SOURCE_SIZE, (s,)).tolist(),
            torch.randint(4, TARGET_SIZE, (t,)).tolist(),
            None,
        )
        for s, t in LENGTHS
    ]


def one_step_at_a_time(model: Seq2Seq, pair: Pair) -> Tensor:
    """The log-probability of each target piece, computed one step after the other."""
    state = model.start(model.encode(torch.tensor([[*pair.source_ids, EOS]])))
    logp = []
    for before, piece in zip([BOS, *pair.target_ids], [*pair.target_ids, EOS], strict=True):
        hidden = model.step(torch.tensor([[before]]), state).hidden[0, 0]
        logp.append(model.logits(hidden).log_softmax(-1)[piece])
    return torch.stack(logp)


@pytest.mark.parametrize("name", ["transformer", "rnn"])
@torch.no_grad()
def test_log_probabilities_are_those_of_one_step_at_a_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several batches, and several chunks of rows in each.
    monkeypatch.setattr(passes, "BATCH_PIECES", 20)
    monkeypatch.setattr(passes, "ROWS", 3)
    model, pairs = small_model(name), some_pairs()
    for logp, pair in zip(log_probabilities(model, pairs), pairs, strict=True):
        torch.testing.assert_close(logp, one_step_at_a_time(model, pair))


@torch.no_grad()
def test_log_probabilities_add_up_to_the_loss_of_training() -> None:
    model, pairs = small_model("transformer"), some_pairs()
    for logp, pair in zip(log_probabilities(model, pairs), pairs, strict=True):
        source = torch.tensor([[*pair.source_ids, EOS]])
        target = torch.tensor([[BOS, *pair.target_ids, EOS]])
        hidden = model(source, target[:, :-1]).hidden[0]
        nll = cross_entropy(hidden, model.embeddings.output, target[0, 1:], smoothing=0.1).nll
        torch.testing.assert_close(-logp.sum(), nll)


@torch.no_grad()
def test_weights_are_those_of_a_pair_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "BATCH_PIECES", 20)
    model, pairs = small_model("transformer"), some_pairs()
    for weights, pair in zip(cross_weights(model, pairs), pairs, strict=True):
        source = torch.tensor([[*pair.source_ids, EOS]])
        target = torch.tensor([[BOS, *pair.target_ids]])
        expected = model(source, target, PassOptions(need_weights=True)).weights
        torch.testing.assert_close(weights, expected[:, 0])
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_no_pairs_have_no_scores() -> None:
    model = small_model("rnn")
    assert log_probabilities(model, []) == cross_weights(model, []) == []


def test_a_score_is_the_sum_over_pieces_or_says_why_there_is_none() -> None:
    assert TranslationScore.of(["a", "</s>"], [-1.5, -0.25]) == (
        -1.75,
        [("a", -1.5), ("</s>", -0.25)],
        None,
    )
    for value in (-math.inf, math.nan):
        total, tokens, reason = TranslationScore.of(["a", "</s>"], [-1.5, value])
        assert (total, tokens) == (None, []) and reason and "no finite" in reason
