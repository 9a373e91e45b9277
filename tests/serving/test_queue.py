"""Nobody waits for all sentences of somebody else, and nobody is refused for length alone."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.serving.client_request import ClientRequest
from seq2seq.serving.queue import MEASURED, QUANTUM, VALID, Backlog, FairQueue, QueuedEngine

LONGEST = 130  # pieces of a sentence here

# Client, request, pieces of a sentence; or None: the next sentence starts.
SCRIPTS = some.lists(
    some.none() | some.tuples(some.integers(0, 3), some.integers(0, 2), some.integers(1, LONGEST)),
    max_size=80,
)


@given(SCRIPTS)
def test_turns_are_fair_and_requests_stay_in_order(script: list[Any]) -> None:
    queue = FairQueue()
    requests = {(c, r): ClientRequest(str(c)) for c in range(4) for r in range(3)}
    waiting: dict[ClientRequest, deque[SentenceRequest]] = defaultdict(deque)
    # What others have started since a client that waits had its last turn, by both.
    since: dict[str, dict[str, int]] = {}
    for event in [*script, *[None] * len(script)]:
        if event:
            client, request, pieces = event
            owner = requests[client, request]
            sentence = SentenceRequest([0] * pieces, owner=owner)
            waiting[owner].append(sentence)
            queue.push(sentence)
            since.setdefault(owner.client, defaultdict(int))
            continue
        started = queue.pop()
        if not any(waiting.values()):
            assert started is None
            continue
        assert started is not None
        client = started.owner.client
        assert waiting[started.owner].popleft() is started
        for each, others in since.items():
            if each != client:
                others[client] += len(started.source)
                assert others[client] < 2 * (QUANTUM + LONGEST)
        if any(owner.client == client and left for owner, left in waiting.items()):
            since[client].clear()
        else:
            del since[client]
    assert not queue and not any(waiting.values())


@given(some.data())
def test_whoever_waits_can_leave(data: Any) -> None:
    queue = FairQueue()
    requests = {(c, r): ClientRequest(str(c)) for c in range(3) for r in range(5)}
    sentences = [SentenceRequest([0] * 10, owner=requests[i % 3, i % 5]) for i in range(40)]
    for each in sentences:
        queue.push(each)
    left = [sentences[i] for i in data.draw(some.sets(some.integers(0, 39)))]
    for each in left:
        queue.remove(each)
    skipped = requests[0, 0]
    others = {each for each in sentences if each.owner is not skipped} - set(left)
    started = set()
    while each := queue.pop(skipped):
        started.add(each)
    assert started == others
    while each := queue.pop():
        started.add(each)
    assert not queue and started == set(sentences) - set(left)


class Simulated(SentenceEngine):
    """An engine that needs a step for each piece, for so many sentences at a time."""

    window = 100
    max_rows = 8
    active_rows = 0

    def __init__(self) -> None:
        self.now, self.steps = 0.0, 0
        self.work: dict[SentenceRequest, int] = {}  # pieces that are left
        self.began: dict[int, int] = {}  # step at which the sentence that begins with this began

    @property
    def busy(self) -> bool:
        return bool(self.work)

    @property
    def waiting(self) -> bool:
        return len(self.work) > self.max_rows

    def check(self, request: SentenceRequest) -> None:
        raise AssertionError("whoever makes a request checks it")

    def submit(self, requests: Sequence[SentenceRequest]) -> None:
        for request in requests:
            self.work[request] = len(request.source)
            self.began[request.source[0]] = self.steps

    def cancel(self, requests: Iterable[SentenceRequest]) -> None:
        for request in requests:
            del self.work[request]
            request.status = Status.CANCELLED

    def advance(self) -> list[SentenceRequest]:
        self.steps += 1
        self.now += 0.1
        assert len(self.work) <= self.max_rows * 9 // 8
        for request in list(self.work)[: self.max_rows]:
            self.work[request] -= 1
            if request.source[0] == -1:
                request.fail(RuntimeError("given up"))
            elif not self.work[request]:
                request.finish([])
            if request.source[0] == -2:
                raise MemoryError
        ended = [request for request in self.work if request.ended]
        for request in ended:
            del self.work[request]
        return ended


def sentences(
    owner: ClientRequest, firsts: Sequence[int], pieces: int = 10
) -> list[SentenceRequest]:
    return [SentenceRequest([first] * pieces, owner=owner) for first in firsts]


def submit(queued: QueuedEngine, requests: list[SentenceRequest]) -> list[SentenceRequest]:
    queued.submit(requests)
    return requests


def answer_all(queued: QueuedEngine) -> list[SentenceRequest]:
    answered = []
    while queued.busy:
        answered += queued.advance()
    return answered


def test_a_short_request_does_not_wait_for_a_long_one() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    one = ClientRequest("one")
    long = submit(queued, sentences(one, range(400)))
    answered = []
    for _ in range(25):
        answered += queued.advance()
    before = engine.steps
    # Of another client, and of the same.
    short = submit(queued, sentences(ClientRequest("other"), [1000]))
    again = submit(queued, sentences(ClientRequest("one"), [2000]))
    answered += answer_all(queued)
    assert engine.began[1000] == before  # in the next step
    assert engine.began[2000] - before <= 10  # the time of a sentence
    assert max(map(answered.index, (*short, *again))) < 50
    assert [each for each in answered if each.owner is one] == long  # they end as they begin
    assert not (queued._rows or one.rows or queued._widest or queued._started)


def test_what_is_cancelled_or_fails_leaves_at_once() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    one = ClientRequest("one")
    long = submit(queued, sentences(one, range(100)))
    queued.advance()
    assert 0 < len(engine.work) <= 6  # three quarters
    queued.cancel(long)
    assert not (engine.work or queued.busy or queued.waiting or queued._rows or one.rows)
    assert {each.status for each in long} == {Status.CANCELLED}
    poison, good = submit(queued, sentences(one, [-1, 5]))
    assert queued.advance() == [poison] and poison.status is Status.FAILED
    assert answer_all(queued) == [good] and good.status is Status.DONE
    assert not (queued._rows or queued._started)


def test_after_an_error_of_the_engine_nothing_waits() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    one = ClientRequest("one")
    requests = submit(queued, sentences(one, [-2, *range(100)]))
    with pytest.raises(MemoryError):
        queued.advance()
    assert not (queued.busy or queued._rows or one.rows)
    # The engine itself says so of those that it had.
    assert {each.status for each in requests if each not in engine.work} == {Status.FAILED}


def test_the_speed_is_that_of_a_full_engine_and_forgotten_in_time() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    one, two = ClientRequest("one"), ClientRequest("two")
    queued.submit(sentences(one, [1]))
    answer_all(queued)
    assert queued.speed.pieces_per_second() is None  # that was no full engine
    queued.submit(sentences(one, range(60)) + sentences(two, range(60, 120)))
    while queued.speed.pieces_per_second() is None:
        queued.advance()
    assert engine.now < 3 * MEASURED + 2
    answer_all(queued)
    speed = queued.speed.pieces_per_second()
    assert speed == pytest.approx(8 / 0.1, rel=0.3)  # a piece of 8 sentences in 0.1 s
    engine.now += VALID + 1
    assert queued.speed.pieces_per_second() is None


def accept(backlog: Backlog, client: str, pieces: int) -> ClientRequest:
    request = ClientRequest(client, pieces=pieces)
    backlog.requests[request] = None
    return request


def test_no_request_is_refused_for_its_length_alone() -> None:
    backlog = Backlog()
    assert not backlog.refusal("one", 10**6, 1000)
    other = accept(backlog, "other", 500)
    assert not backlog.refusal("one", 10**6, 1000)  # while another client has half
    accept(backlog, "one", 10**6)
    assert backlog.pieces == 10**6 + 500
    assert backlog.refusal("other", 1, 1000) and backlog.refusal("one", 1, 1000)
    assert backlog.refusal("third", 1, 1000)
    del backlog.requests[other]
    assert backlog.refusal("one", 501, 1000) and not backlog.refusal("one", 500, 1000)  # alone
    # What one has too much does not keep others out.
    assert not backlog.refusal("third", 400, 1000)


@given(some.lists(some.tuples(some.integers(0, 5), some.integers(1, 3000)), max_size=60))
def test_what_is_accepted_is_bounded_and_half_of_it_is_for_others(script: list[Any]) -> None:
    backlog, limit = Backlog(), 1000
    held: dict[int, list[int]] = defaultdict(list)  # what counts, by client
    for client, pieces in script:
        counts = min(pieces, limit // 2)
        others = sum(min(sum(each), limit // 2) for c, each in held.items() if c != client)
        if backlog.refusal(str(client), pieces, limit):
            assert held[client] or others + counts > limit
            continue
        if others and held[client]:
            assert sum(held[client]) + counts <= limit // 2
        held[client].append(counts)
        accept(backlog, str(client), pieces)
        assert sum(held[client]) <= limit
        assert sum(min(sum(each), limit // 2) for each in held.values()) <= limit


def test_what_comes_before_a_request_is_what_turns_give() -> None:
    backlog = Backlog()
    long = accept(backlog, "one", 8000)
    accept(backlog, "one", 20)
    accept(backlog, "other", 3000)
    assert backlog.pieces_until("new", 50) == 50 + 50 + 50
    assert backlog.pieces_until("one", 50) == (50 + 50 + 20) + 120
    long.pieces -= 7990
    assert backlog.pieces == 3030 and backlog.pieces_until("new", 50) == 50 + 30 + 50
