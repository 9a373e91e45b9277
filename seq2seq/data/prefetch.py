"""Make items in a thread, some ahead of the one that is used."""

import atexit
import threading
from collections.abc import Generator, Iterable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], count: int) -> Generator[T, None, None]:
    """The same items in the same order, up to `count` made ahead.

    The thread ends with the last item, or when this iterator is closed.

    Raises: what `items` raises, after the items before it.
    """
    made: SimpleQueue[T | BaseException | None] = SimpleQueue()
    room, closed = threading.Semaphore(count), threading.Event()

    def make() -> None:
        try:
            for item in items:
                made.put(item)
                room.acquire()
                if closed.is_set():
                    return
            made.put(None)
        except BaseException as error:
            made.put(error)

    def stop() -> None:
        closed.set()
        room.release()
        thread.join()

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    atexit.register(stop)  # a thread that runs when Python has ended aborts the process
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            room.release()
            yield item
    finally:
        atexit.unregister(stop)
        stop()
