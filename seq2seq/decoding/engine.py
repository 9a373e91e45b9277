"""Translates any number of sentences, as many at a time as is fast and fits in memory."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import torch

from seq2seq.attention.pages import PagePool
from seq2seq.data.windows import padded
from seq2seq.decoding.decoding_batch import DecodingBatch, Results
from seq2seq.decoding.search import Hypothesis, Search
from seq2seq.decoding.stats import Stats
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq

Cache = Literal["auto", "dense", "paged"]
Answers = dict[int, list[Hypothesis]]  # by request id

# Default pool size in tokens: for each hypothesis, but with room for one long sentence.
TOKENS_PER_ROW, MIN_TOKENS = 128, 2**14
MAX_JOINING = 2**14  # padded source pieces of the sentences that join in one step


class Request(NamedTuple):
    """A sentence to translate."""

    source: list[int]  # ids, eos last
    prefix: Sequence[int] = ()  # ids that the translation begins with
    draw_id: int | None = None  # random draws depend on it; None = the id from `Engine.submit`


class Engine:
    """Translates streams of sentences, and sentences that arrive one by one.

    `translate` is for a file. A server calls `submit` whenever a sentence arrives, `step` as long
    as the engine is `busy`, and `cancel` when nobody waits for an answer any longer. All of them
    may be mixed, and several streams be read in turn: each caller gets its own answers. Sentences
    are started in the order in which they arrive; a stream arranges those it reads ahead.

    With a dense cache a batch is filled and decoded to its end. With a paged cache sentences take
    the places of finished ones (continuous batching), whenever an eighth of the places is free. If
    the pages run out, the youngest sentence gives up its pages and starts again later; the oldest
    never does, so every sentence is answered. The hypotheses of a sentence do not depend on which
    others are decoded with it.

    Args:
        model: in evaluation mode.
        search: how hypotheses are chosen.
        cache: `dense`, `paged`, or `auto`: paged on a GPU.
        rows: maximum number of hypotheses decoded at once, but always those of one sentence.
        pages: of the paged cache; None = room for `rows` hypotheses of 128 tokens, and for at
            least 16,384 tokens.
        page_size: tokens per page; None = 8 on a CPU, 16 on a GPU.
        look_ahead: sentences that `translate` reads before it answers the first of them.

    Attributes:
        stats: counts of the work done so far.
    """

    def __init__(
        self,
        model: Seq2Seq,
        search: Search,
        *,
        cache: Cache = "auto",
        rows: int = 320,
        pages: int | None = None,
        page_size: int | None = None,
        look_ahead: int = 2000,
    ):
        self.model, self.search = model, search
        self.device = next(model.parameters()).device
        on_cpu = self.device.type == "cpu"
        self.pool: PagePool | None = None
        if cache == "paged" or (cache == "auto" and not on_cpu):
            size = page_size or (8 if on_cpu else 16)
            default = max(rows * TOKENS_PER_ROW, MIN_TOKENS) // size
            self.pool = PagePool(pages or default, size, self.device)
        self.max_sentences = max(1, rows // search.beams)
        self.look_ahead = look_ahead
        self.stats = Stats()
        self._batch = DecodingBatch(model, search, self.pool, self.stats)
        self._requests: dict[int, Request] = {}  # by id, all that are not answered yet
        self._waiting: deque[int] = deque()  # ids of those to start, and of some that are cancelled
        self._streams: dict[int, Answers] = {}  # by id: where the answers for `translate` go
        self._answered: Results = []  # for the next `step`
        self._count = 0

    @property
    def busy(self) -> bool:
        """Is there a sentence whose answer `step` or `translate` has not given yet?"""
        return bool(self._requests or self._answered)

    def submit(self, request: Request) -> int:
        """Put a sentence at the end of the queue.

        Returns: its id, by which `step` answers.
        Raises: ConfigError if its pages would not fit in the pool even if it were alone.
        """
        request_id = self._accept(request)
        self._waiting.append(request_id)
        return request_id

    def cancel(self, *request_ids: int) -> None:
        """Drop sentences: their rows and pages are free at once, and no answer follows."""
        cancelled = set(request_ids)
        for request_id in cancelled:
            self._requests.pop(request_id, None)
            self._streams.pop(request_id, None)
        self._answered = [answer for answer in self._answered if answer[0] not in cancelled]
        if not cancelled.isdisjoint(self._batch.request_ids):
            ids = enumerate(self._batch.request_ids)
            self._batch.keep(row for row, request_id in ids if request_id in self._requests)

    def _accept(self, request: Request) -> int:
        if self.pool is not None:
            S, longest = len(request.source), self.model.max_length
            needed = self._pages(request, self.search.limit(S - 1, longest, len(request.prefix)))
            if needed > self.pool.pages:
                raise ConfigError(
                    f"a source of {S} pieces and {self.search.beams} hypotheses may need {needed} "
                    f"pages, and there are {self.pool.pages}: raise decode.pages, use a smaller "
                    "beam, or cut the text"
                )
        request_id = self._count
        self._count += 1
        self._requests[request_id] = request
        return request_id

    def step(self) -> Results:
        """Admit waiting sentences, then decode one more token of every hypothesis.

        Returns: ids and hypotheses, best first, of the submitted sentences that were answered since
            the last call.
        """
        self._step()
        results, self._answered = self._answered, []
        return results

    @torch.no_grad()
    def _step(self) -> None:
        self._admit()
        if not len(self._batch):
            return
        self._reserve()
        for request_id, hypotheses in self._batch.step():
            del self._requests[request_id]
            self.stats.answer(hypotheses)
            stream = self._streams.pop(request_id, None)
            if stream is None:
                self._answered.append((request_id, hypotheses))
            else:
                stream[request_id] = hypotheses

    def translate(self, requests: Iterable[Request]) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each sentence, best first, in the order of the sentences.

        Reads `look_ahead` sentences at a time and decodes the longest first, so that sentences of
        similar length are decoded together. When the caller stops iterating, sentences that were
        read but not answered are dropped.
        """
        source = iter(requests)
        ids: deque[int] = deque()  # of this stream, in order, not given out yet
        answers: Answers = {}
        try:
            while True:
                if not any(self._streams.get(i) is answers for i in self._waiting):
                    self._read(source, ids, answers)
                if not ids:
                    return
                self._step()
                while ids and ids[0] in answers:
                    yield answers.pop(ids.popleft())
        finally:
            self.cancel(*ids)

    def _read(self, source: Iterator[Request], ids: deque[int], answers: Answers) -> None:
        """Add the next sentences of a stream to its ids, and to the queue, longest first."""
        lengths: dict[int, int] = {}
        for request in islice(source, self.look_ahead):
            request_id = self._accept(request)
            ids.append(request_id)
            self._streams[request_id] = answers
            lengths[request_id] = len(request.source)
        self._waiting.extend(sorted(lengths, key=lengths.__getitem__, reverse=True))

    def _pages(self, request: Request, tokens: int) -> int:
        """Pages that a sentence needs when each of its hypotheses has read `tokens` tokens."""
        assert self.pool is not None
        size = self.pool.page_size
        return self.model.pages_for(size, len(request.source), tokens, self.search.beams)

    def _admit(self) -> None:
        """Start waiting sentences where there is room."""
        vacant = self.max_sentences - len(self._batch)
        if len(self._batch) and (self.pool is None or vacant * 8 < self.max_sentences):
            return
        chosen: list[int] = []
        room = None if self.pool is None else self.pool.free - self.pool.pages // 50
        longest = 0
        while self._waiting and len(chosen) < vacant:
            request = self._requests.get(self._waiting[0])
            if request is None:  # it was cancelled
                self._waiting.popleft()
                continue
            longest = max(longest, len(request.source))
            if chosen and longest * (len(chosen) + 1) > MAX_JOINING:
                break
            if room is not None:
                room -= self._pages(request, 1)
                if room < 0 and (chosen or len(self._batch)):
                    break
            chosen.append(self._waiting.popleft())
        if chosen:
            self._begin(chosen)

    def _begin(self, request_ids: list[int]) -> None:
        requests = [self._requests[request_id] for request_id in request_ids]
        source = padded([request.source for request in requests]).to(self.device)
        prefixes = [request.prefix for request in requests]
        pairs = zip(request_ids, requests, strict=True)
        draw_ids = [i if r.draw_id is None else r.draw_id for i, r in pairs]
        self._batch.join(source, request_ids, prefixes, draw_ids)
        self.stats.admitted += len(request_ids)

    def _reserve(self) -> None:
        """Make room for the next tokens, if need be by sending the youngest back to the queue."""
        while not self._batch.reserve():
            youngest = len(self._batch) - 1
            self._waiting.appendleft(self._batch.request_ids[youngest])
            self._batch.keep(range(youngest))
            self.stats.preempted += 1
