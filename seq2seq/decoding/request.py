"""A sentence to decode, and its life: the one object that everybody hands on, from whoever asks for
its translation to the engine, and that tells all of them what has become of it.
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
    """Work for an engine, and what has become of it. A request is submitted once.

    `dataclasses.replace(request)` is the same work as a new request.

    Attributes:
        id: unique in this process, and the same in a worker process that the request is sent to.
        status: set by the engine.
        error: the reason, if it failed.
    """

    id: int = field(default_factory=IDS.__next__, init=False)
    status: Status = field(default=Status.QUEUED, init=False)
    error: Exception | None = field(default=None, init=False)

    @property
    def ended(self) -> bool:
        """Is it done, failed or cancelled?"""
        return self.status in ENDED

    @property
    def size(self) -> int:
        """Characters that are in memory while it waits to be submitted."""
        return 0


@dataclass(eq=False, slots=True)
class SentenceRequest(Request):
    """A sentence to decode, and its hypotheses when that is done.

    Attributes:
        source: piece ids, the end last.
        prefix: ids that the translation begins with.
        search: None = the engine's.
        constraint: from which the engine makes a guide; None = no guide.
        draw_id: random draws depend on it; None = the number of sentences that its engine was given
            before.
        owner: whose turn it needs, for a queue in front of an engine, which knows its type.
        on_end: is called when it is done or has failed, within `SentenceEngine.advance`, and should
            do no more than write that down.
        hypotheses: if it is done, best first.
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
        """For its engine: it is done."""
        self.status, self.hypotheses = Status.DONE, hypotheses
        if self.on_end:
            self.on_end()
            self.on_end = None  # which may hold whatever holds this request

    def fail(self, error: Exception) -> None:
        """For its engine: it will never be done."""
        self.status, self.error = Status.FAILED, error
        if self.on_end:
            self.on_end()
            self.on_end = None

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """The fields for a worker process, which need not know who asks."""
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return None, {**state, "owner": None, "on_end": None}
