"""Load of the process: what an operator looks at when answers are late."""

import asyncio
import hashlib
import time
from collections import deque
from pathlib import Path
from resource import getpagesize

from seq2seq.serving.off_loop import threads

TICK, LOOKS = 0.1, 300  # seconds between two looks, and how many looks are remembered


class Lag:
    """Delay of the event loop, during which nobody is answered.

    Attributes:
        delays: in seconds, of the last half minute.
    """

    def __init__(self) -> None:
        self.delays = deque([0.0], maxlen=LOOKS)

    async def measure(self) -> None:
        """Measure until the task is cancelled."""
        while True:
            due = time.monotonic() + TICK
            await asyncio.sleep(TICK)
            self.delays.append(max(0.0, time.monotonic() - due))

    @property
    def seconds(self) -> float:
        """The longest delay of the last half minute."""
        return max(self.delays)


def client_digest(client: str) -> str:
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
    pools = {"default": default, "requests": threads}
    queues = {name: getattr(pool, "_work_queue", None) for name, pool in pools.items()}
    return {name: queue.qsize() if queue else 0 for name, queue in queues.items()}
