"""Sentences that wait for an engine: whose turn it is, how much may wait, and how long it takes."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from seq2seq.decoding.answering import GivenUp
from seq2seq.decoding.engine import Request, SentenceEngine
from seq2seq.decoding.search import Hypothesis

Owner = tuple[Hashable, Hashable]  # a client, and one of its requests

QUANTUM = 64  # pieces that a client may start before it is the turn of the next: 2 or 3 sentences
MEASURED = 2.0  # seconds of a full engine that are enough to judge its speed by
REMEMBERED = 20.0  # seconds of a full engine after which older ones count half
VALID = 60.0  # seconds after which a speed must be measured anew

ALL = "too much waits to be translated: try again a little later"
OWN = "your other texts take all the room that you may have: wait until they are translated"


class FairQueue:
    """Ids of sentences, in an order in which nobody waits for all sentences of somebody else.

    Clients take turns. In its turn a client starts `QUANTUM` pieces, or one sentence more (deficit
    round robin); what it starts too much is taken from its next turns. The requests of one client
    take turns too, sentence by sentence, and the sentences of a request stay in order. So between
    two turns of a client, any other starts less than `QUANTUM` pieces and one sentence. All methods
    take constant time, but for skipping a client with a long sentence for some turns.
    """

    def __init__(self) -> None:
        # client -> request -> id -> pieces; the first is next.
        self._clients: OrderedDict[Hashable, OrderedDict[Hashable, OrderedDict[int, int]]] = (
            OrderedDict()
        )
        self._credits: dict[Hashable, int] = {}  # pieces that a client may still start
        self._owners: dict[int, Owner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def push(self, i: int, owner: Owner, pieces: int) -> None:
        """Put a sentence at the end of its request."""
        client, request = owner
        if client not in self._clients:
            self._clients[client], self._credits[client] = OrderedDict(), QUANTUM
        self._clients[client].setdefault(request, OrderedDict())[i] = pieces
        self._owners[i] = owner

    def remove(self, i: int) -> None:
        """Take out a sentence, wherever it is."""
        client, request = self._owners.pop(i)
        requests = self._clients[client]
        del requests[request][i]
        if not requests[request]:
            del requests[request]
        if not requests:
            del self._clients[client], self._credits[client]

    def pop(self, skipped: Owner | None = None) -> tuple[int, Owner] | None:
        """Take out the next sentence.

        Args:
            skipped: a request whose sentences stay.

        Returns: its id, and whose it is; None if there is no other.
        """
        while self._clients:
            client, requests = next(iter(self._clients.items()))
            if skipped and skipped[0] == client and skipped[1] in requests:
                requests.move_to_end(skipped[1])
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
            i, pieces = next(iter(sentences.items()))
            self._credits[client] -= pieces
            self.remove(i)
            return i, (client, request)
        return None


class Speed:
    """The speed of an engine when it is full.

    A sentence that was one of N hypotheses for t seconds has used t / N of the engine's time. This
    is known as soon as the first are answered, and does not count what a batch leaves unused that
    only few sentences wait for.
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._state = (0.0, 0.0, 0.0)  # pieces, the seconds that they took, when this was measured

    def measure(self, pieces: int, seconds: float) -> None:
        """Add what a sentence has used; with K hypotheses, its pieces are counted K times."""
        pieces_so_far, seconds_so_far, _ = self._state
        weight = 0.5 if seconds_so_far > REMEMBERED else 1.0
        self._state = (
            weight * pieces_so_far + pieces,
            weight * seconds_so_far + seconds,
            self._clock(),
        )

    def pieces_per_second(self) -> float | None:
        """None if too little was measured lately. Any thread may ask."""
        pieces, seconds, when = self._state
        if seconds < MEASURED or self._clock() - when > VALID:
            return None
        return pieces / seconds


class Started(NamedTuple):
    """A sentence that the engine has."""

    id: int  # ours
    owner: Owner
    request: Request
    since: float
    rows: int  # hypotheses that the engine then had


class QueuedEngine(SentenceEngine):
    """Hands sentences on to an engine when it has room, those of all clients in turn.

    The engine gets what it can decode at once, and an eighth more, which waits for the next places.
    One request has at most three quarters of the places; so if it is alone, the sentences of the
    next one need not wait until some of its own are translated.

    Args:
        engine: has no other caller.
        clock: in seconds.

    Attributes:
        speed: of the engine.
    """

    def __init__(self, engine: SentenceEngine, clock: Callable[[], float] = time.perf_counter):
        super().__init__()
        self.engine, self.look_ahead = engine, engine.look_ahead
        self.speed = Speed(clock)
        self._clock = clock
        self._queue = FairQueue()
        self._requests: dict[int, Request] = {}  # that wait, by id
        self._started: dict[int, Started] = {}  # by the id that the engine has given
        self._theirs: dict[int, int] = {}  # these ids, by ours
        self._answers: dict[int, list[Hypothesis]] = {}  # by their ids
        self._rows = 0  # hypotheses that the engine has
        self._rows_of: Counter[Owner] = Counter()
        self._widest: Owner | None = None  # who has all that it may have

    @property
    def max_rows(self) -> int:
        return self.engine.max_rows

    @property
    def waiting(self) -> bool:
        return bool(self._queue) or self.engine.waiting

    def check(self, request: Request) -> None:
        self.engine.check(request)

    def submit_all(
        self, items: Sequence[Request], answers: dict[int, list[Hypothesis]] | None = None
    ) -> list[int]:
        """Put sentences at the end of the queues of their owners. Raises: as `submit`."""
        for request in items:
            self.check(request)
        ids = [self.expect(answers) for _ in items]
        for i, request in zip(ids, items, strict=True):
            self._requests[i] = request
            self._queue.push(i, request.owner or (None, None), len(request.source))
        return ids

    def cancel(self, *ids: int) -> None:
        super().cancel(*ids)
        for i in ids:
            if i in self._requests:
                del self._requests[i]
                self._queue.remove(i)
        theirs = [self._theirs[i] for i in ids if i in self._theirs]
        for i in theirs:
            self._end(i)
        self.engine.cancel(*theirs)

    def best_so_far(self, request_id: int) -> list[int]:
        theirs = self._theirs.get(request_id)
        return [] if theirs is None else self.engine.best_so_far(theirs)

    def wake(self) -> None:
        self.engine.wake()

    def close(self) -> None:
        self.engine.close()

    def advance(self) -> None:
        self._hand_over()
        try:
            self.engine.advance()
        except GivenUp as error:
            ids = [self._end(i) for i in error.ids if i in self._started]
            super().cancel(*ids)
            raise GivenUp(str(error), ids) from error
        except BaseException:  # the engine has dropped all that it had
            self.cancel(*self._theirs)
            raise
        for i, hypotheses in self._answers.items():
            self.answer(self._end(i, answered=True), hypotheses)
        self._answers.clear()

    def _hand_over(self) -> None:
        """Submit as many sentences as the engine has room for."""
        most = self.engine.max_rows * 9 // 8
        portion: list[tuple[int, Owner, Request]] = []
        while self._rows < most and (taken := self._queue.pop(self._widest)):
            i, owner = taken
            request = self._requests.pop(i)
            portion.append((i, owner, request))
            beams = beams_of(request)
            self._rows += beams
            self._rows_of[owner] += beams
            if self._rows_of[owner] * 4 >= self.engine.max_rows * 3:
                self._widest = owner
        if not portion:
            return
        requests = [request._replace(owner=None) for _, _, request in portion]
        theirs = self.engine.submit_all(requests, self._answers)
        now = self._clock()
        for their_id, (i, owner, request) in zip(theirs, portion, strict=True):
            self._theirs[i] = their_id
            self._started[their_id] = Started(i, owner, request, now, self._rows)

    def _end(self, their_id: int, answered: bool = False) -> int:
        """Forget a sentence that the engine no longer has. Returns: our id."""
        sentence = self._started.pop(their_id)
        beams, owner = beams_of(sentence.request), sentence.owner
        del self._theirs[sentence.id]
        self._rows -= beams
        self._rows_of[owner] -= beams
        if owner == self._widest and self._rows_of[owner] * 8 <= self.engine.max_rows * 5:
            self._widest = None
        if not self._rows_of[owner]:
            del self._rows_of[owner]
        if answered and sentence.rows * 2 >= self.engine.max_rows:
            used = (self._clock() - sentence.since) * beams / sentence.rows
            self.speed.measure(len(sentence.request.source) * beams, used)
        return sentence.id


def beams_of(request: Request) -> int:
    return request.search.beams if request.search else 1


class Waiting:
    """The pieces that a model has accepted and not answered, by client and request."""

    def __init__(self) -> None:
        self.pieces = 0
        self._clients: dict[Hashable, dict[Hashable, int]] = {}

    def add(self, owner: Owner, pieces: int) -> None:
        client, request = owner
        self.pieces += pieces
        self._clients.setdefault(client, {})[request] = pieces

    def answer(self, owner: Owner, pieces: int) -> None:
        """Take away what is answered of a request."""
        client, request = owner
        if request in self._clients.get(client, {}):
            self.pieces -= pieces
            self._clients[client][request] -= pieces

    def remove(self, owner: Owner) -> None:
        """Take away all of a request."""
        client, request = owner
        self.pieces -= self._clients[client].pop(request)
        if not self._clients[client]:
            del self._clients[client]

    def refuses(self, client: Hashable, pieces: int, limit: int) -> str:
        """The reason to refuse a request for lack of room; empty if there is room.

        Together, all requests may have `limit` pieces. Of a request, half of that counts at most,
        so that none is refused for its length alone; and of a client, so that what it has too much
        does not keep others out. A client has more than half only while nobody else waits.
        """
        half = limit // 2
        if self.pieces + pieces <= half:
            return ""
        held = {
            each: sum(min(left, half) for left in requests.values())
            for each, requests in self._clients.items()
        }
        own = held.pop(client, 0)
        others = sum(min(each, half) for each in held.values())
        if own and own + pieces > (half if held else limit):
            return OWN
        return ALL if others + min(own + pieces, half) > limit else ""

    def before(self, client: Hashable, pieces: int) -> int:
        """Pieces that are translated before a request of so many is, and its own, if turns are
        taken: of each request of the same client no more than of this one, and of each client no
        more than of this one.
        """
        own = pieces + sum(min(each, pieces) for each in self._clients.get(client, {}).values())
        others = (each for other, each in self._clients.items() if other != client)
        return own + sum(min(sum(requests.values()), own) for requests in others)
