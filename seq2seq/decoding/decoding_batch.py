"""The decoding loop of a batch: the only place where a model and a search meet."""

from collections.abc import Container, Sequence
from time import perf_counter_ns

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.attention.page_pool import PagePool
from seq2seq.base.symbols import PAD
from seq2seq.decoding.constraints.guide import Guide
from seq2seq.decoding.native.search import NativeSearch, native_search
from seq2seq.decoding.search import Hypothesis, Search, SearchState, SentenceOptions
from seq2seq.decoding.stats import Stats
from seq2seq.models import Encoded, Seq2Seq
from seq2seq.models.state import DecodeState

CACHED = 2048  # padded source pieces whose activations fit in the caches of a CPU

Results = list[tuple[int, list[Hypothesis]]]  # request ids and their hypotheses, best first


@torch.no_grad()
def decode(
    model: Seq2Seq,
    source: Tensor,
    search: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
    draw_ids: Sequence[int] | None = None,
    guides: Sequence[Guide | None] | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch. Sentences leave it when they are done.

    Args:
        model: model in evaluation mode, unless dropout is wanted.
        source: ids (B, S), each row ending in eos and padded at the right.
        search: rule that chooses the hypotheses.
        prefixes: tokens that each translation must begin with.
        draw_ids: numbers that random draws depend on; None = 0 to B - 1.
        guides: guide of each sentence; None = no guide.

    Returns: the hypotheses of each sentence, in order, best first.
    """
    if not len(source):
        return []
    B, batch = len(source), DecodingBatch(model, search)
    options = prefixes or [()] * B, draw_ids or range(B), guides or [None] * B
    sentences = [SentenceOptions(search, *each) for each in zip(*options, strict=True)]
    batch.join(source, range(B), sentences)
    hypotheses: dict[int, list[Hypothesis]] = {}
    while len(batch):
        hypotheses.update(batch.step())
    return [hypotheses[row] for row in range(B)]


class DecodingBatch:
    """A batch of B sentences being decoded, with K hypotheses each, so B * K rows.

    A sentence is answered as soon as its search is done. Without pages, its rows are dropped a
    little later, once one sentence in eight is done.

    Args:
        model: model in evaluation mode.
        search: rule that chooses the hypotheses.
        pages: pool of pages that holds the cache; None = a dense cache, in which no sentence can
            join a batch that has started.
        stats: counters to which this batch adds its work.

    Attributes:
        request_ids: ids of the sentences, in the order of the rows.
    """

    def __init__(
        self,
        model: Seq2Seq,
        search: Search,
        pages: PagePool | None = None,
        stats: Stats | None = None,
    ):
        self.model, self.search, self.pages = model, search, pages
        self.stats = stats or Stats()
        self.request_ids: list[int] = []
        self._state: DecodeState
        self._search_state: SearchState
        self._native_search: NativeSearch | None  # None if the search is not native
        self._tokens: Tensor  # (N, 1) the last token of every row
        self._answered: set[int] = set()  # ids of answered sentences that are not dropped yet

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def rows(self) -> int:
        """Hypotheses in the batch, N."""
        return len(self) * self.search.beams

    def join(
        self, source: Tensor, request_ids: Sequence[int], sentences: Sequence[SentenceOptions]
    ) -> None:
        """Start sentences.

        Args:
            source: ids (B, S), each row ending in eos and padded at the right.
            request_ids: B ids, under which `step` returns the results.
            sentences: options of each of the B sentences.
        """
        start = perf_counter_ns()
        state = self.model.start(encode(self.model, source), self.search.beams, self.pages)
        self.stats.lap("encode", start)
        lengths = (source != PAD).sum(1) - 1
        search_state = self.search.start(lengths, sentences, self.model.max_length)
        tokens = search_state.first_tokens()[:, None]
        if len(self):
            self._state.merge(state)
            self._search_state.merge(search_state)
            self._tokens = torch.cat((self._tokens, tokens))
        else:
            self._state, self._search_state, self._tokens = state, search_state, tokens
        self.request_ids = [*self.request_ids, *request_ids]
        self._native_search = native_search(self.model, self._search_state, self._state)

    def reserve(self) -> bool:
        """Make room for one more token in every row. Returns: False if there is no room."""
        return self._state.reserve(1)

    def step(self) -> Results:
        """Decode one more token of every hypothesis; in a native search several, as long as no
        hypothesis ends. Returns: the results of the sentences that are now done.
        """
        stats, rows, start = self.stats, self.rows, perf_counter_ns()
        steps = 1
        if self._native_search is not None:
            steps, choice = self._native_search.step(self._tokens)
            start = stats.lap("step", start)
        else:
            step = self.model.step(self._tokens, self._state, self.search.reads_weights)
            start = stats.lap("step", start)
            candidates = self.model.candidates(step.hidden[:, -1], self._search_state.request())
            choice = self._search_state.advance(*candidates, step.weights)
            start = stats.lap("choose", start)
        stats.steps += steps
        stats.rows += steps * rows
        stats.live += steps * (rows - self.search.beams * len(self._answered))
        if self.pages is not None:
            stats.held += self.pages.used * self.pages.page_size
            stats.written += self._state.written
            stats.high_water = self.pages.high_water
        parents, tokens, done = choice
        self._tokens = tokens.view(-1, 1)
        if parents is not None:
            self._state.fork(parents)
            stats.lap("fork", start)
        return self._answer(done.tolist())

    def _answer(self, done: list[bool]) -> Results:
        if True not in done:
            return []
        places = [
            place
            for place, i in enumerate(self.request_ids)
            if done[place] and i not in self._answered
        ]
        if not places:
            return []
        ids = [self.request_ids[place] for place in places]
        results = list(zip(ids, self._search_state.results(places), strict=True))
        self._answered.update(ids)
        # Without pages, dropping one sentence copies the caches of all others.
        share = 8 if self.pages is None else len(self)
        if share * len(self._answered) >= len(self):
            self.keep(set(self.request_ids) - self._answered)
        return results

    def best_so_far(self, request_id: int) -> list[int]:
        """The tokens of a sentence's best open hypothesis."""
        return self._search_state.best_so_far(self.request_ids.index(request_id))

    def keep(self, ids: Container[int]) -> None:
        """Keep only the sentences with these ids."""
        kept = [place for place, i in enumerate(self.request_ids) if i in ids]
        if not kept and self.pages is None:  # the caches are no longer needed
            self.request_ids.clear()
            self._answered.clear()
            return
        index = torch.tensor(kept, dtype=torch.long, device=self._tokens.device)
        start = perf_counter_ns()
        self._state.keep(index)
        self._search_state.keep(index)
        self._native_search = native_search(self.model, self._search_state, self._state)
        self.stats.lap("drop", start)
        self._tokens = self._tokens.view(-1, self.search.beams)[index].view(-1, 1)
        self.request_ids = [self.request_ids[place] for place in kept]
        self._answered.intersection_update(self.request_ids)


def encode(model: Seq2Seq, source: Tensor) -> Encoded:
    """Encode sources; on a CPU in parts of similar lengths that fit into its caches, which is twice
    as fast as all at once.
    """
    S = source.shape[1]
    size = max(1, CACHED // S) if source.device.type == "cpu" else len(source)
    if size >= len(source):
        return model.encode(source)
    widths = [int((rows != PAD).sum(1).max()) for rows in source.split(size)]
    batches = zip(source.split(size), widths, strict=True)
    parts = [model.encode(rows[:, :width]) for rows, width in batches]
    groups = [part.groups for part in parts if part.groups is not None]
    return Encoded(
        stack_padded([part.states for part in parts], S),
        stack_padded([part.real for part in parts], S),
        stack_padded(groups, S) if groups else None,
    )


def stack_padded(parts: list[Tensor], S: int) -> Tensor:
    """Tensors (B', S', ...) concatenated and padded with zeros, (B, S, ...)."""
    return torch.cat([pad(x, (0, 0) * (x.dim() - 2) + (0, S - x.shape[1])) for x in parts])
