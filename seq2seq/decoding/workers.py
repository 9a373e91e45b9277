"""Processes that translate in parallel, one thread each: the way to use several CPU cores.

The matrices of one decoding step are too small to split between threads; sentences are not.
"""

import gc
import multiprocessing
import pickle
import queue
import threading
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import torch

from seq2seq.decoding.answering import GivenUp
from seq2seq.decoding.engine import Engine, Request, SentenceEngine
from seq2seq.decoding.engine_factory import EngineFactory
from seq2seq.decoding.search import Hypothesis
from seq2seq.decoding.stats import Stats
from seq2seq.environment import delay_interrupts, keep_memory
from seq2seq.errors import Seq2SeqError
from seq2seq.models import Seq2Seq

SHARE = 512  # maximum requests that a worker has not answered
DEATHS = 3  # of workers with one request, after which it is given up


class Command(NamedTuple):
    """What a worker is sent."""

    submitted: Sequence[tuple[int, Request]] = ()
    cancelled: Collection[int] = ()


class Report(NamedTuple):
    """What a worker sends back."""

    answers: list[tuple[int, list[Hypothesis]]]
    warnings: list[tuple[str, type[Warning]]]
    stats: Stats  # of all its work so far


class Renumbered:
    """An engine whose requests have the ids that orders give them."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._ids: dict[int, int] = {}  # the engine's -> those of the orders

    def send(self, order: Command) -> None:
        mine = self.engine.submit_all([request for _, request in order.submitted])
        self._ids.update(zip(mine, (i for i, _ in order.submitted), strict=True))
        dropped = [i for i, given in self._ids.items() if given in order.cancelled]
        self.engine.cancel(*dropped)
        for i in dropped:
            del self._ids[i]

    def step(self) -> list[tuple[int, list[Hypothesis]]]:
        return [(self._ids.pop(i), hypotheses) for i, hypotheses in self.engine.step()]


class Died(Seq2SeqError):
    """A worker process has ended during its work."""


class Worker:
    """A process with an engine, as this process sees it.

    Attributes:
        unanswered: requests that it was sent, by id.
        alone: a request that it works on without any other.
    """

    def __init__(self, context: BaseContext):
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=serve_engine, args=(theirs,), daemon=True
        )
        self.process.start()
        theirs.close()
        self.unanswered: dict[int, Request] = {}
        self.alone: int | None = None
        self.stats = Stats()

    def begin(self, recipe: "EngineFactory") -> None:
        """Send how to build the engine. Raises: Died, as below."""
        with self._alive():
            recipe.send(self.connection, self.process.pid)

    def send(self, order: Command) -> None:
        self.unanswered.update(order.submitted)
        self._forget(order.cancelled)
        with self._alive():
            self.connection.send(order)

    def receive(self) -> list[tuple[int, list[Hypothesis]]]:
        """Wait for the next answers. Raises: whatever the engine raised."""
        with self._alive():
            report: Report | BaseException = self.connection.recv()
        if isinstance(report, BaseException):
            raise report
        for message, category in report.warnings:
            warnings.warn(message, category, stacklevel=2)
        self.stats = report.stats
        self._forget([i for i, _ in report.answers])
        return report.answers

    def _forget(self, ids: Collection[int]) -> None:
        for i in ids:
            self.unanswered.pop(i, None)

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """A broken pipe means that the process has ended: say how."""
        try:
            yield
        except (EOFError, OSError) as error:
            self.process.join(timeout=10)
            raise Died(
                f"a worker process ended with code {self.process.exitcode} during its work. -9 "
                "means that it was killed, usually because memory ran out: use fewer workers, or "
                "--workers 1, which starts no process"
            ) from error

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


class Workers(SentenceEngine):
    """Up to `count` engines, each in its own process, with the interface of one engine.

    Processes are started when there is work for two, and stay until `close`. Starting them takes
    about as long as importing torch. They are forked from a server process, not from this one,
    whose threads a copy would lack; so a program that uses them keeps its top-level code under
    `if __name__ == "__main__":`. Requests are dealt in turn, so that all take about the same time.

    When a process dies, others try again what it was working on, and another is started in its
    place. A request whose processes have died twice is alone in the next one, and given up when
    that dies, too: what it harms is then known.

    Args:
        engine: of this process, which does the work when starting others is not worth it.
        build: makes an engine in each process; a function that can be pickled.
        count: maximum number of processes.
        min_requests: requests per process that make starting it worth it.

    All methods raise whatever an engine raises; then all processes end, and nothing that they were
    working on is answered.
    """

    def __init__(
        self, engine: Engine, build: Callable[[], Engine], count: int, *, min_requests: int = 1
    ):
        super().__init__()
        self.engine, self.build = engine, build
        self.count = count
        self.min_requests = min_requests
        self.look_ahead = 2 * SHARE * count
        self._backlog: deque[tuple[int, Request]] = deque()
        self._suspects: deque[tuple[int, Request]] = deque()  # which must be alone
        self._deaths: Counter[int] = Counter()  # of workers, by request
        self._death: Died  # the last one
        self._workers: list[Worker] = []
        self._here = Renumbered(engine)
        self._woken, self._waker = multiprocessing.Pipe(duplex=False)
        self._wakes = False  # is something in that pipe, which has little room?

    @property
    def model(self) -> Seq2Seq:
        """That of this process's engine."""
        return self.engine.model

    @property
    def stats(self) -> Stats:
        """The work of this process's engine and those of the current workers."""
        return sum((worker.stats for worker in self._workers), self.engine.stats)

    @property
    def active_rows(self) -> int:
        """Hypotheses that are decoded now, or wait in a process for others."""
        given = sum(len(worker.unanswered) for worker in list(self._workers))
        return self.engine.active_rows + given * self.engine.search.beams

    @property
    def pages(self) -> int:
        """Pages in use now in this process."""
        return self.engine.pages

    @property
    def max_rows(self) -> int:
        return self.engine.max_rows * self.count

    @property
    def waiting(self) -> bool:
        return bool(self._backlog or self._suspects)

    def check(self, request: Request) -> None:
        self.engine.check(request)

    def submit_all(
        self, items: Sequence[Request], answers: dict[int, list[Hypothesis]] | None = None
    ) -> list[int]:
        for request in items:
            self.check(request)
        ids = [self.expect(answers) for _ in items]
        pairs = zip(ids, items, strict=True)
        # Draws depend on the request, not on the worker that gets it.
        numbered = [(i, r if r.draw_id is not None else r._replace(draw_id=i)) for i, r in pairs]
        self._backlog.extend(sorted(numbered, key=lambda pair: -len(pair[1].source)))
        return ids

    def cancel(self, *ids: int) -> None:
        super().cancel(*ids)
        dropped = set(ids)
        self._backlog = deque(pair for pair in self._backlog if pair[0] not in dropped)
        self._suspects = deque(pair for pair in self._suspects if pair[0] not in dropped)
        for i in self._deaths.keys() & dropped:
            del self._deaths[i]
        self._here.send(Command(cancelled=dropped))
        with self._whole():
            for worker in list(self._workers):
                if theirs := dropped & worker.unanswered.keys():
                    self._send(worker, Command(cancelled=theirs))

    def advance(self) -> None:
        """Deal requests out, and wait for answers, if there is work."""
        with self._whole():
            if self.waiting:
                self._deal()
            if self.engine.busy:
                for request_id, hypotheses in self._here.step():
                    self.answer(request_id, hypotheses)
            self._receive(wait_for_one=not self.engine.busy)
        if hopeless := [i for i, deaths in self._deaths.items() if deaths >= DEATHS]:
            self.cancel(*hopeless)
            message = f"given up, since it ended {DEATHS} of them: {self._death}"
            raise GivenUp(message, hopeless)

    def wake(self) -> None:
        if not self._wakes:
            self._wakes = True
            self._waker.send_bytes(b"!")

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """If an error is raised inside, all processes end."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes, and drop their work. They also end with this one, however it ends."""
        while self._workers:
            worker = self._workers.pop()
            worker.end()
            self.cancel(*worker.unanswered)

    def _send(self, worker: Worker, order: Command) -> None:
        try:
            worker.send(order)
        except Died as error:
            self._bury(worker, error)

    def _bury(self, worker: Worker, error: Died) -> None:
        """Let others try again what a worker that has died was working on."""
        self._workers.remove(worker)
        worker.end()
        self._death = error
        for request in worker.unanswered.items():
            self._deaths[request[0]] += 1
            if self._deaths[request[0]] < DEATHS - 1:
                self._backlog.appendleft(request)
            else:
                self._suspects.append(request)

    def _deal(self) -> None:
        """Give each worker as many requests as it may have, or all to the engine of this process
        if they are too few to start any.
        """
        wanted = min(self.count, len(self._backlog) // self.min_requests)
        if self._deaths:  # what ended a worker must not end this process
            wanted = self.count
        if wanted < 2 and not self._workers:
            self._here.send(Command(list(self._backlog)))
            self._backlog.clear()
            return
        self._start(wanted)
        workers = self._without_suspects() if self._deaths else self._workers
        orders: dict[Worker, list[tuple[int, Request]]] = {worker: [] for worker in workers}
        rounds = ((n, worker) for n in range(SHARE) for worker in workers)
        turns = (worker for n, worker in rounds if len(worker.unanswered) + n < SHARE)
        for worker in islice(turns, len(self._backlog)):
            orders[worker].append(self._backlog.popleft())
        for worker, order in orders.items():
            if order:
                self._send(worker, Command(order))

    def _without_suspects(self) -> list[Worker]:
        """The workers for all other requests: one of them works on suspects, one at a time."""
        busy = [worker for worker in self._workers if worker.alone in worker.unanswered]
        if not busy and not self._suspects:
            return self._workers
        theirs = (busy or self._workers)[0]
        if self._suspects and not theirs.unanswered:
            suspect = self._suspects.popleft()
            theirs.alone = suspect[0]
            self._send(theirs, Command([suspect]))
        return [worker for worker in self._workers if worker is not theirs]

    def _start(self, wanted: int) -> None:
        if len(self._workers) >= wanted:
            return
        context = server()
        started = [Worker(context) for _ in range(wanted - len(self._workers))]
        self._workers += started
        with EngineFactory(self.build) as recipe:
            for worker in started:
                try:
                    worker.begin(recipe)
                except Died as error:
                    self._bury(worker, error)
        if not self._workers:
            raise self._death

    def _receive(self, wait_for_one: bool) -> None:
        """Read what workers have answered; wait for the first answer, if any is at work."""
        at_work = {worker.connection: worker for worker in self._workers if worker.unanswered}
        if not at_work:
            return
        for connection in wait([self._woken, *at_work], None if wait_for_one else 0):
            assert isinstance(connection, Connection)
            if connection is self._woken:
                connection.recv_bytes()
                self._wakes = False
                continue
            try:
                answers = at_work[connection].receive()
            except Died as error:
                self._bury(at_work[connection], error)
                continue
            for request_id, hypotheses in answers:
                self._deaths.pop(request_id, None)
                self.answer(request_id, hypotheses)


def server() -> BaseContext:
    """The context that starts processes: a server that has imported torch once for all of them."""
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    # Ctrl-C is for this process, which ends the others: they inherit that it is deferred. The
    # tracker starts first, because its start would end the deferral.
    resource_tracker.ensure_running()
    with delay_interrupts():
        forkserver.ensure_running()
    return context


def serve_engine(connection: Connection) -> None:
    """A worker: receives how to build its engine, then orders until the other side closes."""
    gc.freeze()  # a collection would write to, and so copy, all objects that workers share
    torch.set_num_threads(1)
    keep_memory()
    try:
        here = Renumbered(EngineFactory.receive(connection)())
        orders: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        threading.Thread(target=receive_orders, args=(connection, orders), daemon=True).start()
        while (report := work(here, orders)) is not None:
            connection.send(report)
    except (EOFError, OSError):
        return


def receive_orders(connection: Connection, orders: "queue.SimpleQueue[Command | None]") -> None:
    """Always ready to receive, so that neither side waits for the other to read; None at the
    end.
    """
    try:
        while True:
            orders.put(connection.recv())
    except (EOFError, OSError):
        orders.put(None)


def work(
    here: Renumbered, orders: "queue.SimpleQueue[Command | None]"
) -> Report | Exception | None:
    """Carry out orders until there are answers, or an error. None if no more orders will come."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answers: list[tuple[int, list[Hypothesis]]] = []
            while not answers:
                while not here.engine.busy or not orders.empty():
                    order = orders.get()
                    if order is None:
                        return None
                    here.send(order)
                answers = here.step()
        except Exception as error:
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
            try:
                copy: Exception = pickle.loads(pickle.dumps(error))
                return copy
            except Exception:  # an error that cannot be pickled
                return RuntimeError("".join(traceback.format_exception(error)))
    return Report(answers, [(str(w.message), w.category) for w in caught], here.engine.stats)
