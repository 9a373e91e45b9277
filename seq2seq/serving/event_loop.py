"""The event loop that all clients share: slow work is kept off it, its delays are measured."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

SMALL = 2000  # characters whose work, a millisecond or two, costs no more than a thread does
TICK, TICKS = 0.1, 300  # seconds between two measurements of the delay; how many are remembered

Value = TypeVar("Value")
threads = ThreadPoolExecutor(4, "requests")  # none of which waits for a disk


async def run_off_loop(size: int, work: Callable[..., Value], *given: Any, **more: Any) -> Value:
    """Call a function, in a thread if there is much to do.

    Args:
        size: Characters that the function works on.

    Returns: the value of the function.
    Raises: whatever the function raises.
    """
    if size <= SMALL:
        return work(*given, **more)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(threads, partial(work, *given, **more))


def count_waiting_calls() -> dict[str, int]:
    """Count the calls that wait for a thread, by the name of the pool, where that can be seen."""
    default = getattr(asyncio.get_running_loop(), "_default_executor", None)
    pools = {"default": default, "requests": threads}
    queues = {name: getattr(pool, "_work_queue", None) for name, pool in pools.items()}
    return {name: queue.qsize() if queue else 0 for name, queue in queues.items()}


class Lag:
    """The delay of the event loop, during which nobody is answered.

    Attributes:
        delays: Delays in seconds, of the last half minute.
    """

    def __init__(self) -> None:
        self.delays = deque([0.0], maxlen=TICKS)

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
