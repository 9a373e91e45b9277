"""A request of a client, as its model sees it."""

import asyncio
import time
from dataclasses import dataclass, field

from seq2seq.translation.request import TranslationRequest


@dataclass(eq=False)
class ClientRequest:
    """Sentences that a model translates for a client, and that are answered together.

    Attributes:
        client: a key or an address; clients take turns.
        sentences: each with its size in the queue: its pieces, times the work that they need.
        pieces: the size of what is not answered yet, in the queue.
        translated: count of sentences.
        rows: hypotheses of its sentences that the engine has.
        accepted_at, started_at, ended_at: seconds of `time.monotonic`; 0 = not yet. It starts when
            the engine gets its first sentence, and ends when it is answered or dropped.
        answer: ends when all sentences have; of the engine's thread.
    """

    client: str
    sentences: dict[TranslationRequest, int] = field(default_factory=dict)
    pieces: int = 0
    translated: int = 0
    rows: int = 0
    accepted_at: float = field(default_factory=time.monotonic)
    started_at: float = 0.0
    ended_at: float = 0.0
    answer: "asyncio.Future[None]" = field(init=False)

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds in the queue, and seconds since the engine got its first sentence."""
        ended_at = self.ended_at or time.monotonic()
        started_at = self.started_at or ended_at
        return started_at - self.accepted_at, ended_at - started_at

    def finish(self, sentence: TranslationRequest) -> bool:
        """Note that a sentence is translated. Returns: are all of them?"""
        self.translated += 1
        if not sentence.links:  # there is more to do for it
            self.pieces -= self.sentences[sentence]
        return self.translated == len(self.sentences)
