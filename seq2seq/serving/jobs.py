"""Requests as the engine's thread sees them: their texts, and what is found so far."""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seq2seq.constraints.request import TextRequest
from seq2seq.decoding import Search
from seq2seq.text_engine import Translation

Found = list[Translation] | None

ALIGNED = 128  # padded pieces of the pairs that are aligned between two steps, or one pair


class Text(NamedTuple):
    """A sentence to translate, as the front has prepared it."""

    asked: TextRequest
    ids: list[int]  # its pieces
    search: Search
    pieces: int  # that count for the queue: more than it has if it needs more work
    ways: int = 0  # to go on after its prefix; 0 = translations
    linked: int = 0  # translations to align with it


@dataclass(eq=False)
class Job:
    """The texts of one request, answered together.

    Attributes:
        client: whose it is.
        answer: what the front waits for. When it is cancelled, so is the job.
        watch: is told the best translations so far, in the loop of the front.
    """

    texts: Sequence[Text]
    client: Hashable
    answer: "asyncio.Future[list[Found]]"
    watch: Callable[[list[str]], None] | None = None
    since: float = field(default_factory=time.monotonic)
    found: dict[int, Found] = field(default_factory=dict)  # by place
    ids: list[int] = field(default_factory=list)  # of the engine

    @property
    def owner(self) -> tuple[Hashable, Hashable]:
        return self.client, id(self)

    @property
    def pieces(self) -> int:
        return sum(text.pieces for text in self.texts)

    def results(self) -> list[Found]:
        return [self.found[place] for place in range(len(self.texts))]


class Place(NamedTuple):
    """A translation of a job: of which text, of which rank."""

    text: int
    rank: int
    translation: Translation


def slices(job: Job) -> Iterator[list[Place]]:
    """The translations of a job that are to be aligned, as many at a time as takes little time."""
    portion: list[Place] = []
    longest = 0
    for i, text in enumerate(job.texts):
        for rank, translation in enumerate((job.found[i] or [])[: text.linked]):
            length = max(len(text.ids), len(translation.ids))
            if portion and max(longest, length) * (len(portion) + 1) > ALIGNED:
                yield portion
                portion, longest = [], 0
            portion.append(Place(i, rank, translation))
            longest = max(longest, length)
    if portion:
        yield portion
