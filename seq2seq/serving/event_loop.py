"""The event loop that all clients share: keeping slow work off it, and measuring its delays."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

SMALL = 2000  # characters: work on them takes a millisecond or two, no more than a thread costs
TICK, TICKS = 0.1, 300  # seconds between measurements of the delay; how many are kept

Value = TypeVar("Value")
threads = ThreadPoolExecutor(4, "requests")  # for computing: none waits for a disk


async def run_off_loop(size: int, work: Callable[..., Value], *given: Any, **more: Any) -> Value:
    """Call a function, in a thread if there is much work to do.

    Args:
        size: Characters that the function works on.

    Returns: the result of the function.
    Raises: whatever the function raises.
    """
    if size <= SMALL:
        return work(*given, **more)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(threads, partial(work, *given, **more))


def count_waiting_calls() -> dict[str, int]:
    """Numbers of calls that wait for a thread, by pool; 0 where Python does not show them."""
    default = getattr(asyncio.get_running_loop(), "_default_executor", None)
    pools = {"default": default, "requests": threads}
    queues = {name: getattr(pool, "_work_queue", None) for name, pool in pools.items()}
    return {name: queue.qsize() if queue else 0 for name, queue in queues.items()}


class Lag:
    """Measures the delays of the event loop, during which nobody is answered.

    Attributes:
        delays: Delays of the last half minute, in seconds.
    """

    def __init__(self) -> None:
        self.delays = deque([0.0], maxlen=TICKS)

    async def measure(self) -> None:
        """Measure delays until the task is cancelled."""
        while True:
            due = time.monotonic() + TICK
            await asyncio.sleep(TICK)
            self.delays.append(max(0.0, time.monotonic() - due))

    @property
    def seconds(self) -> float:
        """The longest delay of the last half minute."""
        return max(self.delays)
