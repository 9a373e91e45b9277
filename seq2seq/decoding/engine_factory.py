"""How to build an engine, handed to worker processes which then have one model in memory together.

On Linux the model is written once into memory that has no name and no place on a disk; workers map
it, and it is gone with the last of them. Elsewhere each worker gets a copy.
"""

import os
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from types import TracebackType
from typing import Any, Self

import torch

SHARED, COPIED = b"shared", b"copied"


class EngineFactory:
    """A function that can be pickled, with the tensors that it holds.

    A process that writes to them writes to a copy of its own.
    """

    def __init__(self, build: Callable[[], Any]):
        self._file: int | None = None
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
            self._file = os.memfd_create("seq2seq")
            with os.fdopen(self._file, "wb", closefd=False) as file:
                torch.save(build, file)
        else:
            self._pickled = pickle.dumps(build)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            os.close(self._file)

    def send(self, connection: Connection, to: int | None) -> None:
        """Raises: OSError if the process with that id does not listen."""
        if self._file is None:
            connection.send_bytes(COPIED)
            connection.send_bytes(self._pickled)
        else:
            connection.send_bytes(SHARED)
            send_handle(connection, self._file, to)

    @staticmethod
    def receive(connection: Connection) -> Callable[[], Any]:
        """The function. Raises: EOFError or OSError if the other side has closed."""
        build: Callable[[], Any]
        if connection.recv_bytes() == COPIED:
            build = pickle.loads(connection.recv_bytes())
            return build
        file = recv_handle(connection)
        try:
            # It holds functions as well as tensors, and comes from the parent process alone.
            build = torch.load(f"/proc/self/fd/{file}", mmap=True, weights_only=False)
        finally:
            os.close(file)
        return build
