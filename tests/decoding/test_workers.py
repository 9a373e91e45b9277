"""Worker processes answer as one engine would, and die cleanly."""

import multiprocessing
import os
from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from echo import Echo
from helpers import small_model

from seq2seq.decoding import workers as module
from seq2seq.decoding.answering import GivenUp
from seq2seq.decoding.engine import Engine, Request
from seq2seq.decoding.engine_factory import EngineFactory
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.precision import is_native, with_precision
from seq2seq.decoding.search import Hypothesis
from seq2seq.decoding.workers import Workers
from seq2seq.errors import ConfigError, Seq2SeqError
from seq2seq.symbols import EOS


def echo(min_requests: int = 1) -> Workers:
    build: Any = Echo
    return Workers(build(), build, 2, min_requests=min_requests)


def requests(*firsts: int) -> list[Request]:
    return [Request([first, EOS]) for first in firsts]


@pytest.fixture
def echoes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Two workers that have two requests each at a time."""
    monkeypatch.setattr(module, "SHARE", 2)
    workers = echo()
    yield workers
    workers.close()


def alive(workers: Workers) -> list[int]:
    return [worker.process.pid or 0 for worker in workers._workers if worker.process.is_alive()]


def test_answers_come_in_the_order_of_the_requests(echoes: Workers) -> None:
    answers = list(echoes.translate(requests(*range(21))))
    assert [hypotheses[0].ids[0] for hypotheses in answers] == list(range(21))
    writers = {hypotheses[0].ids[-1] for hypotheses in answers}
    assert len(writers) == 2 and os.getpid() not in writers
    # They stay for the next call.
    assert {h[0].ids[-1] for h in echoes.translate(requests(*range(21)))} == writers
    assert echoes.stats.sentences == 42
    echoes.close()
    assert not alive(echoes)


def test_they_translate_as_an_engine_does_token_for_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 6)
    build = partial(Engine, small_model("transformer"), Greedy())
    sources = [torch.randint(4, 13, (i % 7 + 1,)).tolist() for i in range(40)]
    asked = [Request([*source, EOS]) for source in sources]
    workers = Workers(build(), build, 2)
    answers = list(workers.translate(asked))
    workers.close()
    for some, others in zip(answers, build().translate(asked), strict=True):
        assert [h.ids for h in some] == [h.ids for h in others]
        assert some[0].score == pytest.approx(others[0].score, abs=1e-9)


def test_no_process_is_started_for_a_few_requests() -> None:
    for min_requests, firsts in ((1, (1,)), (3, (1, 2, 3, 4, 5)), (1, ())):
        workers = echo(min_requests)
        answers = list(workers.translate(requests(*firsts)))
        assert [h[0].ids for h in answers] == [[first, EOS, os.getpid()] for first in firsts]
        assert not workers._workers


def test_what_is_read_ahead_is_bounded(echoes: Workers) -> None:
    read = count()
    endless = (Request([next(read), EOS]) for _ in count())
    answers = echoes.translate(endless, max_unanswered=20)
    assert [h[0].ids[0] for h in islice(answers, 50)] == list(range(50))
    assert next(read) <= 50 + 20
    answers.close()  # type: ignore[attr-defined]
    assert not echoes.busy
    # Their abandoned work is not taken for the answer to another call.
    assert [h[0].ids[0] for h in echoes.translate(requests(7, 8))] == [7, 8]


def test_a_cancelled_request_leaves_its_worker_at_once(echoes: Workers) -> None:
    stuck = echoes.submit_all(requests(-3, -3, -3, -3))  # all that two workers may have
    waiting = echoes.submit_all(requests(1, 2, 3))
    echoes._deal()
    assert all(len(worker.unanswered) == 2 for worker in echoes._workers)
    echoes.cancel(*stuck, waiting[1])
    answers: dict[int, list[Hypothesis]] = {}
    while echoes.busy:
        answers.update(echoes.step())
    assert {i: h[0].ids[0] for i, h in answers.items()} == {waiting[0]: 1, waiting[2]: 3}


def test_an_engine_with_given_ids_forgets_what_was_cancelled() -> None:
    engine: Any = Echo()
    renumbered = module.Renumbered(engine)
    renumbered.send(module.Command([(7, Request([1, EOS])), (5, Request([-3, EOS]))]))
    renumbered.send(module.Command([(6, Request([2, EOS]))], cancelled={5, 99}))
    assert [(i, h[0].ids[0]) for i, h in renumbered.step()] == [(7, 1), (6, 2)]
    assert not engine.busy and not renumbered._ids


def test_several_streams_of_workers_get_their_own_answers(echoes: Workers) -> None:
    streams = [echoes.translate(requests(*range(i, i + 20))) for i in (0, 100, 200)]
    single = echoes.submit(Request([7, EOS]))
    for i in range(20):
        assert [next(stream)[0].ids[0] for stream in streams] == [i, 100 + i, 200 + i]
    assert [list(stream) for stream in streams] == [[], [], []]
    answers = dict(echoes.step())
    while echoes.busy:
        answers.update(echoes.step())
    assert answers[single][0].ids[0] == 7 and len(answers) == 1


def kill(worker: module.Worker) -> None:
    worker.process.kill()
    worker.process.join()


def test_what_ends_its_workers_is_given_up_and_the_others_are_answered(echoes: Workers) -> None:
    asked = requests(0, 1, -9, 2, 3, -9, 4, 5, 6)
    ids = echoes.submit_all(asked)
    answers: dict[int, list[Hypothesis]] = {}
    given_up: set[int] = set()
    while echoes.busy:
        try:
            answers.update(echoes.step())
        except GivenUp as error:
            given_up.update(error.ids)
    assert given_up == {ids[2], ids[5]}
    assert {i: h[0].ids[0] for i, h in answers.items()} == {
        i: request.source[0] for i, request in zip(ids, asked, strict=True) if i not in given_up
    }
    assert os.getpid() not in {h[0].ids[-1] for h in answers.values()}
    assert not echoes._deaths and not echoes.waiting
    # One alone does not end this process either; a file ends with a message.
    with pytest.raises(Seq2SeqError, match="given up.* ended with code -9 .* --workers 1"):
        list(echoes.translate(requests(0, -9)))
    assert [h[0].ids[0] for h in echoes.translate(requests(7, 8))] == [7, 8]


def test_the_work_of_a_killed_worker_is_done_by_others(echoes: Workers) -> None:
    list(echoes.translate(requests(0, 1)))
    for worker in list(echoes._workers):  # between two calls
        kill(worker)
    answers = echoes.translate(requests(*range(40)))
    found = []
    for place, hypotheses in enumerate(answers):
        found.append(hypotheses[0].ids[0])
        if place % 10 == 5:  # at work
            kill(echoes._workers[place // 10 % 2])
    assert found == [*range(40)]
    list(echoes.translate(requests(1, 2, 3, 4)))
    assert len(alive(echoes)) == 2


def test_who_cancels_does_not_mind_that_a_worker_is_dead(echoes: Workers) -> None:
    stuck = echoes.submit_all(requests(-3, -3, -3, -3))
    echoes._deal()
    kill(echoes._workers[0])
    echoes.cancel(*stuck[:2])
    assert echoes.busy and sorted(echoes._recipients) == stuck[2:]
    echoes.cancel(*stuck[2:])
    assert not echoes.busy and not echoes._deaths
    assert [h[0].ids[0] for h in echoes.translate(requests(7, 8))] == [7, 8]


def test_workers_that_die_before_they_can_work_are_an_error(
    echoes: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = module.Worker.begin

    def die(worker: module.Worker, recipe: Any) -> None:
        kill(worker)
        begin(worker, recipe)

    monkeypatch.setattr(module.Worker, "begin", die)
    with pytest.raises(Seq2SeqError, match="ended with code -9"):
        list(echoes.translate(requests(0, 1)))
    assert not echoes._workers


def test_errors_and_warnings_of_a_worker_reach_the_caller(echoes: Workers) -> None:
    with pytest.warns(RuntimeWarning, match="minus two is odd"):
        list(echoes.translate(requests(0, -2, 1)))
    with pytest.raises(ConfigError, match="this engine refuses -1") as raised:
        list(echoes.translate(requests(0, -1, 1)))
    assert "In a worker process:" in raised.value.__notes__[0]
    assert not alive(echoes)


def test_an_error_that_cannot_be_pickled_is_told_in_words() -> None:
    class Local(Exception):
        pass

    class Refusing(Echo):
        def advance(self) -> None:
            raise Local("only here")

    orders: Any = SimpleQueue()
    orders.put(module.Command([(0, Request([1, EOS]))]))
    engine: Any = Refusing()
    answer = module.work(module.Renumbered(engine), orders)
    assert type(answer) is RuntimeError and "Local: only here" in str(answer)


def test_workers_end_with_the_process_that_started_them(echoes: Workers) -> None:
    """Even if it is killed: the end of its pipe is what they wait for."""
    list(echoes.translate(requests(1, 2)))
    processes = [worker.process for worker in echoes._workers]
    for worker in echoes._workers:
        worker.connection.close()
    for process in processes:
        process.join(timeout=10)
        assert process.exitcode == 0


def shared_pages(pid: int) -> int:
    """Bytes of the memory without a name that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    of_model = (line.split()[0].split("-") for line in lines if "memfd:seq2seq" in line)
    return sum(int(end, 16) - int(start, 16) for start, end in of_model)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory without a name")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_all_map_one_model_and_write_to_none(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_precision(small_model("transformer").float(), precision)
    if not is_native(model):
        pytest.skip("only models of the C can be sent")
    build = partial(Engine, model, Greedy())
    asked, engine = requests(*[4 + i % 9 for i in range(20)]), build()
    monkeypatch.setattr(module, "SHARE", 4)
    workers = Workers(build(), build, 2)
    try:
        assert list(workers.translate(asked)) == list(engine.translate(asked))
        size = sum(x.nbytes for x in model.parameters())
        assert all(shared_pages(pid) >= size for pid in alive(workers))
    finally:
        workers.close()


@pytest.mark.parametrize("shares", [False, True])
def test_a_recipe_arrives_as_it_was_sent(shares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shares:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("no memory without a name")
    ours, theirs = multiprocessing.Pipe()
    x = torch.arange(5.0)
    with EngineFactory(partial(torch.add, x, 1)) as recipe:
        for _ in range(2):
            recipe.send(ours, os.getpid())
    for _ in range(2):
        build = EngineFactory.receive(theirs)
        assert torch.equal(build(), x + 1)
        build.args[0].zero_()  # type: ignore[attr-defined]
    ours.close(), theirs.close()
