"""Beam search, compared with exhaustive and greedy search and with values worked out by hand."""

import math
from typing import Any

import pytest
import torch
from helpers.builders import source_batch
from helpers.table_model import TableModel, assert_same, every_hypothesis

from seq2seq.base.symbols import EOS
from seq2seq.decoding import Beam, Greedy, SearchState, decode

LIMITS = [(0.0, 1), (0.0, 3), (1.0, 1), (1.5, 10)]  # length_ratio, length_extra


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model = TableModel(7, seed)
    source = source_batch(5, 3, 1, 9)
    for ratio, extra in LIMITS:
        greedy = decode(model, source, Greedy(length_ratio=ratio, length_extra=extra))
        beam = decode(model, source, Beam(beam_size=1, length_ratio=ratio, length_extra=extra))
        for one, other in zip(beam, greedy, strict=True):
            assert_same(one, other)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest", [1, 2, 3, 5])
@pytest.mark.parametrize("penalty", [{"length_penalty": 0.0}, {}, {"penalty_form": "gnmt"}])
def test_a_beam_as_wide_as_the_tree_is_exhaustive_search(
    penalty: dict[str, Any], longest: int, seed: int
) -> None:
    vocabulary = 6  # two words, eos, and the symbols that no search writes
    model, source = TableModel(vocabulary, seed), source_batch(3, 1)
    search = Beam(beam_size=3**longest, length_ratio=0.0, length_extra=longest, **penalty)
    for row, hypotheses in enumerate(decode(model, source, search)):
        logp = model.next_logp(int(source[row, 0]))
        everything = every_hypothesis(logp, vocabulary, longest)
        lengths = [len(h.token_logp) for h in everything]
        scored = [
            h._replace(score=h.log_probability / search.penalty(n))
            for h, n in zip(everything, lengths, strict=True)
        ]
        assert_same(hypotheses, sorted(scored, key=lambda h: (h.truncated, -h.score)))


A, B, C = 4, 5, 6
UNLIKELY = dict.fromkeys((A, B, C, EOS), -90.0)


def advance(
    search_state: SearchState, *beams: dict[int, float]
) -> tuple[list[int], list[int], bool]:
    """One step of one sentence: the candidates of each beam -> parents, tokens, done."""
    ranked = [sorted(beam.items(), key=lambda item: -item[1]) for beam in beams]
    logp = torch.tensor([[value for _, value in beam] for beam in ranked], dtype=torch.float64)
    ids = torch.tensor([[token for token, _ in beam] for beam in ranked])
    parents, tokens, done = search_state.advance(logp, ids)
    same = list(range(len(beams))) if parents is None else parents.tolist()
    return same, tokens.tolist(), bool(done)


def test_two_beams_by_pencil_and_paper() -> None:
    search = Beam(beam_size=2, length_penalty=1.0, stopping="count")
    search_state = search.start(torch.tensor([10]))
    # Only beam 0 is live at first: A -1, B -2; the other beam's -0.1 must not count.
    first = {A: -1.0, B: -2.0, EOS: -3.0, C: -4.0}
    assert advance(search_state, first, {C: -0.1, B: -0.2, A: -0.3, EOS: -0.4}) == (
        [0, 0],
        [A, B],
        False,
    )
    # A: C -1.5, eos -4.0    B: eos -2.5, A -3.0, so ranks: A C -1.5, B eos -2.5, B A -3.0, A eos -4
    # The eos of rank 2 is finished, that of rank 4 is not; A C and B A go on.
    second = advance(
        search_state, {C: -0.5, EOS: -3.0, B: -9, A: -9}, {EOS: -0.5, A: -1.0, B: -9, C: -9}
    )
    assert second == ([0, 1], [C, A], False)
    # A C: eos -2.0, A -2.5    B A: C -3.5, A -4.0. Two are finished now: done.
    third = advance(
        search_state, {EOS: -0.5, A: -1, B: -9, C: -9}, {C: -0.5, A: -1, B: -9, EOS: -9}
    )
    assert third[2]
    ((best, runner_up, *_),) = search_state.results([0])
    assert (best.ids, best.log_probability) == ([A, C], -2.0)
    assert best.score == pytest.approx(-2.0 / 3)
    assert (runner_up.ids, runner_up.log_probability) == ([B], -2.5)
    assert runner_up.score == pytest.approx(-2.5 / 2)


@pytest.mark.parametrize("seed", range(20))
def test_no_translation_is_worse_than_that_of_greedy_search(seed: int) -> None:
    """By the score of beam search, which reserves a beam so as not to lose that translation."""
    model, source = TableModel(9, seed, eos=-1.0), source_batch(*range(1, 12))
    limits = {"length_ratio": 2.0, "length_extra": 20}
    greedy = decode(model, source, Greedy(**limits))
    beam = decode(model, source, Beam(beam_size=3, **limits))
    for (best, *_), (alone,) in zip(beam, greedy, strict=True):
        if not alone.truncated:
            assert best.score >= alone.score - 1e-9 and not best.truncated


def close_to_its_end(**options: Any) -> tuple[SearchState, bool]:
    """Hypotheses of one and two tokens have ended with -1.5 and -3.0; A A is open, with -1.0.

    Returns: the state, and True if the sentence is done.
    """
    search_state = Beam(**{"beam_size": 2, "length_extra": 50, **options}).start(torch.tensor([0]))
    advance(search_state, {A: -0.5, EOS: -1.5, B: -90.0, C: -90.0}, UNLIKELY)
    *_, done = advance(search_state, {A: -0.5, EOS: -2.5, B: -90.0, C: -90.0}, UNLIKELY)
    return search_state, done


@pytest.mark.parametrize(
    "options, done",
    [
        ({"stopping": "count"}, True),
        # The best has finished with -1.5. A A could have -1.0, and -1.0 / 3 by token.
        ({"length_penalty": 0.0}, False),
        ({"length_penalty": 1.0}, False),
        ({"length_penalty": 1.0, "patience": 0.0}, False),
    ],
)
def test_two_ends_finish_a_sentence_unless_an_open_hypothesis_can_win(
    options: dict[str, Any], done: bool
) -> None:
    assert close_to_its_end(**options)[1] == done


def test_a_sentence_is_done_when_nothing_open_can_win() -> None:
    """Both ends have -1.5 for each token, so with an end after the next token -6 is a draw. What
    greedy search would write may become 52 tokens long: -78 is one.
    """
    for loss, done in ((-4.9, False), (-5.1, True)):
        search_state, _ = close_to_its_end(length_penalty=1.0)
        # Greedy search ends; B goes on.
        assert advance(search_state, {EOS: -4.0, B: loss, A: -90.0, C: -90.0}, UNLIKELY)[2] == done
    for loss, done in ((-76.9, False), (-77.1, True)):
        search_state, _ = close_to_its_end(length_penalty=1.0, length_extra=52)
        assert advance(search_state, {A: loss, B: -90.0, C: -90.0, EOS: -90.0}, UNLIKELY)[2] == done


def test_without_a_length_penalty_a_sentence_stops_as_soon_as_possible() -> None:
    """Log-probabilities only fall: what is open and below the best end can never win."""
    for loss, done in ((-0.4, False), (-0.6, True)):
        search_state, _ = close_to_its_end(length_penalty=0.0)
        assert advance(search_state, {**UNLIKELY, A: loss}, UNLIKELY)[2] == done


def test_of_equal_hypotheses_the_first_to_finish_wins() -> None:
    search = Beam(beam_size=2, length_penalty=0.0)
    search_state = search.start(torch.tensor([10]))
    unlikely = {A: -9.0, B: -9.0, C: -9.0, EOS: -9.0}
    advance(search_state, {A: -0.5, EOS: -1.0, B: -9.0, C: -9.0}, unlikely)
    *_, done = advance(search_state, {EOS: -0.5, A: -5.0, B: -9.0, C: -9.0}, unlikely)
    first, second = search_state.results([0])[0]
    assert done and first.score == second.score == -1.0
    assert (first.ids, second.ids) == ([], [A])


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"length_penalty": 0.0}, -3.0),
        ({"length_penalty": 1.0}, -3.0 / 2),
        ({"length_penalty": 0.5}, -3.0 / 2**0.5),
        ({"length_penalty": 1.0, "penalty_form": "gnmt"}, -3.0 / (7 / 6)),
        ({"length_penalty": 2.0, "penalty_form": "gnmt"}, -3.0 / (49 / 36)),
    ],
)
def test_length_penalties_by_pencil_and_paper(options: dict[str, Any], expected: float) -> None:
    search_state = Beam(beam_size=1, **options).start(torch.tensor([10]))
    advance(search_state, {A: -1.0, EOS: -5.0})
    advance(search_state, {EOS: -2.0, A: -5.0})  # two tokens: A, eos
    ((best,),) = search_state.results([0])
    assert (best.ids, best.log_probability, best.token_logp) == ([A], -3.0, [-1.0, -2.0])
    assert best.score == pytest.approx(expected)


def test_coverage_by_pencil_and_paper() -> None:
    search = Beam(beam_size=1, length_penalty=0.0, coverage=0.5)
    assert search.reads_weights and not Beam().reads_weights
    search_state = search.start(torch.tensor([2, 1]))  # three pieces and two, eos among them
    ids, logp = torch.tensor([[A, EOS], [A, EOS]]), torch.tensor([[-1.0, -5.0]]).expand(2, -1)
    # (L, N, H, 1, S): the last of two layers counts, and the mean of its two heads.
    ignored = torch.full((2, 2, 3), 9.0)
    first = torch.tensor([[[0.8, 0.2, 0.0], [0.5, 0.5, 7.0]], [[0.4, 0.2, 0.4], [0.5, 0.5, 7.0]]])
    second = torch.tensor([[[0.9, 0.0, 0.1], [0.0, 1.0, 7.0]], [[0.7, 0.0, 0.3], [0.0, 1.0, 7.0]]])
    for heads, best in ((first, ids), (second, ids.flip(1))):
        # (H, N, S) each -> (L, N, H, 1, S)
        weights = torch.stack((ignored, heads)).transpose(1, 2)[:, :, :, None]
        done = search_state.advance(logp, best, weights).done
    assert done.all()
    ((one,), (other,)) = search_state.results([0, 1])
    # Means: 0.6 0.2 0.2, then 0.8 0.0 0.2. Sums: 1.4, which counts as 1, 0.2 and 0.4.
    assert one.score == pytest.approx(-2.0 + 0.5 * math.log(0.2 * 0.4))
    # The padding after its two pieces does not count: 0.5 and 1.5.
    assert other.score == pytest.approx(-2.0 + 0.5 * math.log(0.5))


def test_a_piece_that_is_never_looked_at_costs_much_and_not_everything() -> None:
    search = Beam(beam_size=1, length_penalty=0.0, coverage=1.0)
    search_state = search.start(torch.tensor([1]))
    weights = torch.tensor([1.0, 0.0]).view(1, 1, 1, 1, 2)
    search_state.advance(torch.tensor([[-1.0, -2.0]]), torch.tensor([[EOS, A]]), weights)
    ((best,),) = search_state.results([0])
    assert -20 < best.score < -10


@pytest.mark.parametrize(
    "beams, patience, enough",
    [
        (1, 1.0, 1),
        (5, 0.0, 1),
        (5, 0.3, 2),
        (5, 1.0, 5),
        (5, 2.0, 10),
        (3, 1.5, 5),
        (3, 1.4, 5),
        (3, 2.2, 7),
    ],
)
def test_a_sentence_is_done_when_patience_times_the_beams_have_finished(
    beams: int, patience: float, enough: int
) -> None:
    """The second choice of beam 0 always ends, so one more is finished at each step."""
    search = Beam(beam_size=beams, patience=patience, length_extra=50, stopping="count")
    search_state = search.start(torch.tensor([0]))
    logp = torch.full((beams, 2 * beams), -torch.inf)
    logp[:, 0], ids = -0.1, torch.full((beams, 2 * beams), A)
    logp[:, 1 if beams > 1 else 0] = -0.2 if beams > 1 else -0.1
    ids[:, 1 if beams > 1 else 0] = EOS
    steps, done = 0, False
    while not done:
        logp[1:] = -torch.inf  # one beam
        done = bool(search_state.advance(logp, ids).done)
        steps += 1
    assert steps == enough
    assert len(search_state.results([0])[0]) == enough


def test_at_the_limit_only_open_hypotheses_are_truncated() -> None:
    search_state = Beam(beam_size=2, length_ratio=0.0, length_extra=2).start(torch.tensor([9]))
    advance(
        search_state, {A: -1.0, B: -2.0, EOS: -9.0, C: -9.0}, {A: 0.0, B: 0.0, C: 0.0, EOS: 0.0}
    )
    *_, done = advance(search_state, {EOS: -1, B: -2, A: -3, C: -9}, {C: -5, A: -9, B: -9, EOS: -9})
    assert done
    (hypotheses,) = search_state.results([0])
    assert [(h.ids, h.truncated) for h in hypotheses] == [
        ([A], False),
        ([A, B], True),
        ([A, A], True),
    ]
    assert [h.token_logp for h in hypotheses] == [[-1.0, -1.0], [-1.0, -2.0], [-1.0, -3.0]]


def test_an_ended_hypothesis_does_not_continue_when_candidates_run_out() -> None:
    """After the possible candidates any ids may follow, with probability 0."""
    search_state = Beam(beam_size=2, patience=2.0, length_ratio=0.0, length_extra=2).start(
        torch.tensor([9])
    )
    ids = torch.tensor([[A, EOS, EOS, EOS], [EOS, EOS, EOS, EOS]])
    logp = torch.tensor([[-1.0, -2.0, -torch.inf, -torch.inf], [-torch.inf] * 4])
    for _ in range(2):
        search_state.advance(logp, ids)
    (hypotheses,) = search_state.results([0])
    assert [h.token_logp for h in hypotheses] == [[-1.0, -2.0], [-2.0], [-1.0, -1.0]]
    assert [(h.ids, h.truncated) for h in hypotheses] == [([A], False), ([], False), ([A, A], True)]
