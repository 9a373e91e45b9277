"""Requests: one object per sentence, which the caller passes to the engine, and which later holds
the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import count
from typing import Any

from seq2seq.decoding.constraints.lexical import Constraint
from seq2seq.decoding.search import Hypothesis, Search

IDS = count()


class Status(StrEnum):
    """The state of a request."""

    QUEUED = "queued"  # not begun, or not submitted yet
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # see the request's `error`
    CANCELLED = "cancelled"


ENDED = (Status.DONE, Status.FAILED, Status.CANCELLED)


@dataclass(eq=False, slots=True)
class Request:
    """Work for an engine, with its status. A request is submitted once.

    `dataclasses.replace(request)` makes a new request for the same work.

    Attributes:
        id: number that is unique in this process; a copy in a worker process has the same id.
        status: state of the request, set by the engine.
        error: reason for a failure; None if it has not failed.
    """

    id: int = field(default_factory=IDS.__next__, init=False)
    status: Status = field(default=Status.QUEUED, init=False)
    error: Exception | None = field(default=None, init=False)

    @property
    def ended(self) -> bool:
        """True if it is done, failed or cancelled."""
        return self.status in ENDED

    @property
    def size(self) -> int:
        """The number of characters that the request holds in memory before it is submitted."""
        return 0


@dataclass(eq=False, slots=True)
class SentenceRequest(Request):
    """A sentence to decode, and its hypotheses once it is done.

    Attributes:
        source: piece ids, ending in eos.
        prefix: ids that the translation begins with; or `certain` of ids, which count as tokens but
            add nothing to log-probabilities.
        search: search for this sentence; None = the engine's.
        constraint: constraint from which the engine makes a guide; None = no guide.
        draw_id: number that random draws depend on; None = the number of sentences submitted to its
            engine before.
        owner: client that the request belongs to, for queues that serve clients in turn; only they
            know its type.
        on_end: function that `SentenceEngine.advance` calls when the request is done or has failed.
            It should only record the event.
        hypotheses: results, best first; None until it is done.
    """

    source: list[int]
    prefix: Sequence[int] = ()
    search: Search | None = None
    constraint: Constraint | None = None
    draw_id: int | None = None
    owner: Any = None
    on_end: Callable[[], object] | None = None
    hypotheses: list[Hypothesis] | None = field(default=None, init=False)

    def finish(self, hypotheses: list[Hypothesis]) -> None:
        """Store the hypotheses and mark it as done. Called by its engine."""
        self.status, self.hypotheses = Status.DONE, hypotheses
        if self.on_end:
            self.on_end()
            self.on_end = None  # it may refer to this request

    def fail(self, error: Exception) -> None:
        """Mark it as failed. Called by its engine."""
        self.status, self.error = Status.FAILED, error
        if self.on_end:
            self.on_end()
            self.on_end = None

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """The fields for a worker process, without `owner` and `on_end`."""
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return None, {**state, "owner": None, "on_end": None}
