"""What holds for every search: limits, symbols, order, and that sentences do not see each other."""

import math
from typing import Any

import pytest
import torch
from helpers.builders import SMALL, small_model, source_batch
from helpers.table_model import TableModel, assert_same

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.decoding import SEARCHES, Beam, Greedy, Sample, Search, build_search, decode
from seq2seq.models import Seq2Seq
from seq2seq.models.candidates import CandidateRequest

LENGTHS = (9, 1, 5, 3, 5)

every_model = pytest.mark.parametrize("model", ["table", *SMALL])
every_search = pytest.mark.parametrize("search", [*SEARCHES, "beam of 8"])


def make_model(name: str) -> Seq2Seq:
    return TableModel(9, seed=3) if name == "table" else small_model(name)


def make_search(name: str, **limits: float) -> Search:
    options = {"name": "beam", "beam_size": 8} if name == "beam of 8" else {"name": name}
    return build_search({**options, **limits})


@every_model
@every_search
def test_a_translation_is_limited_by_the_length_of_its_source(model: str, search: str) -> None:
    built, source = make_model(model), source_batch(*LENGTHS)
    for ratio, extra in ((0.0, 1), (0.5, 1), (1.5, 10)):
        results = decode(built, source, make_search(search, length_ratio=ratio, length_extra=extra))
        for hypotheses, length in zip(results, LENGTHS, strict=True):
            longest = int(ratio * (length - 1) + extra)
            assert hypotheses, "every sentence has a result"
            for h in hypotheses:
                assert len(h.ids) == longest if h.truncated else len(h.ids) < longest


def test_the_limit_is_computed_in_double_precision() -> None:
    for ratio in (0.5, 0.53, 0.65, 1.1, 1.5):
        search = Greedy(length_ratio=ratio, length_extra=10)
        limits = [search.limit(length) for length in range(400)]
        assert search.start(torch.arange(400)).limits.tolist() == limits
        assert limits == [int(ratio * length + 10) for length in range(400)]


@pytest.mark.parametrize("model", ["table", "transformer", "rnn"])
def test_no_sentences_give_no_translations(model: str) -> None:
    assert decode(make_model(model), source_batch(5)[:0], Beam()) == []


@every_search
def test_what_never_ends_is_cut_and_what_ends_at_once_is_empty(search: str) -> None:
    source = source_batch(5, 2)
    for hypotheses in decode(TableModel(9, eos=-torch.inf), source, make_search(search)):
        assert all(h.truncated for h in hypotheses)
    for hypotheses in decode(TableModel(9, eos=100.0), source, make_search(search)):
        assert hypotheses[0].ids == [] and not hypotheses[0].truncated


@every_search
def test_symbols_that_no_text_contains_are_never_emitted(search: str) -> None:
    model = TableModel(9)
    model.table[:, [PAD, BOS, UNK]] += 50.0
    for hypotheses in decode(model, source_batch(*LENGTHS), make_search(search)):
        for h in hypotheses:
            assert not {PAD, BOS, UNK, EOS} & set(h.ids)
            assert -float("inf") < h.log_probability


@every_model
@every_search
def test_hypotheses_are_sorted_distinct_and_scored_by_the_model(model: str, search: str) -> None:
    built, source = make_model(model), source_batch(*LENGTHS)
    for row, hypotheses in enumerate(decode(built, source, make_search(search))):
        ranks = [(h.truncated, -h.score) for h in hypotheses]
        assert ranks == sorted(ranks)
        assert len({(tuple(h.ids), h.truncated) for h in hypotheses}) == len(hypotheses)
        best = hypotheses[0]
        tokens = best.ids + ([] if best.truncated else [EOS])
        state = built.start(built.encode(source[row : row + 1]))
        total = 0.0
        for before, token in zip([BOS, *tokens], tokens, strict=False):
            hidden = built.step(torch.tensor([[before]]), state).hidden[0, -1]
            total += built.logits(hidden).log_softmax(-1)[token].item()
        assert best.log_probability == pytest.approx(total)
        assert best.score == pytest.approx(total / len(tokens))


@every_search
def test_a_model_that_has_diverged_still_gives_every_sentence_a_result(search: str) -> None:
    model = TableModel(9)
    model.table[:] = torch.nan
    assert all(decode(model, source_batch(5, 2), make_search(search)))


def test_a_search_can_be_used_again() -> None:
    model, source, search = TableModel(9), source_batch(5, 3), Beam()
    first = decode(model, source, search)
    again = decode(model, source, search)
    for one, other in zip(first, again, strict=True):
        assert_same(one, other)


def test_candidates_are_the_best_by_the_models_probabilities() -> None:
    model, hidden = TableModel(9), torch.randn(3, 9)
    logp, ids = model.candidates(hidden, CandidateRequest(4))
    expected = hidden.log_softmax(-1)
    expected[:, [PAD, BOS, UNK]] = -torch.inf
    assert torch.equal(logp, expected.sort(dim=1, descending=True).values[:, :4])
    assert torch.equal(expected.gather(1, ids), logp)
    assert model.candidates(hidden, CandidateRequest(99)).ids.shape == (3, 9)
    assert model.candidates(hidden.bfloat16(), CandidateRequest(4)).logp.dtype is torch.float32


def test_decoding_leaves_no_trace_in_the_model() -> None:
    model, source = small_model("transformer"), source_batch(5, 3)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    decode(model, source, Beam())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_searches_are_built_from_plain_values() -> None:
    search = build_search({"name": "beam", "beam_size": 3, "length_penalty": 0.5})
    assert isinstance(search, Beam) and search.beams == 3 and search.length_penalty == 0.5
    assert isinstance(build_search({"name": "greedy"}), Greedy)
    assert build_search({"name": "sample", "samples": 3}).beams == 3


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": "beem"}, r"unknown search 'beem'; did you mean 'beam'\?"),
        ({"name": "beam", "beam_size": 0}, r"decode\.beam_size=0 should be at least 1"),
        ({"name": "beam", "beam_size": 2.5}, r"decode\.beam_size=2\.5 should be a whole number"),
        ({"name": "greedy", "length_extra": 0}, r"decode\.length_extra=0 should be at least 1"),
        (
            {"name": "greedy", "length_ratio": -1.0},
            r"decode\.length_ratio=-1\.0 should be at least",
        ),
        ({"name": "greedy", "beam_size": 2}, r"unknown option decode\.beam_size"),
        ({"name": "beam", "patience": -1}, r"decode\.patience=-1 should be at least 0"),
        ({"name": "beam", "patience": math.inf}, r"decode\.patience=inf is too large"),
        ({"name": "beam", "coverage": -0.1}, r"decode\.coverage=-0\.1 should be at least 0"),
        ({"name": "beam", "penalty_form": "exp"}, r"decode\.penalty_form='exp' .*'power', 'gnmt'"),
        ({"name": "sample", "samples": 0}, r"decode\.samples=0 should be at least 1"),
        ({"name": "sample", "top_k": 0}, r"decode\.top_k=0 should be at least 1"),
        ({"name": "sample", "seed": 2**63}, r"decode\.seed=9223372036854775808 is too large"),
        (
            {"name": "sample", "temperature": 1e-300},
            r"temperature=1e-300 should be at least 0\.001",
        ),
        ({"name": "beam", "length_penalty": 500.0}, r"length_penalty=500\.0 .* at most 10"),
        ({"name": "beam", "patience": 1000.0}, r"patience=1000\.0 should be .* at most 100"),
        ({"name": "beam", "coverage": 1e308}, r"coverage=1e\+308 is too large"),
        ({"name": "beam", "beam_size": 10**9}, r"beam_size=1000000000 should .* at most 1,000"),
        ({"name": "greedy", "length_ratio": 1e9}, r"length_ratio=1000000000\.0 .* at most 1,000"),
        ({"name": "greedy", "length_extra": 10**9}, r"length_extra=10+ .* at most 1,000,000"),
        (
            {"name": "sample", "temperature": math.nan},
            r"decode\.temperature=nan should be at least 0\.001",
        ),
        ({"name": "sample", "top_p": 0.0}, r"top_p=0\.0 should be at least 1e-06 and at most 1"),
        ({"name": "sample", "top_p": 1.1}, r"top_p=1\.1 should be at least 1e-06 and at most 1"),
        ({"name": "beam", "no_repeat_ngram": -1}, r"no_repeat_ngram=-1 should be at least 0"),
        ({"name": "sample", "epsilon": 1.5}, r"decode\.epsilon=1\.5 should be .* at most 1"),
        ({"name": "sample", "min_p": -0.1}, r"decode\.min_p=-0\.1 should be at least 0"),
        ({"name": "sample", "min_p": math.nan}, r"decode\.min_p=nan should be at least 0"),
        (
            {"name": "beam", "min_length_ratio": 2.0},
            r"min_length_ratio=2\.0 should be at most length_ratio=1\.5",
        ),
        (
            {"name": "greedy", "min_length_extra": 11},
            r"min_length_extra=11 should be at most length_extra=10",
        ),
        (
            {"name": "greedy", "min_length_extra": 5, "max_length": 4},
            r"min_length_extra=5 should be at most max_length=4",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_search(options)


def test_a_search_made_in_python_is_checked_like_one_of_a_configuration() -> None:
    with pytest.raises(ConfigError, match=r"beam_size=0 should be at least 1"):
        Beam(beam_size=0)
    with pytest.raises(ConfigError, match=r"top_p=2 should be at least 1e-06"):
        Sample(top_p=2)
