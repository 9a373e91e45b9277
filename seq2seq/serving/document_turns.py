"""The documents being translated: how many are allowed, and whose turn it is."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

from seq2seq.base.errors import format_count
from seq2seq.serving.errors import HTTPError, retrieve_error
from seq2seq.serving.event_loop import Value

AT_ONCE = 4  # documents that a client may have
TOGETHER = 32  # documents that all clients may have; beyond half of them, a client may have one


class DocumentTurns:
    """Counts the documents of each client, and lets one document at a time be read or written.

    Attributes:
        count: Number of documents of each client.
        waiting: Number of documents of each client that wait to be read or written.
        tasks: Tasks working on documents.
        unsaved: Ids of documents that ended, but whose end could not be saved.
    """

    def __init__(self) -> None:
        self.count, self.waiting = Counter[str](), Counter[str]()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.unsaved: set[str] = set()
        self._one = asyncio.Lock()
        self._one_of_client: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def counts(self, client: str) -> dict[str, int]:
        """Numbers of a client's documents: being worked on, and waiting to be read or written."""
        waiting = self.waiting[client]
        return {"working": self.count[client] - waiting, "waiting": waiting}

    @contextmanager
    def admit(self, client: str) -> Iterator[None]:
        """Context that counts one more document. Raises: HTTPError if there are too many."""
        total, own = self.count.total(), self.count[client]
        limit = AT_ONCE if total < TOGETHER // 2 else 1
        if own >= limit or total >= TOGETHER:
            raise HTTPError(
                429,
                f"you have {format_count(own, 'document')} in progress, and may have {limit} now; "
                f"all clients have {total} of {TOGETHER} documents: wait until one is finished",
                {"retry-after": "10"},
            )
        self.count[client] += 1
        try:
            yield
        finally:
            self.count -= Counter({client: 1})  # a client without documents leaves no trace
            if not self.count[client]:
                self._one_of_client.pop(client, None)

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait until this client may have a document read or written. Clients take turns, so each
        waits for at most one document of every other client.
        """
        self.waiting[client] += 1
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._one_of_client[client])
                await stack.enter_async_context(self._one)
            finally:
                self.waiting -= Counter({client: 1})
            yield

    def run(self, work: Coroutine[Any, Any, Value]) -> "asyncio.Task[Value]":
        """Start some work on a document, which `finish` will wait for."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(retrieve_error)
        return task

    async def finish(self, seconds: float) -> int:
        """Wait until all documents are finished; cancel those that are not finished in time.

        Returns: the number of cancelled documents.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # A document that has been read has no task for a moment.
                while self.tasks or self.count:
                    await asyncio.sleep(0.02)
        late = list(self.tasks)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)
