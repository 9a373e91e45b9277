"""Worker processes answer as one engine would, and die cleanly."""

import os
import pickle
import re
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from echo import Echo
from helpers.builders import small_model, translate_copies

from seq2seq.base import progress
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.decoding import worker_process
from seq2seq.decoding import workers as module
from seq2seq.decoding.engine import Engine
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.precision import is_native, with_precision
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.workers import Workers


def echo(min_requests: int = 1) -> Workers:
    build: Any = Echo
    return Workers(build(), build, 2, min_requests=min_requests)


def requests(*firsts: int) -> list[SentenceRequest]:
    return [SentenceRequest([first, EOS]) for first in firsts]


def firsts_of(requests: Iterable[SentenceRequest]) -> list[int]:
    """The first piece of each answer."""
    return [request.hypotheses[0].ids[0] for request in requests if request.hypotheses]


def writers_of(requests: Iterable[SentenceRequest]) -> set[int]:
    """The processes that answered."""
    return {request.hypotheses[0].ids[-1] for request in requests if request.hypotheses}


def finish(workers: Workers) -> list[SentenceRequest]:
    """Advance until no work is left. Returns: the requests that ended."""
    ended = []
    while workers.busy:
        ended += workers.advance()
    return ended


@pytest.fixture(params=[True, False], ids=["copies", "server"])
def are_copies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True if workers are copies of this process, which depends on its threads."""
    others = [threading.Thread(name=progress.THREAD if request.param else "another")]
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), *others])
    return bool(request.param)


@pytest.fixture
def echoes(are_copies: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Two workers that take two requests at a time."""
    monkeypatch.setattr(module, "SHARE", 2)
    workers = echo()
    yield workers
    workers.close()


def alive(workers: Workers) -> list[int]:
    return [worker.process.pid or 0 for worker in workers._workers if worker.process.is_alive()]


def test_answers_come_in_the_order_of_the_requests(echoes: Workers) -> None:
    ended = list(echoes.translate(requests(*range(21))))
    assert firsts_of(ended) == list(range(21))
    writers = writers_of(ended)
    assert len(writers) == 2 and os.getpid() not in writers
    # They stay for the next call.
    assert writers_of(echoes.translate(requests(*range(21)))) == writers
    assert echoes.stats.sentences == 42
    echoes.close()
    assert not alive(echoes)


def test_workers_translate_as_an_engine_does_token_by_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SHARE", 6)
    build = partial(Engine, small_model("transformer"), Greedy())
    sources = [torch.randint(4, 13, (i % 7 + 1,)).tolist() for i in range(40)]
    asked = [SentenceRequest([*source, EOS]) for source in sources]
    workers = Workers(build(), build, 2)
    answers = list(translate_copies(workers, asked))
    workers.close()
    for some, others in zip(answers, translate_copies(build(), asked), strict=True):
        assert [h.ids for h in some] == [h.ids for h in others]
        assert some[0].score == pytest.approx(others[0].score, abs=1e-9)


def test_no_process_is_started_for_a_few_requests() -> None:
    for min_requests, firsts in ((1, (1,)), (3, (1, 2, 3, 4, 5)), (1, ())):
        workers = echo(min_requests)
        answers = list(translate_copies(workers, requests(*firsts)))
        assert [h[0].ids for h in answers] == [[first, EOS, os.getpid()] for first in firsts]
        assert not workers._workers


def test_what_is_read_ahead_is_bounded(echoes: Workers) -> None:
    read = count()
    endless = (SentenceRequest([next(read), EOS]) for _ in count())
    ended = echoes.translate(endless, max_unanswered=20)
    assert firsts_of(islice(ended, 50)) == list(range(50))
    assert next(read) <= 50 + 20
    ended.close()  # type: ignore[attr-defined]
    assert not echoes.busy
    # Their abandoned work is not taken for the answer to another call.
    assert firsts_of(echoes.translate(requests(7, 8))) == [7, 8]


def test_a_cancelled_request_leaves_its_worker_at_once(echoes: Workers) -> None:
    stuck, waiting = requests(-3, -3, -3, -3), requests(1, 2, 3)
    echoes.submit(stuck)  # all that two workers may have
    echoes.submit(waiting)
    echoes._deal()
    assert all(len(worker.unanswered) == 2 for worker in echoes._workers)
    echoes.cancel([*stuck, waiting[1]])
    ended = finish(echoes)
    assert {request.id for request in ended} == {waiting[0].id, waiting[2].id}
    assert sorted(firsts_of(ended)) == [1, 3]
    assert {request.status for request in stuck} == {waiting[1].status} == {Status.CANCELLED}


def test_a_worker_answers_with_the_ids_of_its_requests() -> None:
    engine: Any = Echo()
    first, stuck, second = requests(1, -3, 2)
    first.owner = first.on_end = lambda: 0  # what cannot be sent, and need not be
    commands: Any = SimpleQueue()
    for submitted, cancelled in (((first, stuck), ()), ((second,), (stuck, *requests(9)))):
        command = worker_process.Command(submitted, cancelled)
        commands.put(pickle.loads(pickle.dumps(command)))
    reply = worker_process.work(engine, commands)
    assert isinstance(reply, worker_process.Reply) and not engine.busy
    assert [(i, h[0].ids[0]) for i, h in reply.answers] == [(first.id, 1), (second.id, 2)]


def test_several_streams_of_workers_get_their_own_answers(echoes: Workers) -> None:
    streams = [echoes.translate(requests(*range(i, i + 20))) for i in (0, 100, 200)]
    (single,) = requests(7)
    echoes.submit([single])
    for i in range(20):
        assert firsts_of(map(next, streams)) == [i, 100 + i, 200 + i]
    assert [list(stream) for stream in streams] == [[], [], []]
    finish(echoes)
    assert firsts_of([single]) == [7]


def kill(worker: module.Worker) -> None:
    worker.process.kill()
    worker.process.join()


def test_a_request_that_kills_its_workers_is_given_up_and_others_are_answered(
    echoes: Workers,
) -> None:
    asked = requests(0, 1, -9, 2, 3, -9, 4, 5, 6)
    echoes.submit(asked)
    ended = finish(echoes)
    assert len(ended) == len(asked) == len(set(ended))
    assert [request for request in asked if request.error] == [asked[2], asked[5]]
    assert firsts_of(asked) == [0, 1, 2, 3, 4, 5, 6]
    assert os.getpid() not in writers_of(asked)
    assert not echoes._deaths and not echoes.waiting
    # One alone does not end this process either.
    _, given_up = echoes.translate(requests(0, -9))
    message = r"given up.* ended with code -9 .* --workers 1"
    assert given_up.status is Status.FAILED and re.match(message, str(given_up.error))
    assert firsts_of(echoes.translate(requests(7, 8))) == [7, 8]


def test_the_work_of_a_killed_worker_is_done_by_others(echoes: Workers) -> None:
    list(echoes.translate(requests(0, 1)))
    for worker in list(echoes._workers):  # between two calls
        kill(worker)
    found = []
    for place, ended in enumerate(echoes.translate(requests(*range(40)))):
        found += firsts_of([ended])
        if place % 10 == 5:  # at work, or only one: the other may not have been replaced yet
            for worker in echoes._workers[place // 10 % 2 :][:1]:
                kill(worker)
    assert found == [*range(40)]
    list(echoes.translate(requests(1, 2, 3, 4)))
    assert len(alive(echoes)) == 2


def test_requests_of_a_dead_worker_can_be_cancelled(echoes: Workers) -> None:
    stuck = requests(-3, -3, -3, -3)
    echoes.submit(stuck)
    echoes._deal()
    kill(echoes._workers[0])
    echoes.cancel(stuck[:2])
    assert echoes.busy and not any(request.ended for request in stuck[2:])
    echoes.cancel(stuck[2:])
    assert not echoes.busy and not echoes._deaths
    assert firsts_of(echoes.translate(requests(7, 8))) == [7, 8]


def test_workers_that_die_before_they_can_work_fail_their_requests(
    echoes: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = module.Worker.send

    def die(worker: module.Worker, command: worker_process.Command) -> None:
        kill(worker)
        send(worker, command)

    monkeypatch.setattr(module.Worker, "send", die)
    for ended in echoes.translate(requests(0, 1)):
        assert ended.status is Status.FAILED and "ended with code -9" in str(ended.error)


def test_errors_and_warnings_of_a_worker_reach_the_caller(echoes: Workers) -> None:
    with pytest.warns(RuntimeWarning, match="minus two is odd"):
        list(echoes.translate(requests(0, -2, 1)))
    with pytest.raises(ConfigError, match="this engine refuses -1") as raised:
        list(echoes.translate(requests(0, -1, 1)))
    assert "In a worker process:" in raised.value.__notes__[0]
    assert not alive(echoes)


def test_an_error_that_cannot_be_pickled_is_sent_as_text() -> None:
    class Local(Exception):
        pass

    class Refusing(Echo):
        def advance(self) -> list[SentenceRequest]:
            raise Local("only here")

    commands: Any = SimpleQueue()
    commands.put(worker_process.Command(requests(1)))
    engine: Any = Refusing()
    answer = worker_process.work(engine, commands)
    assert type(answer) is RuntimeError and "Local: only here" in str(answer)


def test_workers_end_with_the_process_that_started_them(echoes: Workers) -> None:
    """Even if it is killed, because they notice that its pipe is closed."""
    list(echoes.translate(requests(1, 2)))
    processes = [worker.process for worker in echoes._workers]
    for worker in echoes._workers:
        worker.connection.close()
    for process in processes:
        process.join(timeout=10)
        assert process.exitcode == 0


def shared_pages(pid: int) -> int:
    """Bytes of shared memory without a name that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    of_model = (line.split()[0].split("-") for line in lines if "memfd:seq2seq" in line)
    return sum(int(end, 16) - int(start, 16) for start, end in of_model)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory without a name")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_workers_map_one_model_and_do_not_write_to_it(
    precision: str, are_copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_precision(small_model("transformer").float(), precision)
    if not is_native(model):
        pytest.skip("only models of the C can be sent")
    build = partial(Engine, model, Greedy())
    asked, engine = requests(*[4 + i % 9 for i in range(20)]), build()
    monkeypatch.setattr(module, "SHARE", 4)
    workers = Workers(build(), build, 2)
    try:
        found = list(translate_copies(workers, asked))
        assert found == list(translate_copies(engine, asked))
        size = sum(x.nbytes for x in model.parameters())
        if not are_copies:  # they have the memory of this process
            assert all(shared_pages(pid) >= size for pid in alive(workers))
        assert found == list(translate_copies(engine, asked))  # it was not written to
    finally:
        workers.close()
