"""Sampling: the distribution, and that a draw depends on nothing but its own counters."""

import math

import pytest
import torch
from helpers import small_model, source_batch
from naive import naive_uniform
from torch import Tensor
from toys import TableModel

from seq2seq.decoding import Hypothesis, Sample, SearchState, decode
from seq2seq.decoding.sample import uniform

DRAWS = 20_000
LOGITS = torch.tensor([2.0, 1.5, 0.5, 0.0, -1.0, -2.0], dtype=torch.float64)  # best first
LOGP = LOGITS.log_softmax(0)


def drawn(search: Sample, logp: Tensor) -> Tensor:
    """The candidates (B,) that the first step of B sentences draws, from the same row (C,)."""
    search_state = search.start(torch.full((DRAWS,), 9))
    ids = torch.arange(10, 10 + len(logp)).expand(DRAWS, -1)
    return search_state.advance(logp.expand(DRAWS, -1), ids).tokens - 10


def chi_square(found: Tensor, p: Tensor) -> float:
    """Of drawn numbers, for degrees of freedom as many as probabilities but one."""
    expected = p * len(found)
    observed = found.bincount(minlength=len(p)).double()
    assert observed[p == 0].sum() == 0
    return (((observed - expected) ** 2)[p > 0] / expected[p > 0]).sum().item()


# What chi-square of so many degrees of freedom exceeds once in 10,000 times.
RARE = {1: 15.1, 2: 18.4, 3: 21.1, 5: 25.7, 99: 161.3}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_softmax_at_the_temperature(
    temperature: float, seed: int
) -> None:
    found = drawn(Sample(temperature=temperature, seed=seed), LOGP)
    assert chi_square(found, (LOGITS / temperature).softmax(0)) < RARE[5]


@pytest.mark.parametrize("seed", range(3))
def test_top_k_draws_from_the_best_alone(seed: int) -> None:
    search = Sample(top_k=3, seed=seed)
    assert search.start(torch.tensor([9])).request().count == 3
    assert chi_square(drawn(search, LOGP[:3]), LOGITS[:3].softmax(0)) < RARE[2]


def test_top_p_draws_from_the_fewest_that_reach_it() -> None:
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    for top_p, kept in [(0.05, 1), (0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.95, 4), (1.0, 4)]:
        expected = torch.cat((p[:kept] / p[:kept].sum(), p.new_zeros(4 - kept)))
        found = drawn(Sample(top_p=top_p), p.log())
        assert found.unique().tolist() == list(range(kept))
        if kept > 1:
            assert chi_square(found, expected) < RARE[kept - 1]


def test_what_is_impossible_is_never_drawn() -> None:
    found = drawn(Sample(), torch.tensor([math.log(0.5), math.log(0.5), -torch.inf, -torch.inf]))
    assert found.unique().tolist() == [0, 1]


def test_the_numbers_are_uniform_along_each_counter() -> None:
    along = torch.arange(DRAWS)
    zero = torch.zeros((), dtype=torch.int64)
    for counters in ((along, zero, zero), (zero, along, zero), (zero, zero, along)):
        u = uniform(1, *counters)
        assert ((u >= 0) & (u < 1)).all()
        assert chi_square((u * 100).long(), torch.full((100,), 0.01)) < RARE[99]
        pairs = (u[:-1] * 10).long() * 10 + (u[1:] * 10).long()  # neighbours are independent
        assert chi_square(pairs, torch.full((100,), 0.01)) < RARE[99]


def test_the_numbers_are_those_of_arithmetic_without_signs() -> None:
    counters = [(0, 0, 0), (1, 2, 3), (10**9, 5, 200), (2**40, 1, 1)]
    found = uniform(7, *torch.tensor(counters).T).tolist()
    assert found == [naive_uniform(7, *each) for each in counters]


def texts(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[h.ids for h in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_the_same_seed_draws_the_same_and_another_one_others(model: str) -> None:
    built, source = small_model(model), source_batch(9, 9, 9)
    first, again, other = (
        texts(decode(built, source, Sample(samples=4, seed=seed))) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert len({tuple(ids) for ids in first[0]}) > 1, "samples differ"


def test_equal_sources_get_different_translations_and_each_the_score_of_the_model() -> None:
    model, source = TableModel(9), source_batch(9).expand(3, -1)
    found = decode(model, source, Sample(samples=2, temperature=3.0))
    assert len({tuple(ids) for ids in sum(texts(found), [])}) > 3
    logp = model.next_logp(int(source[0, 0]))
    for h in sum(found, []):
        written = h.ids if h.truncated else [*h.ids, 2]
        expected = [logp(written[:i])[token] for i, token in enumerate(written)]
        assert h.token_logp == pytest.approx(expected)
        assert h.score == pytest.approx(sum(expected) / len(expected))
        assert h.confidence == pytest.approx(math.exp(h.score))


def test_a_sentence_draws_by_its_number_wherever_it_stands() -> None:
    search = Sample(samples=2, seed=5)

    def draws(numbers: list[int]) -> dict[int, list[int]]:
        search_state: SearchState = search.start(
            torch.full((len(numbers),), 9), numbers=torch.tensor(numbers)
        )
        rows = 2 * len(numbers)
        ids = torch.arange(10, 16).expand(rows, -1)
        steps = [
            search_state.advance(LOGP.expand(rows, -1), ids).tokens.view(-1, 2) for _ in range(5)
        ]
        return dict(zip(numbers, torch.stack(steps, 1).tolist(), strict=True))

    together = draws([4, 0, 17, 3])
    assert draws([17]) == {17: together[17]}
    assert draws([3, 4]) == {3: together[3], 4: together[4]}
    assert len({str(found) for found in together.values()}) == 4
