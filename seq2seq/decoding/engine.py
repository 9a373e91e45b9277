"""The engine: decodes any number of sentences, in batches that are fast and fit in memory."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from math import inf
from typing import Any

import torch

from seq2seq.attention.page_pool import PagePool
from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.data.batches.padding import pad_rows
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.constraints.guide import Guide
from seq2seq.decoding.decoding_batch import DecodingBatch
from seq2seq.decoding.device import SlotBatch, SlotStore, has_slot_search
from seq2seq.decoding.options import Cache, EngineOptions
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.search import NO_LIST, Search, SentenceOptions, check_prefix
from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.stats import Stats
from seq2seq.models import Seq2Seq
from seq2seq.models.candidates import certain

Batch = DecodingBatch | SlotBatch

# Default pool size in tokens: per hypothesis, and a minimum with room for one long sentence.
TOKENS_PER_ROW, MIN_TOKENS = 128, 2**14
DROPPED = "the engine dropped all requests after an error in the work of another caller"
# Padded source pieces of the sentences that join in one step: more need memory but save no time.
MAX_JOINING = 2**12


def check_required(search: Search) -> None:
    """Check that a search can find required phrases. Raises: ConfigError if it cannot."""
    if not (isinstance(search, Beam) and search.beams > 1):
        raise ConfigError("required text needs a search with several beams: beam_size=5")


class Engine(SentenceEngine):
    """Translates sentences with one model, many at a time.

    Sentences start in the order of their arrival; sentences submitted together start longest first,
    so that sentences of similar length are decoded together. Searches of one kind share a batch
    (`Search.kind`); batches of several kinds take turns, step by step.

    With static buffers, sentences have slots in buffers of constant sizes, and a step is one CUDA
    graph; see `seq2seq.decoding.device`. Requests that these do not cover (guides, coverage, models
    whose steps depend on the length) are decoded with pages beside them.

    With a dense cache, batches are filled and decoded to their end. With a paged cache, sentences
    take the places of finished ones (continuous batching) whenever an eighth of the places is free.
    If the pages run out, the youngest sentence gives up its pages and starts again later; the
    oldest never does, so every sentence is answered. The hypotheses of a sentence do not depend on
    the other sentences in its batch.

    Args:
        model: model in evaluation mode.
        search: search for requests that specify none.
        guide: function that makes a guide from a request's constraint; by default, the constraint
            is used as the guide.
        shortlist: target pieces that each source piece allows; None = all pieces.
        cache, rows, pages, page_size, memory: see `EngineOptions`. A single sentence may exceed
            `rows`, and the paged cache has room for at least 16,384 tokens by default. A model that
            cannot merge (`Seq2Seq.can_merge`) is decoded with a dense cache.

    Attributes:
        stats: counters of the work done so far.
    """

    window = 2000

    def __init__(
        self,
        model: Seq2Seq,
        search: Search,
        guide: Callable[[Any], Guide] = lambda constraint: constraint,
        shortlist: Shortlist | None = None,
        *,
        cache: Cache = EngineOptions.cache,
        rows: int = EngineOptions.rows,
        pages: int | None = EngineOptions.pages,
        page_size: int | None = EngineOptions.page_size,
        memory: float = EngineOptions.memory,
    ):
        self.model, self.search, self.guide, self.max_rows = model, search, guide, rows
        self.shortlist = shortlist
        self.device = next(model.parameters()).device
        on_cpu = self.device.type == "cpu"
        if cache == "auto":
            cache = "dense" if on_cpu else "static"
        self.pool: PagePool | None = None
        if model.can_merge and cache != "dense":
            size = page_size or (8 if on_cpu else 16)
            default = max(rows * TOKENS_PER_ROW, MIN_TOKENS) // size
            self.pool = PagePool(pages or default, size, self.device)
        self.slots: SlotStore | None = None
        if model.has_constant_step and cache == "static":
            self.slots = SlotStore(share_of_memory(memory, self.device))
        self._slot_batches: dict[Search, SlotBatch] = {}  # by kind
        self.stats = Stats()
        self._draw_ids = count()
        self._requests: dict[int, SentenceRequest] = {}  # all that have not ended, by id
        self._queue: deque[SentenceRequest] = deque()  # to start; some may have ended
        self._batches: dict[tuple[Search, bool], Batch] = {}  # by kind; True = with slots
        self._started: dict[int, Batch] = {}  # by id, oldest first

    @property
    def busy(self) -> bool:
        return bool(self._requests)

    @property
    def waiting(self) -> bool:
        return len(self._requests) > len(self._started)

    @property
    def active_rows(self) -> int:
        return sum(batch.rows for batch in list(self._batches.values()))

    @property
    def pages(self) -> int:
        """Pages in use now."""
        return self.pool.used if self.pool else 0

    def check(self, request: SentenceRequest) -> None:
        max_length = self.model.max_length
        if request.prefix:
            check_prefix(request.prefix, max_length)
        search = request.search or self.search
        if request.constraint is not None and request.constraint.requires:
            check_required(search)
        if self.pool is not None and self._slot_batch(request) is None:
            S = len(request.source)
            needed = self._pages(request, self._limit(request))
            if needed > self.pool.pages:
                raise ConfigError(
                    f"a source of {S} pieces and {search.beams} hypotheses may need {needed} "
                    f"pages, but there are only {self.pool.pages}: raise decode.pages, use a "
                    "smaller beam, or split the text"
                )

    def submit(self, requests: Sequence[SentenceRequest]) -> None:
        """Put sentences at the end of the queue, longest first."""
        for request, number in zip(requests, self._draw_ids, strict=False):
            request.draw_id = number if request.draw_id is None else request.draw_id
            self._requests[request.id] = request
        self._queue.extend(sorted(requests, key=lambda request: -len(request.source)))

    def cancel(self, requests: Iterable[SentenceRequest]) -> None:
        batches = set()
        for request in requests:
            if mine := self._requests.pop(request.id, None):  # `request` may be a copy
                mine.status = Status.CANCELLED
            if batch := self._started.pop(request.id, None):
                batches.add(batch)
        for batch in batches:
            # Answered sentences go too: a dense batch of these alone would never end.
            batch.keep(self._started)

    def best_so_far(self, request: SentenceRequest) -> list[int]:
        batch = self._started.get(request.id)
        return [] if batch is None else batch.best_so_far(request.id)

    def advance(self) -> list[SentenceRequest]:
        """Admit waiting sentences, then decode one more token of every hypothesis."""
        try:
            with torch.no_grad():
                self._admit()
                if self.pool:
                    self._reserve()
                return self._step()
        except BaseException as error:
            requests = [*self._requests.values()]
            self.cancel(requests)
            self._batches.clear()
            self._slot_batches.clear()
            if self.slots is not None:
                self.slots.clear()
            dropped = Seq2SeqError(DROPPED)
            dropped.__cause__ = error
            for request in requests:
                request.fail(dropped)
            raise

    def _step(self) -> list[SentenceRequest]:
        ended = []
        for kind, batch in list(self._batches.items()):
            if not len(batch):
                del self._batches[kind]
                continue
            for request_id, hypotheses in batch.step():
                del self._started[request_id]
                ended.append(self._requests.pop(request_id))
                self.stats.answer(hypotheses)
                ended[-1].finish(hypotheses)
        return ended

    def _limit(self, request: SentenceRequest) -> int:
        """Most tokens of the translation of a sentence."""
        search, pieces = request.search or self.search, len(request.source) - 1
        return search.limit(pieces, self.model.max_length, len(request.prefix))

    def _slot_batch(self, request: SentenceRequest) -> SlotBatch | None:
        """The batch in which a sentence can have a slot; None if it needs another cache."""
        kind = (request.search or self.search).kind
        if self.slots is None or request.constraint is not None or not has_slot_search(kind):
            return None
        if kind not in self._slot_batches:
            capacity = max(1, self.max_rows // kind.beams)
            self._slot_batches[kind] = SlotBatch(self.model, kind, capacity, self.slots, self.stats)
        batch = self._slot_batches[kind]
        return batch if batch.fits_whole(len(request.source), self._limit(request)) else None

    def _pages(self, request: SentenceRequest, tokens: int) -> int:
        """Pages that a sentence needs when each of its hypotheses has read `tokens` tokens."""
        assert self.pool is not None
        size, beams = self.pool.page_size, (request.search or self.search).beams
        return self.model.pages_for(size, len(request.source), tokens, beams)

    def _admit(self) -> None:
        """Start waiting sentences where there is room."""
        if self._started and self.pool is None:
            return
        vacant = self.max_rows - (self.active_rows if self._started else 0)
        if self._started and vacant * 8 < self.max_rows:
            return
        chosen: dict[tuple[Search, bool], list[SentenceRequest]] = {}
        joining = longest = 0
        room = None if self.pool is None else self.pool.free - self.pool.pages // 50
        while self._queue:
            request = self._queue[0]
            if request.ended:  # it was cancelled
                self._queue.popleft()
                continue
            first = not joining and not self._started
            search = request.search or self.search
            vacant -= search.beams
            longest = max(longest, len(request.source))
            if not first and vacant < 0:
                break
            if joining and longest * (joining + 1) > MAX_JOINING:
                break
            slots = self._slot_batch(request)
            group = chosen.get((search.kind, slots is not None), [])
            if slots is not None:
                together = [*group, request]
                sources = [len(each.source) for each in together]
                if not first and not slots.fits(sources, max(map(self._limit, together))):
                    break
            elif room is not None:
                room -= self._pages(request, 1)
                if room < 0 and not first:
                    break
            chosen[search.kind, slots is not None] = [*group, self._queue.popleft()]
            joining += 1
        for (kind, in_slots), requests in chosen.items():
            self._begin(kind, in_slots, requests)

    def _begin(self, kind: Search, in_slots: bool, requests: list[SentenceRequest]) -> None:
        """Start sentences whose searches are of one kind."""
        if (kind, in_slots) not in self._batches:
            self._batches[kind, in_slots] = (
                self._slot_batches[kind]
                if in_slots
                else DecodingBatch(self.model, kind, self.pool, self.stats)
            )
        batch, ids = self._batches[kind, in_slots], [request.id for request in requests]
        source = pad_rows([request.source for request in requests])
        if not in_slots:
            source = source.to(self.device)
        batch.join(source, ids, [self._options_of(request) for request in requests])
        for request in requests:
            request.status = Status.RUNNING
            self._started[request.id] = batch
        self.stats.admitted += len(ids)

    def _options_of(self, request: SentenceRequest) -> SentenceOptions:
        """The options of a sentence. A shortlist limits its tokens to its own list, its prefix and
        the pieces of its guide.
        """
        guide = None if request.constraint is None else self.guide(request.constraint)
        tokens = NO_LIST
        if self.shortlist is not None:
            asked = () if guide is None else guide.pieces()
            prefix = (max(i, certain(i)) for i in request.prefix)
            tokens = self.shortlist.tokens(request.source, [*prefix, *asked])
        search = request.search or self.search
        return SentenceOptions(search, request.prefix, request.draw_id or 0, guide, tokens)

    def _reserve(self) -> None:
        """Make room for the next tokens, requeuing the youngest sentences if necessary."""
        for batch in list(self._batches.values()):
            while len(batch) and not batch.reserve():
                youngest, its_batch = self._started.popitem()
                its_batch.keep(self._started)
                self._requests[youngest].status = Status.QUEUED
                self._queue.appendleft(self._requests[youngest])
                self.stats.preempted += 1


def share_of_memory(share: float, device: torch.device) -> float:
    """Bytes that a share of a GPU's free memory has; infinite on a CPU."""
    return share * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else inf
