"""Processes that translate in parallel, one thread each: the way to use several CPU cores.

The matrices of one decoding step are too small to split between threads; sentences are not.
"""

import multiprocessing
import pickle
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import torch

from seq2seq.decoding.engine import Engine, Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.decoding.stats import Stats
from seq2seq.environment import keep_memory, uninterrupted
from seq2seq.errors import Seq2SeqError

SHARE = 512  # requests of a window for each worker
WINDOWS = 2  # read ahead, so that a worker that has finished one finds work in the next


class Answer(NamedTuple):
    """What a worker sends back."""

    hypotheses: list[list[Hypothesis]]
    warnings: list[tuple[str, type[Warning]]]
    stats: Stats  # of all its work so far


class Window:
    """Requests that were read together, and the answers as they come in."""

    def __init__(self, requests: list[Request]):
        self.requests = requests
        self.answers: list[list[Hypothesis]] = [[] for _ in requests]
        self.missing = len(requests)

    def shares(self, count: int) -> list[list[int]]:
        """Indices of the requests of each share: dealt in turn, longest first, so that all shares
        take about the same time.
        """
        order = sorted(range(len(self.requests)), key=lambda i: -len(self.requests[i].source))
        return [share for share in (order[i::count] for i in range(count)) if share]

    def put(self, share: list[int], hypotheses: list[list[Hypothesis]]) -> None:
        for i, of_request in zip(share, hypotheses, strict=True):
            self.answers[i] = of_request
        self.missing -= len(share)


class Worker:
    """A process with an engine, and its current task."""

    def __init__(self, context: BaseContext):
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(theirs,), daemon=True
        )
        self.process.start()
        theirs.close()
        self.task: tuple[Window, list[int]] | None = None
        self.stats = Stats()

    def begin(self, recipe: bytes) -> None:
        """Send how to build the engine. Raises: Seq2SeqError if the process has died, as below."""
        with self._alive():
            self.connection.send_bytes(recipe)

    def send(self, window: Window, share: list[int]) -> None:
        self.task = window, share
        with self._alive():
            self.connection.send([window.requests[i] for i in share])

    def receive(self) -> None:
        """Wait for the answer and store it in its window. Raises: whatever the engine raised."""
        assert self.task is not None
        with self._alive():
            answer = self.connection.recv()
        if isinstance(answer, BaseException):
            raise answer
        for message, category in answer.warnings:
            warnings.warn(message, category, stacklevel=2)
        self.stats = answer.stats
        window, share = self.task
        window.put(share, answer.hypotheses)
        self.task = None

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """A broken pipe means that the process has ended: say how."""
        try:
            yield
        except (EOFError, OSError) as error:
            self.process.join(timeout=10)
            raise Seq2SeqError(
                f"a worker process ended with code {self.process.exitcode} during its work. -9 "
                "means that it was killed, usually because memory ran out: use fewer workers, or "
                "--workers 1, which starts no process"
            ) from error

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


class Workers:
    """Up to `count` engines, each in its own process, with the interface of one engine.

    Processes are started when there is work for two, and stay for the next call. Starting them
    takes about as long as importing torch. They are forked from a server process, not from this
    one, whose threads a copy would lack; so a program that uses them keeps its top-level code under
    `if __name__ == "__main__":`.

    Args:
        build: makes an engine, here and in each process; a function that can be pickled. The engine
            of this process does the work when starting others is not worth it.
        count: maximum number of processes.
        min_requests: requests per process that make starting it worth it.
    """

    def __init__(self, build: Callable[[], Engine], count: int, *, min_requests: int = 1):
        self.build = build
        self.engine = build()
        self.count = count
        self.min_requests = min_requests
        self._workers: list[Worker] = []

    @property
    def stats(self) -> Stats:
        """The work of this process's engine and those of the current workers."""
        return sum((worker.stats for worker in self._workers), self.engine.stats)

    def translate(self, requests: Iterable[Request]) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, best first, in the order of the requests.

        At most `WINDOWS` windows of `SHARE` requests per worker are read ahead.

        Raises: Seq2SeqError if a worker was killed, and whatever the engine raises.
        """
        requests = iter(requests)
        first = list(islice(requests, SHARE * self.count))
        wanted = min(self.count, len(first) // self.min_requests)
        if wanted < 2:
            yield from self.engine.translate(chain(first, requests))
            return
        try:
            self._start(wanted)
            yield from self._translate(first, requests)
        except BaseException:  # also if the caller stops iterating: nobody will read the results
            self.close()
            raise

    def close(self) -> None:
        """End the processes. They also end with this one, however it ends."""
        while self._workers:
            self._workers.pop().end()

    def _start(self, wanted: int) -> None:
        if len(self._workers) >= wanted:
            return
        recipe = pickle.dumps(self.build)
        context = server()
        old = len(self._workers)
        while len(self._workers) < wanted:
            self._workers.append(Worker(context))
        for worker in self._workers[old:]:
            worker.begin(recipe)

    def _translate(
        self, first: list[Request], requests: Iterator[Request]
    ) -> Iterator[list[Hypothesis]]:
        windows = deque([Window(first)])
        tasks = deque((windows[0], share) for share in windows[0].shares(len(self._workers)))
        while windows:
            for worker in self._workers:
                if worker.task is None and tasks:
                    worker.send(*tasks.popleft())
            if not windows[0].missing:
                yield from windows.popleft().answers
            read = list(islice(requests, SHARE * self.count)) if len(windows) < WINDOWS else []
            if read:
                windows.append(Window(read))
                shares = windows[-1].shares(len(self._workers))
                tasks.extend((windows[-1], share) for share in shares)
            else:
                self._receive()

    def _receive(self) -> None:
        """Wait until a worker has an answer, if any is at work."""
        busy = {worker.connection: worker for worker in self._workers if worker.task}
        for connection in wait(busy) if busy else []:
            assert isinstance(connection, Connection)
            busy[connection].receive()


def server() -> BaseContext:
    """The context that starts processes: a server that has imported torch once for all of them."""
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    # Ctrl-C is for this process, which ends the others: they inherit that it is deferred. The
    # tracker starts first, because its start would end the deferral.
    resource_tracker.ensure_running()
    with uninterrupted():
        forkserver.ensure_running()
    return context


def serve(connection: Connection) -> None:
    """The loop of a worker: receives how to build its engine, then requests until the other side
    closes.
    """
    torch.set_num_threads(1)
    keep_memory()
    try:
        engine = pickle.loads(connection.recv_bytes())()
        while True:
            connection.send(answer(engine, connection.recv()))
    except (EOFError, OSError):
        return


def answer(engine: Engine, requests: list[Request]) -> Answer | Exception:
    """The answer to the requests, or the error that was raised instead."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            hypotheses = list(engine.translate(requests))
        except Exception as error:
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
            try:
                return pickle.loads(pickle.dumps(error))
            except Exception:  # an error that cannot be pickled
                return RuntimeError("".join(traceback.format_exception(error)))
    return Answer(hypotheses, [(str(w.message), w.category) for w in caught], engine.stats)
