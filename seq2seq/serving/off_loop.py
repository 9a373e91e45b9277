"""Work that takes so long that other clients would wait for the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

SMALL = 2000  # characters that are no work: a millisecond or two, where a thread costs as much

Value = TypeVar("Value")
# None of them waits for a disk. All documents take the time of one thread at most.
threads, document_thread = ThreadPoolExecutor(4, "requests"), ThreadPoolExecutor(1, "documents")


async def run_off_loop(
    size: int, function: Callable[..., Value], *arguments: object, **options: object
) -> Value:
    """The value of a function, which is called in a thread if there is much to do.

    Args:
        size: of what it works on, in characters.

    Raises: whatever the function raises.
    """
    if size <= SMALL:
        return function(*arguments, **options)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(threads, partial(function, *arguments, **options))
