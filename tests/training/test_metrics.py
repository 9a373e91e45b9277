from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torchmetrics import Metric

from seq2seq.metrics.registry import build_bleu
from seq2seq.training.module import SummedScore, TokenMean

HYPOTHESES = ["the dog runs in the park .", "a cat", "", "the bird sings a long song today"]
REFERENCES = ["the dog runs through the park .", "a cat sleeps", "yes", "the bird sings a song"]


def merged(make: Callable[[], Metric], shares: list[list[tuple]]) -> Metric:
    """One metric a device, brought together as torchmetrics does: states are summed."""
    metrics = [make() for _ in shares]
    for metric, updates in zip(metrics, shares, strict=True):
        for update in updates:
            metric.update(*update)
    whole = metrics[0]
    for name, reduce in whole._reductions.items():
        assert callable(reduce)
        setattr(whole, name, reduce(torch.stack([getattr(m, name) for m in metrics])))
    return whole


@pytest.mark.parametrize("scorer", [BLEU(), CHRF()])
@given(owners=st.lists(st.sampled_from([0, 1, 2]), min_size=4, max_size=4))
def test_a_score_does_not_depend_on_who_judged_which_sentence(
    scorer: BLEU | CHRF, owners: list[int]
) -> None:
    shares: list[list[tuple]] = [[], [], []]
    for owner, hypothesis, reference in zip(owners, HYPOTHESES, REFERENCES, strict=True):
        shares[owner].append(([hypothesis], [reference]))
    whole = merged(lambda: SummedScore(scorer), shares)
    whole._update_count = 1
    expected = scorer.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert whole.compute().item() == pytest.approx(expected, rel=1e-6)


def test_bleu_finds_words_as_the_language_asks() -> None:
    metric = SummedScore(build_bleu("zh"))
    metric.update(["他们在公园里跑步"], ["他们在公园跑步"])
    expected = BLEU(tokenize="zh").corpus_score(["他们在公园里跑步"], [["他们在公园跑步"]]).score
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


def test_the_mean_is_over_tokens_not_over_batches_or_devices() -> None:
    shares = [[(torch.tensor(2.0), 2), (torch.tensor(3.0), 1)], [(torch.tensor(9.0), 1)]]
    metric = merged(TokenMean, shares)
    metric._update_count = 1
    assert metric.compute().item() == pytest.approx((2 + 3 + 9) / 4)


def test_a_sum_of_many_small_losses_loses_nothing_to_rounding() -> None:
    metric = TokenMean()
    metric.update(torch.tensor(2.0**24), 2**24)
    for _ in range(1000):  # in float32 each of these would vanish
        metric.update(torch.tensor(0.5), 0)
    assert metric.total.item() == 2.0**24 + 500


@pytest.mark.parametrize("make", [lambda: SummedScore(BLEU()), TokenMean])
def test_states_are_reset_between_validations(make: Callable[[], Metric]) -> None:
    metric = make()
    update = (torch.tensor(3.0), 2) if make is TokenMean else (HYPOTHESES, REFERENCES)
    metric.update(*update)
    first = metric.compute()
    metric.reset()
    metric.update(*update)
    assert torch.equal(metric.compute(), first)
