"""A client's request as the model sees it, and the wait for its answer."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from seq2seq.serving.errors import HTTPError
from seq2seq.translation.request import TranslationRequest


@dataclass(eq=False)
class ClientRequest:
    """Sentences that a model translates for a client, and answers together.

    Attributes:
        client: Key or address of the client; clients take turns.
        sentences: Sentences, each with its size in the queue: its pieces times the work per piece.
        pieces: Size in the queue of the sentences not answered yet.
        translated: Number of translated sentences.
        rows: Number of hypotheses of its sentences in the engine.
        accepted_at, started_at, ended_at: Times by `time.monotonic`; 0 = not yet. A request starts
            when the engine gets its first sentence, and ends when it is answered or dropped.
        answer: Future that is done when all sentences are; used by the engine's thread.
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
        """Seconds in the queue, and seconds of translation since the engine got a sentence."""
        ended_at = self.ended_at or time.monotonic()
        started_at = self.started_at or ended_at
        return started_at - self.accepted_at, ended_at - started_at

    def finish(self, sentence: TranslationRequest) -> bool:
        """Count a sentence as translated. Returns: True if that was the last one."""
        self.translated += 1
        if not sentence.links:  # else its words are still to be linked
            self.pieces -= self.sentences[sentence]
        return self.translated == len(self.sentences)


async def wait_for_answer(answer: "asyncio.Future[Any]", receive: Receive, seconds: float) -> None:
    """Wait for an answer; cancel it if the client disconnects or the time is over.

    Raises: ClientDisconnect if the client disconnects; HTTPError if the time is over; otherwise
        whatever the answer raises.
    """
    disconnect = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        either = asyncio.FIRST_COMPLETED
        await asyncio.wait((answer, disconnect), timeout=seconds, return_when=either)
        late = HTTPError(504, f"not translated within {seconds:g} seconds")
        if not answer.done():
            raise ClientDisconnect if disconnect.done() else late
        answer.result()
    finally:
        disconnect.cancel()
        answer.cancel()


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
