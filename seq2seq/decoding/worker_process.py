"""A worker process with its own engine, and its handle in the parent process."""

import gc
import io
import mmap
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, ForkServerContext
from multiprocessing.reduction import DupFd
from multiprocessing.util import register_after_fork
from typing import Any, NamedTuple

import torch

from seq2seq.base import progress
from seq2seq.base.environment import delay_interrupts, keep_memory
from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding.engine import Engine
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.search import Hypothesis
from seq2seq.decoding.stats import Stats


class Command(NamedTuple):
    """A message to a worker. The requests arrive as copies with the same ids."""

    submitted: Sequence[SentenceRequest] = ()
    cancelled: Sequence[SentenceRequest] = ()


class Reply(NamedTuple):
    """A message from a worker."""

    answers: list[tuple[int, list[Hypothesis]]]  # ids of requests, and their hypotheses
    warnings: list[tuple[str, type[Warning]]]
    stats: Stats  # counters of all its work so far


class Died(Seq2SeqError):
    """A worker process died during its work."""


class Worker:
    """The parent's handle of a process with an engine.

    Attributes:
        unanswered: requests sent to the process but not answered yet, by id.
        suspect: id of the last request that the process was given to decode alone.
    """

    def __init__(self, build: Callable[[], Engine]):
        context = choose_context()
        self.connection, theirs = context.Pipe()
        # A worker ends when no process can send to it, so workers forked later close this end.
        register_after_fork(self.connection, Connection.close)
        self.process = context.Process(target=serve_engine, args=(theirs, build), daemon=True)
        with delay_interrupts():  # Ctrl-C is for this process, which ends the others
            self.process.start()
        theirs.close()
        self.unanswered: dict[int, SentenceRequest] = {}
        self.suspect: int | None = None
        self.stats = Stats()

    def send(self, command: Command) -> None:
        for request in command.submitted:
            request.status = Status.RUNNING
            self.unanswered[request.id] = request
        for request in command.cancelled:
            self.unanswered.pop(request.id, None)
        with self._alive():
            self.connection.send(command)

    def receive(self) -> list[SentenceRequest]:
        """Wait for the next finished requests. Raises: the exception that the engine raised."""
        with self._alive():
            reply: Reply | BaseException = self.connection.recv()
        if isinstance(reply, BaseException):
            raise reply
        for message, category in reply.warnings:
            warnings.warn(message, category, stacklevel=2)
        self.stats = reply.stats
        done = []
        for request_id, hypotheses in reply.answers:
            if request := self.unanswered.pop(request_id, None):  # else it was cancelled
                request.finish(hypotheses)
                done.append(request)
        return done

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Turn a broken pipe into `Died`, with the exit code of the process."""
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


def choose_context() -> ForkContext | ForkServerContext:
    """Choose how to start processes.

    A fork is best, as the workers then share the memory of this process, including torch. But a
    fork has only one thread; if this process has more, workers are started by a server process,
    which imports torch once for all of them.

    Idle threads of native libraries do not count, since a worker computes with one thread. Nor does
    the thread that shows progress.
    """
    here = threading.current_thread().name, progress.THREAD
    is_alone = all(thread.name in here for thread in threading.enumerate())
    if is_alone and sys.platform == "linux":  # libraries of macOS do not work after a fork
        return multiprocessing.get_context("fork")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    # The server inherits the deferral of Ctrl-C. Starting the tracker would end it, so do it first.
    resource_tracker.ensure_running()
    with delay_interrupts():
        forkserver.ensure_running()
    return context


def serve_engine(connection: Connection, build: Callable[[], Engine]) -> None:
    """Run a worker: build its engine, then carry out commands until the other side closes."""
    gc.freeze()  # a collection would write to the memory that workers share, which copies it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # SIGTERM is how workers are ended
    torch.set_num_threads(1)
    keep_memory()
    engine = build()
    commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
    threading.Thread(target=receive_commands, args=(connection, commands), daemon=True).start()
    with suppress(EOFError, OSError):
        while (reply := work(engine, commands)) is not None:
            connection.send(reply)


def receive_commands(connection: Connection, commands: "queue.SimpleQueue[Command | None]") -> None:
    """Put received commands into a queue; None at the end. Receiving in a separate thread keeps the
    two sides from waiting for each other.
    """
    try:
        while True:
            commands.put(connection.recv())
    except (EOFError, OSError):
        commands.put(None)


def work(engine: Engine, commands: "queue.SimpleQueue[Command | None]") -> Reply | Exception | None:
    """Carry out commands until there are answers or an error; return None if no more will come."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ended: list[SentenceRequest] = []
            while not ended:
                while not engine.busy or not commands.empty():
                    command = commands.get()
                    if command is None:
                        return None
                    engine.submit(command.submitted)
                    engine.cancel(command.cancelled)
                ended = engine.advance()
        except Exception as error:
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
            try:
                copy: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 - of our own
                return copy
            except Exception:  # an error that cannot be pickled
                return RuntimeError("".join(traceback.format_exception(error)))
    answers = [(request.id, request.hypotheses or []) for request in ended]
    return Reply(answers, [(str(w.message), w.category) for w in caught], engine.stats)


class SharedFactory:
    """A function that builds an engine and shares one model between worker processes.

    A forked process already has everything that the function needs. For other processes, the
    function is saved to a file without a name when it is first pickled. On Linux it is in memory,
    and they map its tensors copy-on-write; elsewhere each process reads a copy of its own.
    """

    def __init__(self, build: Callable[[], Any]):
        self._build = build
        self._file: int | None = None

    def __call__(self) -> Any:
        return self._build()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is None:
            if hasattr(os, "memfd_create"):
                self._file = os.memfd_create("seq2seq")
            else:
                with tempfile.TemporaryFile() as unnamed:
                    self._file = os.dup(unnamed.fileno())
            with os.fdopen(self._file, "wb", closefd=False) as stream:
                torch.save(self._build, stream)
        return partial, (call_shared, DupFd(self._file))

    def close(self) -> None:
        """Close the file, once all processes have been started."""
        if self._file is not None:
            os.close(self._file)


def call_shared(handle: Any) -> Any:
    """Load the function that another process saved, and call it."""
    file = handle.detach()
    path = f"/proc/self/fd/{file}"
    try:
        # The file holds functions as well as tensors, but only the parent process can write it.
        if os.path.exists(path):
            return torch.load(path, mmap=True, weights_only=False)()
        with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as whole:  # processes share a position
            return torch.load(io.BytesIO(whole), weights_only=False)()
    finally:
        os.close(file)
