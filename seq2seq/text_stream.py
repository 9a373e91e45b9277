"""Texts on their way through an engine: cut into requests, and joined again in order."""

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from seq2seq.data.tokenizer import Tokenizers
from seq2seq.data.windows import segments
from seq2seq.decoding import Hypothesis, Request
from seq2seq.errors import ConfigError
from seq2seq.scoring import clean_line
from seq2seq.symbols import EOS


class Translates(Protocol):
    """An engine, or workers that each have one."""

    def translate(self, requests: Iterable[Request]) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, best first, in the order of the requests."""


class Translation(NamedTuple):
    """One translation of one text."""

    text: str
    score: float  # log-probability / length penalty; of a text in parts, the mean over parts
    ids: list[int] = []  # its pieces, the end included; of a text in parts, those of all parts
    token_logp: tuple[float, ...] = ()  # log-probability of each
    truncated: bool = False  # did the length limit end it, or a part of it?

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its pieces, in [0, 1] at any length."""
        return math.exp(sum(self.token_logp) / len(self.token_logp))


@dataclass
class Line:
    """A text that was read, and the translations of its parts so far."""

    line_no: int  # from 1
    refused: bool  # could the text not be read?
    parts: int
    translations: list[list[Translation]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.translations) == self.parts


class TextStream:
    """Passes any number of texts through an engine, and keeps only those not answered yet.

    Args:
        texts: each with the prefix of its translation; None stands for one that could not be read.
        tokenizers: the model's.
        limit: maximum pieces of a part, with its end and without its tag.
        ready: can another text, or the end, be read without waiting? If not, the texts already read
            are translated first.
        look_ahead: maximum lines that wait for their translation.
        longest: maximum pieces that the model can write, the end included; None = no limit.
    """

    def __init__(
        self,
        texts: Iterable[tuple[str | None, str]],
        tokenizers: Tokenizers,
        limit: int,
        *,
        ready: Callable[[], bool],
        look_ahead: int,
        longest: int | None,
    ):
        self._texts = enumerate(texts, start=1)
        self._tokenizers = tokenizers
        self._limit = limit
        self._ready = ready
        self._look_ahead = look_ahead
        self._longest = longest
        self._waiting: deque[Line] = deque()
        self._request_count = 0
        self._ended = False

    def through(self, engine: Translates) -> Iterator[Line]:
        """All lines, in order, each as soon as it and those before it are complete."""
        while not self._ended:
            for hypotheses in engine.translate(self._requests()):
                yield from self._complete()  # lines without parts, which the engine never sees
                self._waiting[0].translations.append(self._decode(hypotheses))
                yield from self._complete()
            yield from self._complete()

    def _requests(self) -> Iterator[Request]:
        """The requests to the end of the texts, or to where the engine should answer first."""
        while not self._waiting or (len(self._waiting) < self._look_ahead and self._ready()):
            line_no, (text, prefix) = next(self._texts, (0, (None, "")))
            if not line_no:
                self._ended = True
                return
            rows = [] if text is None else self._rows(clean_line(text), line_no)
            self._waiting.append(Line(line_no, text is None, len(rows)))
            forced = self._forced(prefix, line_no)
            for row in rows:
                yield Request([*row, EOS], forced, self._request_count)
                self._request_count += 1
                forced = []  # a prefix is for the first part of a text only

    def _complete(self) -> Iterator[Line]:
        while self._waiting and self._waiting[0].complete:
            yield self._waiting.popleft()

    def _rows(self, text: str, line_no: int) -> list[list[int]]:
        """The pieces of a text: one row, several if it is too long, none if it is blank."""
        source = self._tokenizers.source
        max_pieces = self._limit - 1
        rows = source.encode_batch([text])
        if len(rows[0]) - len(source.prefix) <= max_pieces:
            return rows if text.strip() else []
        # White space alone has no translation.
        parts = [part for part in segments(text, source, max_pieces) if part.strip()]
        if len(parts) > 1:
            warnings.warn(
                f"line {line_no} is longer than {self._limit} pieces: translated in {len(parts)} "
                "parts",
                stacklevel=2,
            )
        return source.encode_batch(parts)

    def _forced(self, prefix: str, line_no: int) -> list[int]:
        """The pieces that a translation must begin with.

        A space at the end is left out: it belongs to the first piece that the model adds.

        Raises: ConfigError if the model cannot write all of them and go on.
        """
        text = clean_line(prefix).rstrip()
        ids = self._tokenizers.target.encode_batch([text])[0] if text else []
        if self._longest is not None and len(ids) + 1 >= self._longest:
            raise ConfigError(
                f"the prefix of line {line_no} has {len(ids)} pieces, and this model writes no "
                f"more than {self._longest}: give fewer than {self._longest - 1}"
            )
        return ids

    def _decode(self, hypotheses: list[Hypothesis]) -> list[Translation]:
        finite = [h for h in hypotheses if math.isfinite(h.score)]
        texts = self._tokenizers.target.decode_batch([h.ids for h in finite])
        return [
            Translation(
                text,
                h.score,
                h.ids if h.truncated else [*h.ids, EOS],
                tuple(h.token_logp),
                h.truncated,
            )
            for text, h in zip(texts, finite, strict=True)
        ]


def join(parts: list[list[Translation]], between: str = " ") -> list[Translation]:
    """The hypotheses of a text: those of its parts, joined rank by rank, as many as all have."""
    if len(parts) == 1:
        return parts[0]
    return [
        Translation(
            between.join(part.text.strip() for part in rank),
            sum(part.score for part in rank) / len(rank),
            [i for part in rank for i in part.ids],
            tuple(value for part in rank for value in part.token_logp),
            any(part.truncated for part in rank),
        )
        for rank in zip(*parts, strict=False)
    ]
