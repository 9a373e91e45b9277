"""Any number of sentences through a model, as many at a time as is fast and fits."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import torch

from seq2seq.attention.pages import PagePool
from seq2seq.data.windows import padded
from seq2seq.decoding.decoding_batch import DecodingBatch, Found
from seq2seq.decoding.search import Hypothesis, Search
from seq2seq.decoding.stats import Stats
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq

Cache = Literal["auto", "dense", "paged"]

# Tokens that a pool has room for if nobody says how many: of a file, and of one long sentence.
TOKENS_A_ROW, LEAST_TOKENS = 128, 2**14
JOINING = 2**14  # padded source pieces of sentences that begin together, at most


class Request(NamedTuple):
    """What is to be translated."""

    source: list[int]  # ids, eos last
    prefix: Sequence[int] = ()  # ids that the translation begins with
    number: int | None = None  # what is drawn at random depends on it; None = its place among all


class Engine:
    """Translates a stream of sentences, or sentences that come one by one.

    `translate` is for a file. A server calls `submit` whenever a sentence comes, and `step` as long
    as the engine is `busy`.

    With a dense cache a batch is filled and decoded to its end. With a paged cache sentences take
    the places of those that are done (continuous batching), whenever an eighth of the places is
    free. If the pages run out, the youngest sentence gives its own up and begins again later; the
    oldest never does, so every sentence is answered. What is found for a sentence does not depend
    on which others are decoded beside it.

    Args:
        model: in evaluation mode.
        search: how hypotheses are chosen.
        cache: `dense`, `paged`, or `auto`: paged on a GPU.
        rows: hypotheses decoded at once at most; at least those of one sentence.
        pages: of the paged cache; None = as many as `rows` hypotheses of 128 tokens fill, at
            least for 16,384 tokens.
        page_size: tokens a page; None = 8 on a CPU, 16 on a GPU.
        look_ahead: sentences that `translate` reads before it answers the first of them.

    Attributes:
        stats: what was done so far.
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
            usual = max(rows * TOKENS_A_ROW, LEAST_TOKENS) // size
            self.pool = PagePool(pages or usual, size, self.device)
        self.max_sentences = max(1, rows // search.beams)
        self.look_ahead = look_ahead
        self.stats = Stats()
        self._batch = DecodingBatch(model, search, self.pool, self.stats)
        self._requests: dict[int, Request] = {}  # all that are not answered yet
        self._waiting: list[int] = []  # their numbers, the next one last
        self._count = 0

    @property
    def busy(self) -> bool:
        """Is there a sentence that is not answered?"""
        return bool(self._requests)

    def submit(self, request: Request) -> int:
        """Let a sentence wait for its turn.

        Returns: its number, by which `step` answers.
        Raises: ConfigError if its pages would not fit even if it were alone.
        """
        if self.pool is not None:
            S, longest = len(request.source), self.model.max_length
            most = self._pages(request, self.search.limit(S - 1, longest, len(request.prefix)))
            if most > self.pool.pages:
                raise ConfigError(
                    f"a source of {S} pieces and {self.search.beams} hypotheses may need {most} "
                    f"pages, and there are {self.pool.pages}: give more pages (decode.pages), "
                    "search less widely, or cut the text"
                )
        number = self._count
        self._count += 1
        self._requests[number] = request
        self._waiting.insert(0, number)
        return number

    @torch.no_grad()
    def step(self) -> Found:
        """One more token of all hypotheses that are being decoded, after others have joined them.

        Returns: numbers and hypotheses, best first, of the sentences that are answered.
        """
        self._admit()
        if not len(self._batch):
            return []
        self._reserve()
        found = self._batch.step()
        for number, hypotheses in found:
            del self._requests[number]
            self.stats.answer(hypotheses)
        return found

    def translate(self, requests: Iterable[Request]) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each sentence, best first, in the order of the sentences.

        Reads `look_ahead` sentences at a time and decodes the longest first, so that those that are
        decoded together are about as long. What was read and not answered is forgotten when the
        reader of the answers stops.
        """
        source = iter(requests)
        answers: dict[int, list[Hypothesis]] = {}
        following = self._count
        try:
            while self._read(source) or self.busy:
                answers.update(self.step())
                while following in answers:
                    yield answers.pop(following)
                    following += 1
        finally:
            self._forget()

    def _read(self, source: Iterator[Request]) -> bool:
        """Let the next sentences wait if no other does. Are any waiting?"""
        if not self._waiting:
            for request in islice(source, self.look_ahead):
                self.submit(request)
            self._waiting.sort(key=lambda number: len(self._requests[number].source))
        return bool(self._waiting)

    def _forget(self) -> None:
        if len(self._batch):
            self._batch.keep([])
        self._requests.clear()
        self._waiting.clear()

    def _pages(self, request: Request, tokens: int) -> int:
        """That a sentence needs when each of its hypotheses has read so many tokens."""
        assert self.pool is not None
        size = self.pool.page_size
        return self.model.pages_for(size, len(request.source), tokens, self.search.beams)

    def _admit(self) -> None:
        """Let waiting sentences begin where there is room."""
        vacant = self.max_sentences - len(self._batch)
        if len(self._batch) and (self.pool is None or vacant * 8 < self.max_sentences):
            return
        chosen: list[int] = []
        room = None if self.pool is None else self.pool.free - self.pool.pages // 50
        longest = 0
        while self._waiting and len(chosen) < vacant:
            request = self._requests[self._waiting[-1]]
            longest = max(longest, len(request.source))
            if chosen and longest * (len(chosen) + 1) > JOINING:
                break
            if room is not None:
                room -= self._pages(request, 1)
                if room < 0 and (chosen or len(self._batch)):
                    break
            chosen.append(self._waiting.pop())
        if chosen:
            self._begin(chosen)

    def _begin(self, numbers: list[int]) -> None:
        requests = [self._requests[number] for number in numbers]
        source = padded([request.source for request in requests]).to(self.device)
        prefixes = [request.prefix for request in requests]
        drawn = [
            n if r.number is None else r.number for n, r in zip(numbers, requests, strict=True)
        ]
        self._batch.join(source, numbers, prefixes, drawn)
        self.stats.admitted += len(numbers)

    def _reserve(self) -> None:
        """Make room for the next tokens: if need be, by letting the youngest begin again."""
        while not self._batch.reserve():
            youngest = len(self._batch) - 1
            self._waiting.append(self._batch.numbers[youngest])
            self._batch.keep(range(youngest))
            self.stats.preempted += 1
