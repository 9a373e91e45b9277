"""A function that builds an engine, handed to worker processes, which then have one model in memory
together.

It is written once into memory that has no name and no place on a disk. Workers map it, and it is
gone with the last of them. This is for Linux: other systems have no such memory.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

import torch


@contextmanager
def share_factory(build: Callable[[], Any]) -> Iterator[int]:
    """A file with a function that can be pickled, and with the tensors that it holds; to be sent by
    `multiprocessing.reduction.send_handle`.
    """
    file = os.memfd_create("seq2seq")
    try:
        with os.fdopen(file, "wb", closefd=False) as stream:
            torch.save(build, stream)
        yield file
    finally:
        os.close(file)


def receive_factory(connection: Connection) -> Callable[[], Any]:
    """The function. A process that writes to its tensors writes to a copy of its own.

    Raises: EOFError or OSError if the other side has closed.
    """
    file = recv_handle(connection)
    try:
        # It holds functions as well as tensors, and comes from the parent process alone.
        build: Callable[[], Any] = torch.load(
            f"/proc/self/fd/{file}", mmap=True, weights_only=False
        )
    finally:
        os.close(file)
    return build
