"""All searches with all their options, compared with naive searches."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers.builders import every_other, small_model, source_batch
from helpers.naive_search import Case, candidates, defaults, naive, some_options
from helpers.table_model import TableModel, assert_same, next_logp
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS
from seq2seq.decoding import Hypothesis, Search, SearchState, build_search, decode
from seq2seq.decoding.search import SentenceOptions
from seq2seq.models import PassOptions, Seq2Seq
from seq2seq.models.candidates import CandidateRequest


def table_cases(seed: int, count: int, vocabulary: int = 9, eos: float = 0.0) -> list[Case]:
    """Sentences of a table model, some with a prefix, and with random attention weights."""
    rng, model = random.Random(seed), TableModel(vocabulary, seed, eos=eos)
    cases = []
    for draw_id in range(count):
        first, pieces = rng.randrange(4, 13), rng.randrange(12)

        def looks(prefix: list[int], first: int = first, pieces: int = pieces) -> list[float]:
            weights = [
                random.Random(hash((first, s, *prefix))).random() ** 8 for s in range(pieces + 1)
            ]
            return [w / sum(weights) for w in weights]

        prefix = [rng.randrange(3, vocabulary) for _ in range(rng.choice([0, 0, 1, 3, 7]))]
        cases.append(Case(model.next_logp(first), pieces, prefix, looks, draw_id))
    return cases


class Run:
    """Live sentences, with the prefix of each row as a list: an engine without a model."""

    def __init__(self, search: Search, options: dict[str, Any]):
        self.search, self.options = search, defaults(options)
        self.cases: list[Case] = []
        self.rows: list[list[int]] = []
        self.search_state: SearchState | None = None
        self.results: dict[int, list[Hypothesis]] = {}

    def arrive(self, cases: Sequence[Case]) -> None:
        born = self.search.start(
            torch.tensor([case.pieces for case in cases]),
            [SentenceOptions(self.search, case.prefix, case.draw_id) for case in cases],
        )
        self.cases += cases
        self.rows += [[] for _ in cases for _ in range(self.search.beams)]
        if self.search_state is None:
            self.search_state = born
        else:
            self.search_state.merge(born)

    def step(self) -> None:
        assert self.search_state is not None
        K = self.search.beams
        advance = self.search_state.advance(
            *self._candidates(self.search_state.request()), self._weights()
        )
        parents = range(len(self.rows)) if advance.parents is None else advance.parents.tolist()
        self.rows = [
            [*self.rows[p], t] for p, t in zip(parents, advance.tokens.tolist(), strict=True)
        ]
        gone, live = (x.nonzero()[0].tolist() for x in (advance.done, ~advance.done))
        for i, hypotheses in zip(gone, self.search_state.results(gone), strict=True):
            self.results[self.cases[i].draw_id] = hypotheses
        self.cases = [self.cases[i] for i in live]
        self.rows = [row for i in live for row in self.rows[i * K : i * K + K]]
        self.search_state.keep(torch.tensor(live, dtype=torch.int64))

    def _candidates(self, request: CandidateRequest) -> tuple[Tensor, Tensor]:
        """The candidates that a model would give."""
        logp, ids = [], []
        for r, prefix in enumerate(self.rows):
            case = self.cases[r // self.search.beams]
            best = candidates(case, self.options, prefix)
            is_forced, may_end = len(prefix) < len(case.prefix), EOS in [token for _, token in best]
            assert (request.forced is not None and request.forced[r].item() >= 0) == is_forced
            if is_forced:
                assert request.forced is not None and request.forced[r] == best[0][1]
            else:
                assert may_end != bool(request.no_eos is not None and request.no_eos[r])
            best += [(-torch.inf, token) for token in range(9)]
            logp.append([value for value, _ in best[: min(9, request.count)]])
            ids.append([token for _, token in best[: min(9, request.count)]])
        return torch.tensor(logp, dtype=torch.float64), torch.tensor(ids)

    def _weights(self) -> Tensor | None:
        if not self.search.reads_weights:
            return None
        widest = max(case.pieces for case in self.cases) + 1
        weights = torch.zeros(1, len(self.rows), 1, 1, widest, dtype=torch.float64)
        for r, prefix in enumerate(self.rows):
            looks = self.cases[r // self.search.beams].looks(prefix)
            weights[0, r, 0, 0, : len(looks)] = torch.tensor(looks, dtype=torch.float64)
        return weights


every_seed = pytest.mark.parametrize("seed", every_other(range(2)))


@every_seed
@pytest.mark.parametrize("which", range(len(some_options(0))))
def test_sentences_decoded_together_are_translated_as_if_alone(which: int, seed: int) -> None:
    options = some_options(seed)[which]
    cases = table_cases(seed, 12, eos=(-2.0, 0.0, 1.0, 2.0)[seed])
    rng = random.Random(seed)
    waiting = rng.sample(cases, len(cases))
    run = Run(build_search(options), options)
    while waiting or run.cases:
        if waiting and (not run.cases or rng.random() < 0.5):
            count = rng.randint(1, 3)
            run.arrive(waiting[:count])
            waiting = waiting[count:]
        run.step()
    for case in cases:
        assert_same(run.results[case.draw_id], naive(case, options))


def model_case(model: Seq2Seq, source: Tensor, layer: int = -1, prefix: Sequence[int] = ()) -> Case:
    @torch.no_grad()
    def looks(ids: list[int]) -> list[float]:
        weights = model(
            source[None], torch.tensor([[BOS, *ids]]), PassOptions(need_weights=True)
        ).weights
        assert weights is not None
        return weights[layer, 0, :, -1].mean(0).tolist()

    return Case(next_logp(model, source), len(source) - 1, list(prefix), looks)


@pytest.mark.parametrize(
    "variant",
    [
        "transformer",
        "transformer attn=gqa position=rope",
        "transformer attn=mla",
        "transformer attn=fixed",
        "rnn",
        "rnn attn=dot model.cell=lstm model.layers=2",
        "rnn_luong",
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {"name": "greedy", "min_length_ratio": 1.0, "min_length_extra": 1},
        pytest.param(
            {"name": "beam", "beam_size": 2, "length_ratio": 1.0, "length_extra": 3},
            marks=pytest.mark.slow,
        ),
        {"name": "beam", "beam_size": 5, "length_penalty": 0.0, "min_length_extra": 3},
        {"name": "beam", "beam_size": 4, "coverage": 0.5, "coverage_layer": 0, "patience": 1.5},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
@pytest.mark.parametrize(
    "prefixes", [[[5, 6], [], [7, 7, 4, 3]], pytest.param(None, marks=pytest.mark.slow)]
)
def test_a_search_on_a_model_equals_the_naive_one(
    variant: str, options: dict[str, Any], prefixes: list[list[int]] | None
) -> None:
    options = {"length_ratio": 1.0, "length_extra": 4, **options}
    if options.get("coverage") and variant.endswith("fixed"):
        pytest.skip("it has no weights")
    model, lengths = small_model(*variant.split()), (5, 2, 3)
    source = source_batch(*lengths)
    results = decode(model, source, build_search(options), prefixes)
    for row, hypotheses in enumerate(results):
        prefix = prefixes[row] if prefixes else []
        case = model_case(
            model, source[row, : lengths[row]], options.get("coverage_layer", -1), prefix
        )
        assert_same(hypotheses, naive(case, options))


@pytest.mark.parametrize("variant", ["transformer", "rnn"])
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_single_precision_only_changes_near_ties(name: str, variant: str) -> None:
    model, source = small_model(variant), source_batch(*(9, 1, 5, 14, 3, 7, 12, 2))
    options = {"name": name, "length_ratio": 1.0, "length_extra": 4}
    exact = decode(model, source, build_search(options))
    single = decode(model.float(), source, build_search(options))
    for row, (actual, expected) in enumerate(zip(single, exact, strict=True)):
        assert actual[0].score == pytest.approx(expected[0].score, abs=1e-4)
        if actual[0].ids != expected[0].ids:  # then the other must have been as good
            target = torch.tensor([[BOS, *actual[0].ids]])
            with torch.no_grad():
                hidden = model.double()(source[row : row + 1], target).hidden
                logp = model.logits(hidden).log_softmax(-1)[0]
            written = actual[0].ids if actual[0].truncated else [*actual[0].ids, EOS]
            total = sum(logp[i, token].item() for i, token in enumerate(written))
            assert total / len(written) == pytest.approx(expected[0].score, abs=1e-4)
