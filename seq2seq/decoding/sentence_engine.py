"""The interface of engines: requests are submitted now and end later, in any order."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from seq2seq.decoding.request import Request, SentenceRequest
from seq2seq.decoding.shortlist import Shortlist

R = TypeVar("R", bound=Request)

MAX_SIZE = 2**20  # characters of the requests that `translate` submits together
MAX_UNANSWERED = 2**16  # requests of a stream that wait for the first of them to end


class RequestEngine(ABC, Generic[R]):
    """Works on the requests of any number of callers, each of which reads its own results.

    There are two ways to use an engine. For a file, call `translate`. A server submits each request
    when it arrives, calls `advance` as long as the engine is `busy`, and calls `cancel` when a
    request is no longer wanted. Both ways can be mixed, and several streams can be read in turn.

    Attributes:
        window: number of requests that `translate` reads and submits together.
    """

    window: int

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True if `advance` has work to do."""

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """True if there is a request that has not been started."""

    @abstractmethod
    def submit(self, requests: Sequence[R]) -> None:
        """Put requests at the end of the queue, in an order that is fast to decode."""

    @abstractmethod
    def cancel(self, requests: Iterable[R]) -> None:
        """Drop requests that have not ended, and free their memory at once."""

    @abstractmethod
    def advance(self) -> list[R]:
        """Do a little work for all callers: one decoder step, if the decoder is in this process.

        Returns: the requests that are now done or failed. If this raises an error, such as running
            out of memory, all requests have failed.
        """

    def translate(
        self,
        requests: Iterable[R],
        *,
        ready: Callable[[], bool] = lambda: True,
        max_unanswered: int = MAX_UNANSWERED,
    ) -> Iterator[R]:
        """Yield each request when it has ended, in order. Requests are read as they are needed.

        When the caller stops iterating, requests that were read but have not ended are dropped.

        Args:
            requests: requests that are not submitted yet.
            ready: function that is True if another request, or the end, can be read without
                waiting. If not, the requests read so far are answered first.
            max_unanswered: maximum requests that are read before the first of them has ended.
        """
        source = iter(requests)
        order: deque[R] = deque()  # not yielded yet
        more, exhausted = True, False
        try:
            while True:
                room = min(self.window, max_unanswered - len(order))
                if not exhausted and (not order or (more and room > 0 and not self.waiting)):
                    portion, size = [], 0
                    for request in islice(source, room):
                        portion.append(request)
                        size += request.size
                        more = ready()
                        if not more or size >= MAX_SIZE:
                            break
                    exhausted = not portion
                    order.extend(portion)
                    self.submit(portion)
                if not order:
                    return
                self.advance()
                while order and order[0].ended:
                    yield order.popleft()
        finally:
            if order:
                self.cancel(order)


class SentenceEngine(RequestEngine[SentenceRequest]):
    """Decodes sentences: an engine, a queue in front of one, or processes with one engine each.

    Submitted sentences must pass `check`. The code that creates a request checks it, once.

    Attributes:
        count: number of processes.
        max_rows: maximum number of hypotheses decoded at once.
        shortlist: target pieces that each source piece allows; None = any.
    """

    count = 1
    shortlist: Shortlist | None = None
    max_rows: int

    @property
    @abstractmethod
    def active_rows(self) -> int:
        """The number of hypotheses decoded now. Safe to read from any thread."""

    @abstractmethod
    def check(self, request: SentenceRequest) -> None:
        """Check that a request can be answered.

        Raises: ConfigError if the request would not fit in the pool of pages even on its own, or if
            its search cannot find required phrases; ValueError if no translation can begin with
            its prefix.
        """

    def best_so_far(self, request: SentenceRequest) -> list[int]:
        """The ids of the best translation so far, which may still change; empty if unknown."""
        return []

    def close(self) -> None:
        """End the worker processes, if there are any."""

    def wake(self) -> None:
        """Interrupt an `advance` that waits for other processes. Call this from another thread."""
