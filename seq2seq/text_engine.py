"""An engine for texts: cut into requests, and joined again from hypotheses."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seq2seq.data.tokenizer import Tokenizers
from seq2seq.data.windows import segments
from seq2seq.decoding import Answering, Hypothesis, Request, Search
from seq2seq.decoding.answering import DROPPED
from seq2seq.errors import ConfigError, Seq2SeqError
from seq2seq.scoring import clean_line
from seq2seq.symbols import EOS

Sentences = Answering[Request, list[Hypothesis]]  # an engine, or workers that each have one


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


@dataclass(frozen=True)
class TextCodec:
    """From texts to requests, and from hypotheses to texts.

    Attributes:
        tokenizers: the model's.
        limit: maximum pieces of a part, with its end and without its tag.
        longest: maximum pieces that the model can write, the end included; None = no limit.
        between: what stands between the translations of two parts.
    """

    tokenizers: Tokenizers
    limit: int
    longest: int | None
    between: str

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text."""
        return self.tokenizers.source.encode_batch([clean_line(text) for text in texts])

    def requests_of(
        self, text: str, prefix: str = "", ids: list[int] | None = None
    ) -> list[Request]:
        """The sentences to translate: one; several if the text is too long; none if it is blank.

        Args:
            prefix: what the translation must begin with. A space at the end is left out: it belongs
                to the first piece that the model adds.
            ids: from `encode`; None = not known yet.

        Raises: ConfigError if the model cannot write the prefix and go on.
        """
        source, text = self.tokenizers.source, clean_line(text)
        rows = [ids if ids is not None else self.encode([text])[0]]
        if len(rows[0]) - len(source.prefix) > self.limit - 1:
            # White space alone has no translation.
            rows = source.encode_batch(
                [part for part in segments(text, source, self.limit - 1) if part.strip()]
            )
        elif not text.strip():
            rows = []
        forced = [self._forced(prefix), *[[]] * len(rows)]  # only the first part begins with it
        return [Request([*row, EOS], given) for row, given in zip(rows, forced, strict=False)]

    def translation_of(self, parts: Sequence[list[Hypothesis]]) -> list[Translation]:
        """The translations of a text from the hypotheses of its parts: joined rank by rank, as many
        as all parts have. Those whose probability is not finite are left out.
        """
        finite = [[h for h in part if math.isfinite(h.score)] for part in parts]
        ranks = list(zip(*finite, strict=False))
        texts = iter(self.tokenizers.target.decode_batch([h.ids for rank in ranks for h in rank]))
        return [
            Translation(
                self._joined([next(texts) for _ in rank]),
                sum(h.score for h in rank) / len(rank),
                [i for h in rank for i in (h.ids if h.truncated else [*h.ids, EOS])],
                tuple(value for h in rank for value in h.token_logp),
                any(h.truncated for h in rank),
            )
            for rank in ranks
        ]

    def _joined(self, texts: list[str]) -> str:
        return texts[0] if len(texts) == 1 else self.between.join(text.strip() for text in texts)

    def _forced(self, prefix: str) -> list[int]:
        """The pieces that a translation must begin with."""
        text = clean_line(prefix).rstrip()
        ids = self.tokenizers.target.encode_batch([text])[0] if text else []
        if self.longest is not None and len(ids) + 1 >= self.longest:
            raise ConfigError(
                f"the prefix has {len(ids)} pieces, and this model writes no more than "
                f"{self.longest}: give fewer than {self.longest - 1}"
            )
        return ids


@dataclass
class Parts:
    """A text that is being translated: its requests, and the hypotheses of each so far."""

    requests: list[int]  # ids
    hypotheses: dict[int, list[Hypothesis]] = field(default_factory=dict)  # by id


class TextEngine(Answering[tuple[str, str], list[Translation] | None]):
    """Answers each text, with the prefix of its translation, with all translations, best first.

    The answer to a blank text is empty; None is the answer to a text without a translation of
    finite probability.

    Args:
        engine: translates the sentences. It may have other callers.
        codec: the model's.
    """

    def __init__(self, engine: Sentences, codec: TextCodec):
        super().__init__()
        self.engine, self.codec = engine, codec
        self.look_ahead = engine.look_ahead
        self._texts: dict[int, Parts] = {}
        self._text_of: dict[int, int] = {}  # request id -> text id
        self._hypotheses: dict[int, list[Hypothesis]] = {}  # from the engine, by request id
        self._requests = 0  # so far

    @property
    def waiting(self) -> bool:
        return self.engine.waiting

    def size(self, item: tuple[str, str]) -> int:
        """The characters of a text, which is in memory until it is encoded."""
        return len(item[0])

    def submit(self, text: str, prefix: str = "", search: Search | None = None) -> int:
        """Put a text at the end of the queue.

        Args:
            prefix: what the translation must begin with.
            search: None = the engine's.

        Returns: its id, by which `step` answers.
        Raises: ConfigError for a prefix that is too long, and as `Engine.submit`.
        """
        return self._enter([self.codec.requests_of(text, prefix)], None, search)[0]

    def submit_all(
        self,
        items: Sequence[tuple[str, str]],
        answers: dict[int, list[Translation] | None] | None = None,
    ) -> list[int]:
        """Put texts at the end of the queue, encoded together; arguments as in `Answering`.

        Warns of each that is translated in parts. Raises: as `submit`.
        """
        requests = []
        rows = self.codec.encode([text for text, _ in items])
        for line_no, ((text, prefix), ids) in enumerate(
            zip(items, rows, strict=True), start=self._count + 1
        ):
            try:
                requests.append(self.codec.requests_of(text, prefix, ids))
            except ConfigError as error:
                raise ConfigError(f"line {line_no}: {error}") from error
            if len(requests[-1]) > 1:
                warnings.warn(
                    f"line {line_no} is longer than {self.codec.limit} pieces: translated in "
                    f"{len(requests[-1])} parts",
                    stacklevel=2,
                )
        return self._enter(requests, answers)

    def cancel(self, *ids: int) -> None:
        super().cancel(*ids)
        parts = [self._texts.pop(i) for i in ids if i in self._texts]
        requests = [request_id for text in parts for request_id in text.requests]
        for request_id in requests:
            self._text_of.pop(request_id, None)
            self._hypotheses.pop(request_id, None)
        self.engine.cancel(*requests)

    def advance(self) -> None:
        """One step of the engine, for all its callers."""
        self.engine.advance()
        if self._text_of and not (self._hypotheses or self.engine.busy):
            self.cancel(*self._texts)
            raise Seq2SeqError(DROPPED)
        for request_id, hypotheses in self._hypotheses.items():
            i = self._text_of.pop(request_id)
            text = self._texts[i]
            text.hypotheses[request_id] = hypotheses
            if len(text.hypotheses) == len(text.requests):
                del self._texts[i]
                parts = [text.hypotheses[request_id] for request_id in text.requests]
                self._answer(i, self.codec.translation_of(parts) or None)
        self._hypotheses.clear()

    def _enter(
        self,
        texts: Sequence[list[Request]],
        answers: dict[int, list[Translation] | None] | None,
        search: Search | None = None,
    ) -> list[int]:
        """Submit the requests of texts. Returns: the ids of the texts."""
        requests = [
            request._replace(search=search, draw_id=draw_id)
            for draw_id, request in enumerate(
                (request for text in texts for request in text), start=self._requests
            )
        ]
        request_ids = iter(self.engine.submit_all(requests, self._hypotheses))
        self._requests += len(requests)
        ids = [self._expect(answers) for _ in texts]
        for i, text in zip(ids, texts, strict=True):
            parts = Parts([next(request_ids) for _ in text])
            if parts.requests:
                self._texts[i] = parts
                self._text_of.update(dict.fromkeys(parts.requests, i))
            else:
                self._answer(i, [])
        return ids
