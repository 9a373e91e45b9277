"""How busy the process is: what an operator looks at when answers are late."""

import asyncio
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize

from seq2seq.serving.off_loop import document_thread, threads

TICK, WINDOW = 0.1, 30.0  # seconds between two looks, and of the longest delay that is shown


class Lag:
    """How late the event loop is: nobody is answered meanwhile.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock, self._begin = clock, clock()
        self._worst = self._worst_before = 0.0  # in this window, and in the one before

    async def measure(self) -> None:
        """Measure until the task is cancelled."""
        while True:
            due = self._clock() + TICK
            await asyncio.sleep(TICK)
            self.note(self._clock() - due)

    def note(self, seconds: float) -> None:
        """Note how late the loop was now."""
        if self._clock() - self._begin > WINDOW:
            self._worst_before, self._worst, self._begin = self._worst, 0.0, self._clock()
        self._worst = max(self._worst, seconds)

    @property
    def seconds(self) -> float:
        """The longest delay of the last half minute, or of up to a minute."""
        return max(self._worst, self._worst_before)


def digest(client: str) -> str:
    """A short name for a client that does not tell its key; the folders of its records begin so."""
    return hashlib.sha256(client.encode()).hexdigest()[:12]


def resident_memory() -> int:
    """Bytes of memory of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except OSError:
        return 0


def waiting_calls() -> dict[str, int]:
    """Calls that wait for a thread, by the name of the threads, as far as that can be seen."""
    default = getattr(asyncio.get_running_loop(), "_default_executor", None)
    pools = {"default": default, "requests": threads, "documents": document_thread}
    queues = {name: getattr(pool, "_work_queue", None) for name, pool in pools.items()}
    return {name: queue.qsize() if queue else 0 for name, queue in queues.items()}
