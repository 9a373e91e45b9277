"""The decoding loop: the only place where a model and a search meet."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.windows import by_length, padded
from seq2seq.decoding.head import top_candidates
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.search import Search
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, PAD

BATCH_PIECES = 4096  # padded source pieces times beams translated at once


class Request(NamedTuple):
    """A sentence to translate."""

    source: list[int]  # ids, eos last
    prefix: list[int] = []  # what the translation begins with
    number: int = 0  # which sentence of the run it is: what is drawn at random depends on it


@dataclass
class Stats:
    """What an engine has done."""

    sentences: int = 0

    def __add__(self, other: "Stats") -> "Stats":
        return Stats(self.sentences + other.sentences)

    def __str__(self) -> str:
        return f"sentences {self.sentences}"


class Engine:
    """Translates any number of sentences, in batches of like lengths.

    Args:
        model: in evaluation mode.
        search: how hypotheses are chosen.
        cache: `auto`, `dense` or `paged`.
        look_ahead: requests that are read before the first is answered.
    """

    def __init__(
        self, model: Seq2Seq, search: Search, *, cache: str = "auto", look_ahead: int = 2000
    ):
        self.model, self.search, self.cache, self.look_ahead = model, search, cache, look_ahead
        self.stats = Stats()

    def translate(self, requests: Iterable[Request]) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, best first, in the order of the requests."""
        requests = iter(requests)
        device = next(self.model.parameters()).device
        while window := list(islice(requests, self.look_ahead)):
            found: list[list[Hypothesis]] = [[] for _ in window]
            lengths = [len(request.source) for request in window]
            for batch in by_length(lengths, BATCH_PIECES // self.search.beams):
                source = padded([window[i].source for i in batch]).to(device)
                for i, hypotheses in zip(
                    batch, decode(self.model, source, self.search), strict=True
                ):
                    found[i] = hypotheses
            self.stats += Stats(len(window))
            yield from found


@torch.no_grad()
def decode(model: Seq2Seq, source: Tensor, search: Search) -> list[list[Hypothesis]]:
    """Translate a batch. Sentences leave it as soon as they are done.

    Args:
        model: in evaluation mode, unless dropout is wanted.
        source: ids (B, S), each row ending in eos and padded at the right.
        search: `Greedy` or `Beam`; its state is begun anew.

    Returns: for each sentence, in order, its hypotheses, best first.
    """
    if not len(source):
        return []
    state = model.start(model.encode(source), search.beams)
    search.start((source != PAD).sum(1) - 1, model.max_length)
    tokens = source.new_full((len(source) * search.beams,), BOS)
    while tokens.numel():
        hidden = model.step(tokens[:, None], state).hidden[:, -1]
        candidates = top_candidates(model, hidden, search.candidates)
        parents, tokens, done = search.advance(candidates.logp, candidates.ids)
        if parents is not None:
            state.fork(parents)
        if done.any():
            live = (~done).nonzero().flatten()
            state.keep(live)
            search.keep(live)
            tokens = tokens.view(-1, search.beams)[live].flatten()
    return search.results()
