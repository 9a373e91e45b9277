"""Beam search against exhaustive search, against a naive one, and by pencil and paper."""

import itertools

import pytest
import torch
from helpers import small_model, source_batch
from toys import TableModel, assert_same, every_hypothesis, naive_beam, next_logp

from seq2seq.decoding import Beam, Frontier, Greedy, decode
from seq2seq.symbols import EOS

LIMITS = [(0.0, 1), (0.0, 3), (1.0, 1), (1.5, 10)]  # length_ratio, length_extra


def limit(source_length: int, ratio: float, extra: int) -> int:
    """The most tokens of a translation; the source's own eos does not count."""
    return int(ratio * (source_length - 1) + extra)


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
@pytest.mark.parametrize("longest", [1, 2, 4])
def test_a_beam_as_wide_as_the_tree_is_exhaustive_search(longest: int, seed: int) -> None:
    vocabulary = 6  # two words and the symbols
    model, source = TableModel(vocabulary, seed), source_batch(3, 1)
    search = Beam(
        beam_size=vocabulary**longest, length_penalty=0.0, length_ratio=0.0, length_extra=longest
    )
    for row, found in enumerate(decode(model, source, search)):
        logp = model.next_logp(int(source[row, 0]))
        assert_same(found, every_hypothesis(logp, vocabulary, longest))


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("beams", [1, 2, 5])
def test_beam_search_on_a_table_is_the_naive_one(beams: int, penalty: float) -> None:
    truncated = complete = 0
    for seed, (ratio, extra), eos in itertools.product(range(4), LIMITS, (-2.0, 0.0, 2.0)):
        model, lengths = TableModel(6 + 3 * seed, seed, eos=eos), (5, 3, 1, 9)
        source = source_batch(*lengths)
        search = Beam(
            beam_size=beams, length_penalty=penalty, length_ratio=ratio, length_extra=extra
        )
        for row, found in enumerate(decode(model, source, search)):
            expected = naive_beam(
                model.next_logp(int(source[row, 0])),
                beams=beams,
                length_penalty=penalty,
                limit=limit(lengths[row], ratio, extra),
            )
            assert_same(found, expected)
            truncated += sum(h.truncated for h in found)
            complete += sum(not h.truncated for h in found)
    assert truncated > 10 and complete > 10


@pytest.mark.parametrize(
    "variant",
    [
        "transformer",
        "transformer attn=gqa position=rope",
        "transformer attn=fixed",
        "rnn",
        "rnn attn=dot model.cell=lstm model.layers=2",
    ],
)
def test_beam_search_on_a_model_is_the_naive_one(variant: str) -> None:
    model, lengths = small_model(*variant.split()), (5, 2, 3)
    source = source_batch(*lengths)
    for beams, penalty, (ratio, extra) in [(2, 1.0, (1.0, 3)), (5, 0.0, (0.5, 2))]:
        search = Beam(
            beam_size=beams, length_penalty=penalty, length_ratio=ratio, length_extra=extra
        )
        for row, found in enumerate(decode(model, source, search)):
            expected = naive_beam(
                next_logp(model, source[row, : lengths[row]]),
                beams=beams,
                length_penalty=penalty,
                limit=limit(lengths[row], ratio, extra),
            )
            assert_same(found, expected)


A, B, C = 4, 5, 6


def advance(frontier: Frontier, *lanes: dict[int, float]) -> tuple[list[int], list[int], bool]:
    """One step of one sentence: the candidates of each lane -> parents, tokens, done."""
    ranked = [sorted(lane.items(), key=lambda item: -item[1]) for lane in lanes]
    logp = torch.tensor([[value for _, value in lane] for lane in ranked], dtype=torch.float64)
    ids = torch.tensor([[token for token, _ in lane] for lane in ranked])
    parents, tokens, done = frontier.advance(logp, ids)
    assert parents is not None
    return parents.tolist(), tokens.tolist(), bool(done)


def test_two_lanes_by_pencil_and_paper() -> None:
    search = Beam(beam_size=2, length_penalty=1.0)
    frontier = search.start(torch.tensor([10]))
    # Only lane 0 lives at first: A -1, B -2; the other lane's -0.1 must not be seen.
    first = {A: -1.0, B: -2.0, EOS: -3.0, C: -4.0}
    assert advance(frontier, first, {C: -0.1, B: -0.2, A: -0.3, EOS: -0.4}) == (
        [0, 0],
        [A, B],
        False,
    )
    # A: C -1.5, eos -4.0    B: eos -2.5, A -3.0, so ranks: A C -1.5, B eos -2.5, B A -3.0, A eos -4
    # The eos of rank 2 is finished, that of rank 4 is not; A C and B A go on.
    found = advance(
        frontier, {C: -0.5, EOS: -3.0, B: -9, A: -9}, {EOS: -0.5, A: -1.0, B: -9, C: -9}
    )
    assert found == ([0, 1], [C, A], False)
    # A C: eos -2.0, A -2.5    B A: C -3.5, A -4.0. Two are finished now: done.
    third = advance(frontier, {EOS: -0.5, A: -1, B: -9, C: -9}, {C: -0.5, A: -1, B: -9, EOS: -9})
    assert third[2]
    ((best, second, *_),) = frontier.results([0])
    assert (best.ids, best.log_probability) == ([A, C], -2.0)
    assert best.score == pytest.approx(-2.0 / 3)
    assert (second.ids, second.log_probability) == ([B], -2.5)
    assert second.score == pytest.approx(-2.5 / 2)


def test_of_equals_the_one_that_finished_first_wins() -> None:
    search = Beam(beam_size=2, length_penalty=0.0)
    frontier = search.start(torch.tensor([10]))
    unlikely = {A: -9.0, B: -9.0, C: -9.0, EOS: -9.0}
    advance(frontier, {A: -0.5, EOS: -1.0, B: -9.0, C: -9.0}, unlikely)
    *_, done = advance(frontier, {EOS: -0.5, A: -5.0, B: -9.0, C: -9.0}, unlikely)
    first, second = frontier.results([0])[0]
    assert done and first.score == second.score == -1.0
    assert (first.ids, second.ids) == ([], [A])
