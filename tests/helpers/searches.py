"""Searches on a table of probabilities."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from helpers.naive import Case, candidates, defaults
from helpers.toys import TableModel
from seq2seq.base.symbols import EOS
from seq2seq.decoding import Hypothesis, Search, SearchState
from seq2seq.decoding.search import SentenceOptions
from seq2seq.models.candidates import CandidateRequest


def table_cases(seed: int, count: int, vocabulary: int = 9, eos: float = 0.0) -> list[Case]:
    """Sentences of a table, some with a prefix; each looks at its source as it likes."""
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
