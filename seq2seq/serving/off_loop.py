"""Work that takes so long that other clients would wait for the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

SMALL = 2000  # characters that are no work: a millisecond or two, where a thread costs as much

Value = TypeVar("Value")
threads = ThreadPoolExecutor(4, "requests")  # none of which waits for a disk


async def run_off_loop(size: int, work: Callable[..., Value], *given: Any, **more: Any) -> Value:
    """The value of a function, which is called in a thread if there is much to do.

    Args:
        size: of what it works on, in characters.

    Raises: whatever the function raises.
    """
    if size <= SMALL:
        return work(*given, **more)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(threads, partial(work, *given, **more))
