"""Nobody waits for all sentences of somebody else, and nobody is refused for length alone."""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from seq2seq.decoding.answering import GivenUp

from seq2seq.decoding.engine import Request, SentenceEngine
from seq2seq.decoding.search import Hypothesis
from seq2seq.serving.queue import MEASURED, QUANTUM, VALID, FairQueue, QueuedEngine, Waiting

LONGEST = 130  # pieces of a sentence here

# Client, request, pieces of a sentence; or None: the next sentence starts.
SCRIPTS = some.lists(
    some.none() | some.tuples(some.integers(0, 3), some.integers(0, 2), some.integers(1, LONGEST)),
    max_size=80,
)


@given(SCRIPTS)
def test_turns_are_fair_and_requests_stay_in_order(script: list[Any]) -> None:
    queue = FairQueue()
    waiting: dict[Any, deque[int]] = defaultdict(deque)  # by owner
    pieces: dict[int, int] = {}
    # What others have started since a client that waits had its last turn, by both.
    since: dict[int, dict[int, int]] = {}
    for i, event in enumerate([*script, *[None] * len(script)]):
        if event:
            client, request, pieces[i] = event
            waiting[client, request].append(i)
            queue.push(i, (client, request), pieces[i])
            since.setdefault(client, defaultdict(int))
            continue
        if not any(waiting.values()):
            assert queue.pop() is None
            continue
        taken = queue.pop()
        assert taken is not None
        started, owner = taken
        assert waiting[owner].popleft() == started
        for client, others in since.items():
            if client != owner[0]:
                others[owner[0]] += pieces[started]
                assert others[owner[0]] < 2 * (QUANTUM + LONGEST)
        if any(client == owner[0] and ids for (client, _), ids in waiting.items()):
            since[owner[0]].clear()
        else:
            del since[owner[0]]
    assert not len(queue) and not any(waiting.values())


@given(some.data())
def test_whoever_waits_can_leave(data: Any) -> None:
    queue, owners = FairQueue(), {i: (i % 3, i % 5) for i in range(40)}
    for i, owner in owners.items():
        queue.push(i, owner, 10)
    left = data.draw(some.sets(some.sampled_from(sorted(owners))))
    for i in left:
        queue.remove(i)
    skipped = owners[0]
    others = {i for i, owner in owners.items() if owner != skipped} - left
    started = set()
    while taken := queue.pop(skipped):
        started.add(taken[0])
    assert started == others and len(queue) == len(owners) - len(left) - len(others)


class Simulated(SentenceEngine):
    """An engine that needs a step for each piece, for so many sentences at a time."""

    look_ahead = 100
    max_rows = 8

    def __init__(self) -> None:
        super().__init__()
        self.now, self.steps = 0.0, 0
        self.work: dict[int, int] = {}  # pieces that are left
        self.began: dict[int, int] = {}  # step at which the sentence that begins with this began
        self.poison: int | None = None

    @property
    def waiting(self) -> bool:
        return len(self.work) > self.max_rows

    def check(self, request: Request) -> None:
        """All can be answered."""

    def submit_all(
        self, items: Sequence[Request], answers: dict[int, list[Hypothesis]] | None = None
    ) -> list[int]:
        assert all(request.owner is None for request in items)
        ids = [self.expect(answers) for _ in items]
        for i, request in zip(ids, items, strict=True):
            self.work[i] = len(request.source)
            self.began[request.source[0]] = self.steps
            if request.source[0] == -1:
                self.poison = i
        return ids

    def cancel(self, *ids: int) -> None:
        super().cancel(*ids)
        for i in ids:
            self.work.pop(i, None)

    def advance(self) -> None:
        self.steps += 1
        self.now += 0.1
        assert len(self.work) <= self.max_rows * 9 // 8
        if self.poison in self.work:
            assert self.poison is not None
            self.cancel(self.poison)
            raise GivenUp("given up", [self.poison])
        for i in list(self.work)[: self.max_rows]:
            self.work[i] -= 1
            if not self.work[i]:
                del self.work[i]
                self.answer(i, [])


def sentences(owner: Any, firsts: Sequence[int], pieces: int = 10) -> list[Request]:
    return [Request([first] * pieces, owner=owner) for first in firsts]


def answer_all(queued: QueuedEngine) -> list[int]:
    answered = []
    while queued.busy:
        answered += [i for i, _ in queued.step()]
    return answered


def test_a_short_request_does_not_wait_for_a_long_one() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    long = queued.submit_all(sentences(("one", 1), range(400)))
    for _ in range(25):
        queued.advance()
    before = engine.steps
    # Of another client, and of the same.
    short = queued.submit_all(sentences(("other", 2), [1000]))
    again = queued.submit_all(sentences(("one", 3), [2000]))
    answered = answer_all(queued)
    assert engine.began[1000] == before  # in the next step
    assert engine.began[2000] - before <= 10  # the time of a sentence
    assert max(map(answered.index, (*short, *again))) < 50
    assert [i for i in answered if i in long] == long  # the simulation ends as it begins
    assert not (queued._rows or queued._rows_of or queued._widest or queued._theirs)


def test_what_is_cancelled_or_given_up_leaves_at_once() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    long = queued.submit_all(sentences(("one", 1), range(100)))
    queued.advance()
    assert 0 < len(engine.work) <= 6  # three quarters
    queued.cancel(*long)
    assert not (engine.work or queued.busy or queued.waiting or queued._rows)
    poison, good = queued.submit_all(sentences(("one", 1), [-1, 5]))
    with pytest.raises(GivenUp) as raised:
        queued.advance()
    assert raised.value.ids == [poison] and answer_all(queued) == [good]
    assert not (queued._rows or queued._theirs)


def test_the_speed_is_that_of_a_full_engine_and_forgotten_in_time() -> None:
    engine = Simulated()
    queued = QueuedEngine(engine, lambda: engine.now)
    queued.submit_all(sentences(("one", 1), [1]))
    answer_all(queued)
    assert queued.speed.pieces_per_second() is None  # that was no full engine
    queued.submit_all(sentences(("one", 1), range(60)) + sentences(("two", 1), range(60, 120)))
    while queued.speed.pieces_per_second() is None:
        queued.advance()
    assert engine.now < 3 * MEASURED + 2
    answer_all(queued)
    speed = queued.speed.pieces_per_second()
    assert speed == pytest.approx(8 / 0.1, rel=0.3)  # a piece of 8 sentences in 0.1 s
    engine.now += VALID + 1
    assert queued.speed.pieces_per_second() is None


def test_no_request_is_refused_for_its_length_alone() -> None:
    waiting = Waiting()
    assert not waiting.refuses("one", 10**6, 1000)
    waiting.add(("other", 1), 500)
    assert not waiting.refuses("one", 10**6, 1000)  # while another client has half
    waiting.add(("one", 1), 10**6)
    assert waiting.pieces == 10**6 + 500
    assert waiting.refuses("other", 1, 1000) and waiting.refuses("one", 1, 1000)
    assert waiting.refuses("third", 1, 1000)
    waiting.remove(("other", 1))
    assert waiting.refuses("one", 501, 1000) and not waiting.refuses("one", 500, 1000)  # alone
    # What one has too much does not keep others out.
    assert not waiting.refuses("third", 400, 1000)
    waiting.remove(("one", 1))
    assert waiting.pieces == 0 and not waiting._clients


@given(some.lists(some.tuples(some.integers(0, 5), some.integers(1, 3000)), max_size=60))
def test_what_is_accepted_is_bounded_and_half_of_it_is_for_others(script: list[Any]) -> None:
    waiting, limit = Waiting(), 1000
    held: dict[int, list[int]] = defaultdict(list)  # what counts, by client
    for i, (client, pieces) in enumerate(script):
        counts = min(pieces, limit // 2)
        others = sum(min(sum(each), limit // 2) for c, each in held.items() if c != client)
        if waiting.refuses(client, pieces, limit):
            assert held[client] or others + counts > limit
            continue
        if others and held[client]:
            assert sum(held[client]) + counts <= limit // 2
        held[client].append(counts)
        waiting.add((client, i), pieces)
        assert sum(held[client]) <= limit
        assert sum(min(sum(each), limit // 2) for each in held.values()) <= limit


def test_what_comes_before_a_request_is_what_turns_give() -> None:
    waiting = Waiting()
    waiting.add(("one", 1), 8000)
    waiting.add(("one", 2), 20)
    waiting.add(("other", 3), 3000)
    assert waiting.before("new", 50) == 50 + 50 + 50
    assert waiting.before("one", 50) == (50 + 50 + 20) + 120
    waiting.answer(("one", 1), 7990)
    assert waiting.pieces == 3030 and waiting.before("new", 50) == 50 + 30 + 50
    waiting.answer(("nobody", 1), 5)
    assert waiting.pieces == 3030
