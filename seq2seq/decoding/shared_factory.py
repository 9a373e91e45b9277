"""A function that builds an engine, for worker processes, which then have one model in memory
together.

A copy of this process has what it needs. For others it is written once into memory that has no name
and no place on a disk; they map it, and it is gone with the last of them. This is for Linux: other
systems have no such memory.
"""

import os
from collections.abc import Callable
from functools import partial
from multiprocessing.reduction import DupFd
from typing import Any

import torch


class SharedFactory:
    """Calls a function. Pickled for a new process, it becomes one that calls a copy of it, whose
    tensors lie in memory that all these processes map; one that writes to them writes to its own.
    """

    def __init__(self, build: Callable[[], Any]):
        self._build = build
        self._file: int | None = None

    def __call__(self) -> Any:
        return self._build()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is None:
            self._file = os.memfd_create("seq2seq")
            with os.fdopen(self._file, "wb", closefd=False) as stream:
                torch.save(self._build, stream)
        return partial, (call_shared, DupFd(self._file))

    def close(self) -> None:
        """Call it when all processes have been started."""
        if self._file is not None:
            os.close(self._file)


def call_shared(handle: Any) -> Any:
    """Call the function of a file that another process has written."""
    file = handle.detach()
    try:
        # It holds functions as well as tensors, and comes from the parent process alone.
        build = torch.load(f"/proc/self/fd/{file}", mmap=True, weights_only=False)
    finally:
        os.close(file)
    return build()
