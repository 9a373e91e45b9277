"""Limits on the length of a translation, and prefixes."""

import math
import re
from typing import Any

import pytest
import torch
from helpers.builders import small_model, source_batch
from helpers.table_model import TableModel, assert_same
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.decoding import SEARCHES, Beam, Greedy, Search, SearchState, build_search, decode
from seq2seq.decoding.search import SentenceOptions
from seq2seq.models.candidates import CandidateRequest, certain

LENGTHS = (9, 1, 5, 3, 5)
every_search = pytest.mark.parametrize("search", SEARCHES)


def make(search: str, **options: Any) -> Search:
    return build_search({"name": search, **options})


@every_search
@pytest.mark.parametrize("ratio, extra", [(0.0, 2), (0.0, 6), (0.7, 0), (1.0, 3)])
def test_no_translation_is_shorter_than_the_minimum_of_its_source(
    search: str, ratio: float, extra: int
) -> None:
    """However much the model wants to end; tokens are counted with eos, as for the maximum."""
    built = make(search, min_length_ratio=ratio, min_length_extra=extra)
    results = decode(TableModel(9, eos=8.0), source_batch(*LENGTHS), built)
    for hypotheses, length in zip(results, LENGTHS, strict=True):
        fewest = max(1, math.ceil(ratio * (length - 1) + extra))
        lengths = {len(h.ids) + 1 for h in hypotheses if not h.truncated}
        assert min(lengths) == fewest, "it ends as soon as it may"


@every_search
def test_a_minimum_above_the_maximum_is_lowered_to_it(search: str) -> None:
    """For example in a model with few positions."""
    built = make(search, min_length_ratio=1.0, min_length_extra=5)
    search_state = built.start(torch.tensor([8]), max_length=4)
    assert {*search_state.limits.tolist(), *search_state.min_lengths.tolist()} == {4}


@every_search
def test_prefixes_are_written_and_continued(search: str) -> None:
    source, prefixes = source_batch(*LENGTHS), [[4, 4, 4], [], [7], [UNK, 5], [8] * 12]
    results = decode(TableModel(9, eos=-1.0), source, make(search), prefixes)
    for hypotheses, prefix in zip(results, prefixes, strict=True):
        assert all(h.ids[: len(prefix)] == prefix for h in hypotheses)
        assert any(len(h.ids) > len(prefix) for h in hypotheses)


def test_the_score_of_a_prefix_is_that_of_its_tokens() -> None:
    model, source = small_model("transformer"), source_batch(5)
    for search in (Greedy(), Beam(beam_size=3)):
        for h in decode(model, source, search, [[6, 9, 4]])[0]:
            target = torch.tensor([[BOS, *h.ids]])
            with torch.no_grad():
                logp = model.logits(model(source, target).hidden).log_softmax(-1)[0]
            written = h.ids if h.truncated else [*h.ids, EOS]
            expected = [logp[i, token].item() for i, token in enumerate(written)]
            assert h.token_logp == pytest.approx(expected)


def test_forcing_what_a_search_would_write_changes_nothing() -> None:
    model, source = small_model("rnn"), source_batch(*LENGTHS)
    free = decode(model, source, Greedy())
    # A longer prefix would raise the limit.
    begun = [h[0].ids[: (n - 1) * 3 // 2] for h, n in zip(free, LENGTHS, strict=True)]
    assert max(map(len, begun)) > 2
    for forced, hypotheses in zip(decode(model, source, Greedy(), begun), free, strict=True):
        assert_same(forced, hypotheses)


def test_a_prefix_too_long_for_its_source_raises_the_limit() -> None:
    search = Greedy(length_ratio=1.5, length_extra=10)
    assert search.limit(4) == search.limit(4, prefix=6) == 16
    assert search.limit(4, prefix=20) == 30
    assert search.limit(4, model_limit=25, prefix=20) == 25
    assert search.limit(4, model_limit=9) == 9
    capped = Greedy(length_ratio=1.5, length_extra=10, max_length=12)
    assert [capped.limit(0), capped.limit(100), capped.limit(4, prefix=20)] == [10, 12, 12]
    assert capped.limit(100, model_limit=9) == 9


def start_greedy(*prefixes: list[int], max_length: int | None = None) -> SearchState:
    """Sentences of five pieces with these prefixes."""
    sentences = [SentenceOptions(Greedy(), prefix) for prefix in prefixes]
    return Greedy().start(torch.full((len(prefixes),), 5), sentences, max_length)


@pytest.mark.parametrize("symbol, name", [(PAD, "<pad>"), (BOS, "<s>"), (EOS, "</s>")])
def test_symbols_in_a_prefix_are_refused(symbol: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"should not contain {re.escape(name)}"):
        start_greedy([4], [4, symbol])


def test_a_prefix_that_a_model_cannot_write_and_end_is_refused() -> None:
    start_greedy([4] * 5, max_length=6)
    with pytest.raises(ValueError, match="prefix of 6 tokens should have at most 5"):
        start_greedy([4] * 6, max_length=6)


def step_all(search_state: SearchState, step: int) -> Tensor:
    """Advance all rows by one of the tokens 10 * step and 10 * step + 1. Returns: `done`."""
    rows = len(search_state.length) * search_state.search.beams
    ids = torch.tensor([[10 * step, 10 * step + 1]]).expand(rows, -1)
    return search_state.advance(torch.full((rows, 2), -1.0), ids).done


@every_search
def test_room_for_tokens_follows_the_longest_hypothesis(search: str) -> None:
    built = make(search, length_ratio=1.0, length_extra=1)
    search_state = built.start(torch.tensor([299, 99]))
    for step in range(1, 301):
        done = step_all(search_state, step)
        assert search_state.tokens.shape[-1] <= max(32, 2 * step)
        if step == 100:
            assert done.tolist() == [False, True]
            search_state.keep(torch.tensor([0]))
            search_state.merge(built.start(torch.tensor([399])))
    (hypotheses,) = search_state.results([0])
    assert done.tolist() == [True, False] and hypotheses[0].truncated
    assert [token // 10 for token in hypotheses[0].ids] == list(range(1, 301))
    assert search_state.tokens.shape[-1] == 512
    search_state.keep(torch.tensor([1]))  # of 200 tokens
    assert search_state.tokens.shape[-1] == 256
    search_state.keep(torch.tensor([], dtype=torch.int64))
    assert search_state.tokens.size == 0


@every_search
def test_an_older_state_can_merge_into_a_younger_one(search: str) -> None:
    built = make(search, length_ratio=1.0, length_extra=1)
    old, young = built.start(torch.tensor([39])), built.start(torch.tensor([4]))
    for step in range(1, 33):
        step_all(old, step)
    young.merge(old)
    for step in range(33, 41):
        done = step_all(young, step)
    assert done.all()
    (hypotheses,) = young.results([1])
    assert [token // 10 for token in hypotheses[0].ids] == list(range(1, 41))


def test_states_of_another_kind_do_not_merge() -> None:
    lengths = torch.tensor([5])
    search_state = Beam(beam_size=2).start(lengths)
    search_state.merge(Beam(beam_size=2, patience=2.0, length_extra=3).start(lengths))
    assert search_state.max_finished.tolist() == [2, 4]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="only states of one kind of search can merge"):
        search_state.merge(Beam(beam_size=3).start(lengths))


def test_a_row_that_may_not_end_has_no_end_among_its_candidates() -> None:
    model, hidden = TableModel(9), torch.randn(3, 9)
    hidden[:, EOS] = 9.0
    no_eos = torch.tensor([True, False, True])
    logp, ids = model.candidates(hidden, CandidateRequest(3, no_eos=no_eos))
    free, free_ids = model.candidates(hidden, CandidateRequest(4))
    assert (free_ids[:, 0] == EOS).all()
    assert torch.equal(ids[1], free_ids[1, :3])
    for row in (0, 2):
        assert torch.equal(ids[row], free_ids[row, 1:])
        assert torch.equal(logp[row], free[row, 1:])


def test_a_forced_row_has_its_token_first_and_nothing_after_it() -> None:
    model, hidden = TableModel(9), torch.randn(3, 9)
    logp, ids = model.candidates(hidden, CandidateRequest(4, forced=torch.tensor([UNK, -1, 7])))
    expected = hidden.log_softmax(-1)
    for row, token in ((0, UNK), (2, 7)):
        assert ids[row, 0] == token
        assert logp[row, 0] == expected[row, token]
        assert (logp[row, 1:] == -torch.inf).all()
    assert torch.equal(logp[1], model.candidates(hidden, CandidateRequest(4)).logp[1])


def test_a_given_token_is_forced_with_probability_one() -> None:
    model, hidden = TableModel(9), torch.randn(3, 9)
    entries = torch.tensor([certain(5), -1, certain(PAD)])
    logp, ids = model.candidates(hidden, CandidateRequest(4, forced=entries))
    assert ids[[0, 2], 0].tolist() == [5, PAD] and logp[[0, 2], 0].tolist() == [0, 0]
    assert (logp[[0, 2], 1:] == -torch.inf).all()
    assert torch.equal(logp[1], model.candidates(hidden, CandidateRequest(4)).logp[1])
