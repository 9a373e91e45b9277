"""Translate with several processes in parallel, with one thread each, to use several CPU cores.

The matrices of one decoding step are too small to split between threads, so sentences are split.
"""

import itertools
import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from multiprocessing.connection import Connection, wait

from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding.engine import DROPPED, Engine
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.decoding.stats import Stats
from seq2seq.decoding.worker_process import Command, Died, SharedFactory, Worker

SHARE = 512  # maximum unanswered requests of a worker
DEATHS = 3  # deaths of workers with the same request, after which it fails


class Workers(SentenceEngine):
    """Up to `count` engines, each in its own process, with the interface of one engine.

    Processes are started once there is work for two, and run until `close`. They are usually forked
    from this process. If it has several threads, which a fork would lose, they are forked from a
    server process, which takes about as long to start as importing torch. A program that uses
    `Workers` must therefore keep its top-level code under `if __name__ == "__main__":`. Requests
    are dealt to the workers in turn, since all take about the same time.

    When a process dies, it is replaced, and its requests are queued again. If two processes have
    died with the same request, it is decoded alone, and fails if that process dies, too. In this
    way, a request that kills processes is identified.

    Args:
        engine: local engine, used when starting processes is not worth it.
        build: function that makes an engine in each process; it must be picklable.
        count: maximum number of processes.
        min_requests: number of requests per process that makes starting it worthwhile.

    `advance` raises the exceptions of the engines; all processes then end, and all requests fail.
    """

    def __init__(
        self, engine: Engine, build: Callable[[], Engine], count: int, *, min_requests: int = 1
    ):
        self.engine, self.build, self.model = engine, build, engine.model
        self.count, self.min_requests = count, min_requests
        self.shortlist = engine.shortlist
        self.window, self.max_rows = 2 * SHARE * count, engine.max_rows * count
        self._draw_ids = itertools.count()
        self._backlog: deque[SentenceRequest] = deque()
        self._suspects: deque[SentenceRequest] = deque()  # to be decoded alone
        self._deaths: Counter[int] = Counter()  # deaths of workers, by request id
        self._failed: list[SentenceRequest] = []  # for the next `advance`
        self._workers: list[Worker] = []
        self._woken, self._waker = multiprocessing.Pipe(duplex=False)
        self._wakes = False  # True if the pipe, which has little room, holds a message

    @property
    def stats(self) -> Stats:
        """The summed work of the local engine and of the current workers."""
        return sum((worker.stats for worker in self._workers), self.engine.stats)

    @property
    def active_rows(self) -> int:
        """The number of hypotheses that are decoded now, or wait in a worker."""
        given = sum(len(worker.unanswered) for worker in list(self._workers))
        return self.engine.active_rows + given * self.engine.search.beams

    @property
    def pages(self) -> int:
        """Pages in use now in this process."""
        return self.engine.pages

    @property
    def busy(self) -> bool:
        at_work = any(worker.unanswered for worker in self._workers)
        return bool(self.waiting or at_work or self._failed or self.engine.busy)

    @property
    def waiting(self) -> bool:
        return bool(self._backlog or self._suspects)

    def check(self, request: SentenceRequest) -> None:
        self.engine.check(request)

    def submit(self, requests: Sequence[SentenceRequest]) -> None:
        for request, number in zip(requests, self._draw_ids, strict=False):
            # Draws depend on the request, not on the worker that gets it.
            request.draw_id = number if request.draw_id is None else request.draw_id
        self._backlog.extend(sorted(requests, key=lambda request: -len(request.source)))

    def cancel(self, requests: Iterable[SentenceRequest]) -> None:
        dropped = {request.id: request for request in requests if not request.ended}
        if not dropped:
            return
        self.engine.cancel(dropped.values())
        for request in dropped.values():
            request.status = Status.CANCELLED
            self._deaths.pop(request.id, None)
        self._backlog = deque(each for each in self._backlog if not each.ended)
        self._suspects = deque(each for each in self._suspects if not each.ended)
        for worker in list(self._workers):
            if theirs := [dropped[i] for i in worker.unanswered if i in dropped]:
                self._send(worker, Command(cancelled=theirs))

    def advance(self) -> list[SentenceRequest]:
        """Deal requests out and wait for answers, if there is work."""
        try:
            if self.waiting:
                self._deal()
            ended = self.engine.advance() if self.engine.busy else []
            if self._workers:
                ended += self._receive(wait_for_one=not self.engine.busy)
        except BaseException:
            self.close()
            raise
        ended += self._failed
        self._failed = []
        return ended

    def wake(self) -> None:
        if not self._wakes:
            self._wakes = True
            self._waker.send_bytes(b"!")

    def close(self) -> None:
        """End the processes and fail all requests. The processes also end when this one does."""
        failed = [*self._backlog, *self._suspects]
        for worker in self._workers:
            worker.end()
            failed += worker.unanswered.values()
        for each in (self._workers, self._backlog, self._suspects, self._deaths):
            each.clear()
        for request in failed:
            request.fail(Seq2SeqError(DROPPED))

    def _send(self, worker: Worker, command: Command) -> None:
        try:
            worker.send(command)
        except Died as error:
            self._requeue(worker, error)

    def _requeue(self, worker: Worker, error: Died) -> None:
        """Requeue the requests of a dead process; fail those that have killed too many."""
        self._workers.remove(worker)
        worker.end()
        for request in worker.unanswered.values():
            self._deaths[request.id] += 1
            request.status = Status.QUEUED
            if self._deaths[request.id] < DEATHS - 1:
                self._backlog.appendleft(request)
            elif self._deaths[request.id] < DEATHS:
                self._suspects.append(request)
            else:
                del self._deaths[request.id]
                request.fail(Seq2SeqError(f"given up after {DEATHS} attempts: {error}"))
                self._failed.append(request)

    def _deal(self) -> None:
        """Give each worker as many requests as it may have; or, if there are too few to start
        processes, give all of them to the local engine.
        """
        wanted = min(self.count, len(self._backlog) // self.min_requests)
        if self._deaths:  # a request that killed a worker must not kill this process
            wanted = self.count
        if wanted < 2 and not self._workers:
            self.engine.submit(list(self._backlog))
            self._backlog.clear()
            return
        self._start(wanted)
        workers = self._without_suspects() if self._deaths else self._workers
        portions: dict[Worker, list[SentenceRequest]] = {worker: [] for worker in workers}
        rounds = ((n, worker) for n in range(SHARE) for worker in workers)
        turns = (worker for n, worker in rounds if len(worker.unanswered) + n < SHARE)
        for worker in itertools.islice(turns, len(self._backlog)):
            portions[worker].append(self._backlog.popleft())
        for worker, portion in portions.items():
            if portion:
                self._send(worker, Command(portion))

    def _without_suspects(self) -> list[Worker]:
        """The workers for ordinary requests. One worker gets suspects, one at a time."""
        busy = [worker for worker in self._workers if worker.suspect in worker.unanswered]
        if not busy and not self._suspects:
            return self._workers
        theirs = (busy or self._workers)[0]
        if self._suspects and not theirs.unanswered:
            suspect = self._suspects.popleft()
            theirs.suspect = suspect.id
            self._send(theirs, Command([suspect]))
        return [worker for worker in self._workers if worker is not theirs]

    def _start(self, wanted: int) -> None:
        with closing(SharedFactory(self.build)) as build:
            while len(self._workers) < wanted:
                self._workers.append(Worker(build))

    def _receive(self, wait_for_one: bool) -> list[SentenceRequest]:
        """The requests that workers have finished.

        Args:
            wait_for_one: True to wait until a worker has finished at least one.
        """
        at_work = {worker.connection: worker for worker in self._workers if worker.unanswered}
        done: list[SentenceRequest] = []
        if not at_work:
            return done
        for connection in wait([self._woken, *at_work], None if wait_for_one else 0):
            assert isinstance(connection, Connection)
            if connection is self._woken:
                connection.recv_bytes()
                self._wakes = False
                continue
            try:
                done += at_work[connection].receive()
            except Died as error:
                self._requeue(at_work[connection], error)
        for request in done:
            self._deaths.pop(request.id, None)
        return done
