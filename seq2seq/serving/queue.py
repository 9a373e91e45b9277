"""The queue for an engine: how much may wait, whose turn it is, and how long it takes."""

import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.serving.client_request import ClientRequest

QUANTUM = 64  # pieces that a client starts in its turn: 2 or 3 sentences
MEASURED = 2.0  # seconds with a full engine that are enough to judge its speed
REMEMBERED = 20.0  # seconds with a full engine after which older measurements count half
VALID = 60.0  # seconds for which a measured speed is used

QUEUE_FULL = "too many texts are waiting: try again a little later"
CLIENT_QUEUE_FULL = "your other texts fill your share of the queue: wait until they are done"


class Backlog:
    """The requests that a model has accepted and not yet answered, oldest first."""

    def __init__(self) -> None:
        self.requests: dict[ClientRequest, None] = {}

    @property
    def pieces(self) -> int:
        return sum(request.pieces for request in self.requests)

    def pieces_by_client(self, cap: int = sys.maxsize) -> Counter[str]:
        """Pieces of each client, counting at most `cap` for each request."""
        pieces: Counter[str] = Counter()
        for request in self.requests:
            pieces[request.client] += min(request.pieces, cap)
        return pieces

    @property
    def age(self) -> float:
        """Seconds since the oldest request was accepted."""
        oldest = next(iter(self.requests), None)
        return time.monotonic() - oldest.accepted_at if oldest else 0.0

    def refusal(self, client: str, pieces: int, limit: int) -> str:
        """The reason to refuse a request for lack of room; empty if there is room.

        All requests together may have `limit` pieces. A request counts as at most half of that, so
        that none is refused only for its length. A client counts as at most half, too, so that its
        surplus does not keep others out; it may exceed half only while nobody else waits.
        """
        half = limit // 2
        others = self.pieces_by_client(half)
        own = others.pop(client, 0)
        if own and own + pieces > (half if others else limit):
            return CLIENT_QUEUE_FULL
        total = sum(min(each, half) for each in others.values()) + min(own + pieces, half)
        return QUEUE_FULL if total > limit else ""

    def pieces_until(self, client: str, pieces: int) -> int:
        """Number of pieces to translate until a new request of `pieces` pieces is done. As requests
        and clients take turns, each request of the same client counts with at most `pieces`, and
        each other client with at most as many as this one.
        """
        own = pieces + self.pieces_by_client(pieces)[client]
        others = self.pieces_by_client()
        others.pop(client, 0)
        return own + sum(min(each, own) for each in others.values())


class FairQueue:
    """Sentences in an order in which no client waits for all the sentences of another.

    Clients take turns by deficit round robin: in its turn, a client starts sentences until it has
    started `QUANTUM` pieces, and any surplus is taken from its next turns. So between two turns of
    a client, each other client starts fewer than `QUANTUM` pieces plus one sentence. The requests
    of a client take turns, too, one sentence each, and the sentences of a request stay in order.
    All methods take constant time, except that a client with a long sentence is skipped for some
    turns.
    """

    def __init__(self) -> None:
        # client -> request -> its sentences; the first is next.
        self._clients = OrderedDict[str, OrderedDict[ClientRequest, dict[SentenceRequest, None]]]()
        self._credits: dict[str, int] = {}  # pieces that a client may still start

    def __bool__(self) -> bool:
        return bool(self._clients)

    def push(self, sentence: SentenceRequest) -> None:
        """Add a sentence at the end of its request."""
        client = sentence.owner.client
        if client not in self._clients:
            self._clients[client], self._credits[client] = OrderedDict(), QUANTUM
        self._clients[client].setdefault(sentence.owner, {})[sentence] = None

    def remove(self, sentence: SentenceRequest) -> None:
        """Remove a sentence from any position."""
        request = sentence.owner
        requests = self._clients[request.client]
        del requests[request][sentence]
        if not requests[request]:
            del requests[request]
        if not requests:
            del self._clients[request.client], self._credits[request.client]

    def pop(self, skipped: ClientRequest | None = None) -> SentenceRequest | None:
        """Remove and return the next sentence; None if there is none.

        Args:
            skipped: Request whose sentences are left in the queue.
        """
        while self._clients:
            client, requests = next(iter(self._clients.items()))
            if skipped and skipped in requests:
                requests.move_to_end(skipped)
                if len(requests) == 1:
                    if len(self._clients) == 1:
                        return None
                    self._clients.move_to_end(client)
                    continue
            if self._credits[client] <= 0:
                self._credits[client] += QUANTUM
                self._clients.move_to_end(client)
                continue
            request, sentences = next(iter(requests.items()))
            requests.move_to_end(request)
            sentence = next(iter(sentences))
            self._credits[client] -= len(sentence.source)
            self.remove(sentence)
            return sentence
        return None


class Speed:
    """The speed of an engine when it is full.

    A hypothesis that was one of N in the engine for t seconds has used t / N of the engine's time.
    This is known as soon as the first sentence is done, and does not count time that an almost
    empty batch wastes.
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        # Pieces, the seconds they took, and the time of the last measurement.
        self._state = (0.0, 0.0, 0.0)

    def measure(self, pieces: int, seconds: float) -> None:
        """Add a sentence and the time it used; with K hypotheses, its pieces count K times."""
        before, taken, _ = self._state
        weight = 0.5 if taken > REMEMBERED else 1.0
        self._state = (weight * before + pieces, weight * taken + seconds, self._clock())

    def pieces_per_second(self) -> float | None:
        """The speed; None if too little was measured lately. Safe in any thread."""
        pieces, seconds, measured_at = self._state
        if seconds < MEASURED or self._clock() - measured_at > VALID:
            return None
        return pieces / seconds


class StartedSentence(NamedTuple):
    """Time and load at which the engine accepted a sentence."""

    time: float
    beams: int  # hypotheses of the sentence
    rows: int  # hypotheses of all sentences in the engine at that time


class QueuedEngine(SentenceEngine):
    """Hands sentences on to an engine when it has room, taking from all clients in turn.

    The engine gets as many sentences as it can decode at once, and an eighth more, which wait for
    the next free rows. One request may have at most three quarters of the rows, so that the next
    request can start at once even if the first one is long.

    Args:
        engine: Engine that nobody else calls.
        clock: Function that returns the time in seconds.

    Attributes:
        speed: Speed of the engine.
    """

    def __init__(self, engine: SentenceEngine, clock: Callable[[], float] = time.perf_counter):
        self.engine, self.window, self.count = engine, engine.window, engine.count
        self.max_rows, self.shortlist = engine.max_rows, engine.shortlist
        self.speed = Speed(clock)
        self._clock = clock
        self._queue = FairQueue()
        self._started: dict[SentenceRequest, StartedSentence] = {}  # sentences in the engine
        self._rows = 0  # hypotheses of these
        self._widest: ClientRequest | None = None  # request with as many rows as one may have

    @property
    def active_rows(self) -> int:
        return self.engine.active_rows

    @property
    def busy(self) -> bool:
        return bool(self._queue or self._started)

    @property
    def waiting(self) -> bool:
        return bool(self._queue) or self.engine.waiting

    def check(self, request: SentenceRequest) -> None:
        self.engine.check(request)

    def submit(self, requests: Sequence[SentenceRequest]) -> None:
        """Add sentences at the end of their requests; each `owner` is a `ClientRequest`."""
        for request in requests:
            self._queue.push(request)

    def cancel(self, requests: Iterable[SentenceRequest]) -> None:
        started = []
        for request in requests:
            if request in self._started:
                started.append(request)
                self._release(request)
            elif not request.ended:
                self._queue.remove(request)
                request.status = Status.CANCELLED
        self.engine.cancel(started)

    def best_so_far(self, request: SentenceRequest) -> list[int]:
        return self.engine.best_so_far(request)

    def advance(self) -> list[SentenceRequest]:
        try:
            self._hand_over()
            ended = self.engine.advance()
        except BaseException as error:  # all sentences in the engine have failed
            for request in list(self._started):
                self._release(request)
            while waiting := self._queue.pop():
                waiting.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            raise
        for request in ended:
            self._release(request)
        return ended

    def _hand_over(self) -> None:
        """Submit as many waiting sentences as the engine has room for."""
        portion: list[tuple[SentenceRequest, int]] = []
        while self._rows < self.max_rows * 9 // 8 and (request := self._queue.pop(self._widest)):
            beams = request.search.beams if request.search else 1
            portion.append((request, beams))
            self._rows += beams
            request.owner.rows += beams
            request.owner.started_at = request.owner.started_at or time.monotonic()
            if request.owner.rows * 4 >= self.max_rows * 3:
                self._widest = request.owner
        if portion:
            now, rows = self._clock(), self._rows
            self._started |= {each: StartedSentence(now, beams, rows) for each, beams in portion}
            self.engine.submit([request for request, _ in portion])

    def _release(self, request: SentenceRequest) -> None:
        """Free the rows of a sentence that has left the engine."""
        owner: ClientRequest = request.owner
        start = self._started.pop(request)
        self._rows -= start.beams
        owner.rows -= start.beams
        if owner is self._widest and owner.rows * 8 <= self.max_rows * 5:
            self._widest = None
        if request.status is Status.DONE and start.rows * 2 >= self.max_rows:
            seconds = (self._clock() - start.time) * start.beams / start.rows
            self.speed.measure(len(request.source) * start.beams, seconds)
