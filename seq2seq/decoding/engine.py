"""Translates any number of sentences, as many at a time as is fast and fits in memory."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch

from seq2seq.attention.pages import PagePool
from seq2seq.constraints.guide import Guide
from seq2seq.data.padding import pad_rows
from seq2seq.decoding.answering import EngineBase
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.decoding_batch import DecodingBatch
from seq2seq.decoding.search import Hypothesis, Search, check_prefix
from seq2seq.decoding.stats import Stats
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq

Cache = Literal["auto", "dense", "paged"]

# Default pool size in tokens: for each hypothesis, but with room for one long sentence.
TOKENS_PER_ROW, MIN_TOKENS = 128, 2**14
MAX_JOINING = 2**14  # padded source pieces of the sentences that join in one step


class Request(NamedTuple):
    """A sentence to translate."""

    source: list[int]  # ids, eos last
    prefix: Sequence[int] = ()  # ids that the translation begins with
    draw_id: int | None = None  # random draws depend on it; None = the id from `Engine.submit`
    search: Search | None = None  # None = the engine's
    constraint: Any = None  # from which the engine makes a guide; None = no guide
    owner: Any = None  # whose turn it needs, for a queue in front of the engine


class SentenceEngine(EngineBase[Request, list[Hypothesis]]):
    """Answers each request with its hypotheses, best first: an engine, or workers that have one."""

    @property
    @abstractmethod
    def max_rows(self) -> int:
        """Maximum number of hypotheses decoded at once."""

    def submit(self, request: Request) -> int:
        """Put a sentence at the end of the queue.

        Returns: its id, by which `step` answers.
        Raises: ConfigError if its pages would not fit in the pool even if it were alone; ValueError
            for a prefix that no translation can begin with.
        """
        return self.submit_all([request])[0]

    @abstractmethod
    def check(self, request: Request) -> None:
        """Raises: as `submit`, if a request can never be answered."""

    def best_so_far(self, request_id: int) -> list[int]:
        """The ids of the best translation so far, which may still change; none if unknown."""
        return []

    def close(self) -> None:
        """End the processes that work for it, if there are any."""

    def wake(self) -> None:
        """Let an `advance` that waits for other processes return, from another thread."""


def check_required(search: Search) -> None:
    """Raises: ConfigError if a search cannot find what a translation must contain."""
    if not (isinstance(search, Beam) and search.beams > 1):
        raise ConfigError(
            "a translation that must contain something is found by a search of several beams: "
            "decode.beam_size=5"
        )


class Engine(SentenceEngine):
    """Translates sentences with one model, as many at a time as is fast.

    Sentences start in the order in which they arrive; those that are submitted together, longest
    first, so that sentences of similar length are decoded together. Searches of one kind share a
    batch (`Search.kind`); batches of several kinds take turns, step by step.

    With a dense cache, batches are filled and decoded to their end. With a paged cache sentences
    take the places of finished ones (continuous batching), whenever an eighth of the places is
    free. If the pages run out, the youngest sentence gives up its pages and starts again later; the
    oldest never does, so every sentence is answered. The hypotheses of a sentence do not depend on
    which others are decoded with it.

    Args:
        model: in evaluation mode.
        search: how hypotheses are chosen for requests that do not say it.
        guide: makes a guide from a request's constraint; None = constraints are guides.
        cache: `dense`, `paged`, or `auto`: paged on a GPU. A model that cannot merge
            (`Seq2Seq.can_merge`) is decoded as with `dense`.
        rows: maximum number of hypotheses decoded at once, but always those of one sentence.
        pages: of the paged cache; None = room for `rows` hypotheses of 128 tokens, and for at
            least 16,384 tokens.
        page_size: tokens per page; None = 8 on a CPU, 16 on a GPU.

    Attributes:
        stats: counts of the work done so far.
    """

    look_ahead = 2000

    def __init__(
        self,
        model: Seq2Seq,
        search: Search,
        guide: Callable[[Any], Guide] | None = None,
        *,
        cache: Cache = "auto",
        rows: int = 320,
        pages: int | None = None,
        page_size: int | None = None,
    ):
        super().__init__()
        self.model, self.search, self.guide, self.rows = model, search, guide, rows
        self.device = next(model.parameters()).device
        on_cpu = self.device.type == "cpu"
        self.pool: PagePool | None = None
        if model.can_merge and (cache == "paged" or (cache == "auto" and not on_cpu)):
            size = page_size or (8 if on_cpu else 16)
            default = max(rows * TOKENS_PER_ROW, MIN_TOKENS) // size
            self.pool = PagePool(pages or default, size, self.device)
        self.stats = Stats()
        self._requests: dict[int, Request] = {}  # by id, all that are not answered yet
        self._queue: deque[int] = deque()  # ids of those to start, and of some that are cancelled
        self._batches: dict[Search, DecodingBatch] = {}  # by the kind of their search
        self._started: dict[int, DecodingBatch] = {}  # by id, oldest first

    @property
    def max_rows(self) -> int:
        return self.rows

    @property
    def waiting(self) -> bool:
        return len(self._requests) > len(self._started)

    def _guide(self, constraint: Any) -> Guide | None:
        guide: Guide | None = constraint
        return guide if guide is None or self.guide is None else self.guide(constraint)

    def check(self, request: Request) -> None:
        longest = self.model.max_length
        check_prefix(request.prefix, longest)
        search = self._search(request)
        if request.constraint is not None and request.constraint.requires:
            check_required(search)
        if self.pool is not None:
            S = len(request.source)
            needed = self._pages(request, search.limit(S - 1, longest, len(request.prefix)))
            if needed > self.pool.pages:
                raise ConfigError(
                    f"a source of {S} pieces and {search.beams} hypotheses may need {needed} "
                    f"pages, and there are {self.pool.pages}: raise decode.pages, use a smaller "
                    "beam, or cut the text"
                )

    def submit_all(
        self, items: Sequence[Request], answers: dict[int, list[Hypothesis]] | None = None
    ) -> list[int]:
        """Put sentences at the end of the queue, longest first; arguments as in `Answering`.

        Raises: as `submit`, and then none of them is submitted.
        """
        for request in items:
            self.check(request)
        ids = [self.expect(answers) for _ in items]
        self._requests.update(zip(ids, items, strict=True))
        self._queue.extend(sorted(ids, key=lambda i: -len(self._requests[i].source)))
        return ids

    def cancel(self, *ids: int) -> None:
        super().cancel(*ids)
        for i in ids:
            self._requests.pop(i, None)
        for batch in {self._started.pop(i) for i in self._started.keys() & ids}:
            # Answered sentences go too: a dense batch of these alone would never end.
            batch.keep(self._started)

    def best_so_far(self, request_id: int) -> list[int]:
        batch = self._started.get(request_id)
        return [] if batch is None else batch.best_so_far(request_id)

    @property
    def active_rows(self) -> int:
        """Hypotheses that are decoded now; any thread may ask."""
        return sum(batch.rows for batch in list(self._batches.values()))

    @property
    def pages(self) -> int:
        """Pages in use now."""
        return self.pool.used if self.pool else 0

    def _search(self, request: Request) -> Search:
        return request.search or self.search

    def advance(self) -> None:
        """Admit waiting sentences, then decode one more token of every hypothesis. If an error is
        raised, such as one for lack of memory, all sentences are dropped.
        """
        try:
            self._advance()
        except BaseException:
            self.cancel(*self._requests)
            self._batches.clear()
            raise

    @torch.no_grad()
    def _advance(self) -> None:
        self._admit()
        self._reserve()
        for kind, batch in list(self._batches.items()):
            if not len(batch):
                del self._batches[kind]
                continue
            for request_id, hypotheses in batch.step():
                del self._requests[request_id], self._started[request_id]
                self.stats.answer(hypotheses)
                self.answer(request_id, hypotheses)

    def _pages(self, request: Request, tokens: int) -> int:
        """Pages that a sentence needs when each of its hypotheses has read `tokens` tokens."""
        assert self.pool is not None
        size, beams = self.pool.page_size, self._search(request).beams
        return self.model.pages_for(size, len(request.source), tokens, beams)

    def _admit(self) -> None:
        """Start waiting sentences where there is room."""
        if self._started and self.pool is None:
            return
        vacant = self.rows - self.active_rows
        if self._started and vacant * 8 < self.rows:
            return
        chosen: list[int] = []
        room = None if self.pool is None else self.pool.free - self.pool.pages // 50
        longest = 0
        while self._queue:
            request = self._requests.get(self._queue[0])
            if request is None:  # it was cancelled
                self._queue.popleft()
                continue
            first = not chosen and not self._started
            vacant -= self._search(request).beams
            longest = max(longest, len(request.source))
            if not first and vacant < 0:
                break
            if chosen and longest * (len(chosen) + 1) > MAX_JOINING:
                break
            if room is not None:
                room -= self._pages(request, 1)
                if room < 0 and not first:
                    break
            chosen.append(self._queue.popleft())
        by_kind: dict[Search, list[int]] = {}
        for request_id in chosen:
            kind = self._search(self._requests[request_id]).kind
            by_kind.setdefault(kind, []).append(request_id)
        for kind, ids in by_kind.items():
            self._begin(kind, ids)

    def _begin(self, kind: Search, ids: list[int]) -> None:
        """Start sentences whose searches are of one kind."""
        requests = [self._requests[i] for i in ids]
        if kind not in self._batches:
            self._batches[kind] = DecodingBatch(self.model, kind, self.pool, self.stats)
        batch = self._batches[kind]
        batch.join(
            pad_rows([request.source for request in requests]).to(self.device),
            ids,
            [request.prefix for request in requests],
            [i if r.draw_id is None else r.draw_id for i, r in zip(ids, requests, strict=True)],
            [self._search(request) for request in requests],
            [self._guide(request.constraint) for request in requests],
        )
        self._started.update(dict.fromkeys(ids, batch))
        self.stats.admitted += len(ids)

    def _reserve(self) -> None:
        """Make room for the next tokens, if need be by sending the youngest back to the queue."""
        for batch in list(self._batches.values()) if self.pool else ():
            while len(batch) and not batch.reserve():
                youngest, its_batch = self._started.popitem()
                its_batch.keep(self._started)
                self._queue.appendleft(youngest)
                self.stats.preempted += 1
