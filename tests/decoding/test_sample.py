"""Sampling: the distribution, and that a draw depends on nothing but its counters."""

import math

import pytest
import torch
from helpers.builders import small_model, source_batch
from helpers.naive_search import naive_uniform
from helpers.table_model import TableModel
from torch import Tensor

from seq2seq.decoding import Hypothesis, Sample, SearchState, decode
from seq2seq.decoding.sample import uniform_draw
from seq2seq.decoding.search import SentenceOptions

DRAWS = 20_000
LOGITS = torch.tensor([2.0, 1.5, 0.5, 0.0, -1.0, -2.0], dtype=torch.float64)  # best first
LOGP = LOGITS.log_softmax(0)


def drawn(search: Sample, logp: Tensor) -> Tensor:
    """The candidates (B,) that the first step of B sentences draws, from the same row (C,)."""
    search_state = search.start(torch.full((DRAWS,), 9))
    ids = torch.arange(10, 10 + len(logp)).expand(DRAWS, -1)
    return search_state.advance(logp.expand(DRAWS, -1), ids).tokens - 10


def chi_square(tokens: Tensor, p: Tensor) -> float:
    """The statistic of drawn tokens, with one degree of freedom fewer than probabilities."""
    expected = p * len(tokens)
    observed = tokens.bincount(minlength=len(p)).double()
    assert observed[p == 0].sum() == 0
    return (((observed - expected) ** 2)[p > 0] / expected[p > 0]).sum().item()


# Degrees of freedom -> the value that chi-square exceeds once in 10,000 times.
RARE = {1: 15.1, 2: 18.4, 3: 21.1, 5: 25.7, 99: 161.3}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_softmax_at_the_temperature(
    temperature: float, seed: int
) -> None:
    tokens = drawn(Sample(temperature=temperature, seed=seed), LOGP)
    assert chi_square(tokens, (LOGITS / temperature).softmax(0)) < RARE[5]


@pytest.mark.parametrize("seed", range(3))
def test_top_k_draws_from_the_best_alone(seed: int) -> None:
    search = Sample(top_k=3, seed=seed)
    assert search.start(torch.tensor([9])).request().count == 3
    assert chi_square(drawn(search, LOGP[:3]), LOGITS[:3].softmax(0)) < RARE[2]


def test_top_p_draws_from_the_fewest_that_reach_it() -> None:
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    for top_p, kept in [(0.05, 1), (0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.95, 4), (1.0, 4)]:
        expected = torch.cat((p[:kept] / p[:kept].sum(), p.new_zeros(4 - kept)))
        tokens = drawn(Sample(top_p=top_p), p.log())
        assert tokens.unique().tolist() == list(range(kept))
        if kept > 1:
            assert chi_square(tokens, expected) < RARE[kept - 1]


@pytest.mark.parametrize(
    "options, kept",
    [
        ({"epsilon": 0.15}, 3),
        ({"epsilon": 0.35}, 1),
        ({"epsilon": 1.0}, 1),  # the best stays
        ({"min_p": 0.2}, 4),
        ({"min_p": 0.6}, 2),
        ({"min_p": 1.0}, 1),
        ({"min_p": 0.4, "temperature": 2.0}, 4),  # 0.5 after the temperature: sqrt(0.1 / 0.4)
        ({"min_p": 0.7, "epsilon": 0.15, "top_p": 0.95}, 2),
        ({"min_p": 0.3, "epsilon": 0.15, "top_p": 0.65}, 2),
        ({"min_p": 0.3, "epsilon": 0.35, "top_p": 0.65}, 1),
    ],
)
def test_epsilon_and_min_p_draw_from_what_is_probable_enough(
    options: dict[str, float], kept: int
) -> None:
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    left = p[:kept] ** (1 / options.get("temperature", 1.0))
    tokens = drawn(Sample(**options), p.log())  # type: ignore[arg-type]
    assert tokens.unique().tolist() == list(range(kept))
    if kept > 1:
        expected = torch.cat((left / left.sum(), p.new_zeros(4 - kept)))
        assert chi_square(tokens, expected) < RARE[kept - 1]


def test_epsilon_applies_to_probabilities_after_top_k() -> None:
    p = torch.tensor([0.5, 0.1, 0.1, 0.3], dtype=torch.float64)
    tokens = drawn(Sample(top_k=2, epsilon=0.15), p[:2].log())
    assert tokens.unique().tolist() == [0, 1]


def test_sentences_of_one_batch_may_keep_different_tokens() -> None:
    searches = [Sample(min_p=0.6), Sample(epsilon=0.15), Sample(), Sample(top_p=0.3)]
    sentences = [SentenceOptions(searches[i % 4], draw_id=i) for i in range(DRAWS)]
    search_state = Sample().start(torch.full((DRAWS,), 9), sentences)
    logp = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()
    tokens = search_state.advance(logp.expand(DRAWS, -1), torch.arange(4).expand(DRAWS, -1)).tokens
    kept = [len(part.unique()) for part in tokens.view(-1, 4).T]
    assert kept == [2, 3, 4, 1]


def test_impossible_tokens_are_never_drawn() -> None:
    tokens = drawn(Sample(), torch.tensor([math.log(0.5), math.log(0.5), -torch.inf, -torch.inf]))
    assert tokens.unique().tolist() == [0, 1]


def test_random_values_are_uniform_along_each_counter() -> None:
    along = torch.arange(DRAWS)
    zero = torch.zeros((), dtype=torch.int64)
    for counters in ((along, zero, zero), (zero, along, zero), (zero, zero, along)):
        u = uniform_draw(torch.tensor(1), *counters)
        assert ((u >= 0) & (u < 1)).all()
        assert chi_square((u * 100).long(), torch.full((100,), 0.01)) < RARE[99]
        pairs = (u[:-1] * 10).long() * 10 + (u[1:] * 10).long()  # neighbours are independent
        assert chi_square(pairs, torch.full((100,), 0.01)) < RARE[99]


def test_random_values_are_those_of_unsigned_arithmetic() -> None:
    counters = [(0, 0, 0), (1, 2, 3), (10**9, 5, 200), (2**40, 1, 1)]
    values = uniform_draw(torch.tensor(7), *torch.tensor(counters).T).tolist()
    assert values == [naive_uniform(7, *each) for each in counters]


def texts(results: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[h.ids for h in hypotheses] for hypotheses in results]


@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_a_seed_fixes_the_samples(model: str) -> None:
    built, source = small_model(model), source_batch(9, 9, 9)
    first, again, other = (
        texts(decode(built, source, Sample(samples=4, seed=seed))) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert len({tuple(ids) for ids in first[0]}) > 1, "samples differ"


def test_equal_sources_get_different_translations_and_each_the_score_of_the_model() -> None:
    model, source = TableModel(9), source_batch(9).expand(3, -1)
    results = decode(model, source, Sample(samples=2, temperature=3.0))
    assert len({tuple(ids) for ids in sum(texts(results), [])}) > 3
    logp = model.next_logp(int(source[0, 0]))
    for h in sum(results, []):
        written = h.ids if h.truncated else [*h.ids, 2]
        expected = [logp(written[:i])[token] for i, token in enumerate(written)]
        assert h.token_logp == pytest.approx(expected)
        assert h.score == pytest.approx(sum(expected) / len(expected))


def test_a_sentence_draws_by_its_id_in_any_batch() -> None:
    search = Sample(samples=2, seed=5)

    def draws(draw_ids: list[int]) -> dict[int, list[int]]:
        search_state: SearchState = search.start(
            torch.full((len(draw_ids),), 9), [SentenceOptions(search, (), i) for i in draw_ids]
        )
        rows = 2 * len(draw_ids)
        ids = torch.arange(10, 16).expand(rows, -1)
        steps = [
            search_state.advance(LOGP.expand(rows, -1), ids).tokens.view(-1, 2) for _ in range(5)
        ]
        return dict(zip(draw_ids, torch.stack(steps, 1).tolist(), strict=True))

    together = draws([4, 0, 17, 3])
    assert draws([17]) == {17: together[17]}
    assert draws([3, 4]) == {3: together[3], 4: together[4]}
    assert len({str(tokens) for tokens in together.values()}) == 4
