"""An engine for texts: cut into requests, and joined again from hypotheses."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seq2seq.alignment.choice import Alignment
from seq2seq.constraints.lexical import Vocabulary
from seq2seq.constraints.request import Requirements, Rules, TextRequest
from seq2seq.decoding import Beam, Hypothesis, Request, Search
from seq2seq.decoding.answering import DROPPED, EngineBase, GivenUp
from seq2seq.decoding.engine import SentenceEngine
from seq2seq.errors import ConfigError, Seq2SeqError
from seq2seq.scoring import clean_line
from seq2seq.symbols import EOS
from seq2seq.tokenization.splitting import split_into_parts
from seq2seq.tokenization.tokenizer import Tokenizers

MOST_JOINED = 20  # translations of a text in parts: a hundred parts may have a hundred each


class Translation(NamedTuple):
    """One translation of one text."""

    text: str
    score: float  # log-probability / length penalty; of a text in parts, the mean over parts
    ids: list[int] = []  # its pieces, the end included; of a text in parts, those of all parts
    token_logp: tuple[float, ...] = ()  # log-probability of each
    truncated: bool = False  # did the length limit end it, or a part of it?
    unsatisfied: tuple[str, ...] = ()  # what it should contain and does not, since it cannot
    alignment: Alignment | None = None  # with its source, where this was asked for

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its pieces, in [0, 1] at any length; 1 without
        pieces, as their product is.
        """
        return math.exp(sum(self.token_logp) / max(len(self.token_logp), 1))


@dataclass(frozen=True)
class TextCodec:
    """From texts to requests, and from hypotheses to texts.

    Attributes:
        tokenizers: the model's.
        limit: maximum pieces of a part, with its end and without its tag.
        longest: maximum pieces that the model can write, the end included; None = no limit.
        between: what stands between the translations of two parts.
        vocabulary: of the target.
        rules: what all translations must be like.
    """

    tokenizers: Tokenizers
    limit: int
    longest: int | None
    between: str
    vocabulary: Vocabulary
    rules: Rules = Rules()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text."""
        return self.tokenizers.source.encode_batch([clean_line(text) for text in texts])

    def requests_of(
        self, requirements: Requirements, ids: list[int] | None = None
    ) -> list[Request]:
        """The sentences to translate: one; several if the text is too long; none if it is blank.

        Args:
            requirements: of the text, from `requirements`.
            ids: from `encode`; None = not known yet.
        """
        source, text = self.tokenizers.source, clean_line(requirements.text)
        rows = [ids if ids is not None else self.encode([text])[0]]
        if len(rows[0]) - len(source.prefix) > self.limit - 1:
            # White space alone has no translation.
            rows = source.encode_batch(
                [part for part in split_into_parts(text, source, self.limit - 1) if part.strip()]
            )
        elif not text.strip():
            rows = []
        return [
            Request(
                [*row, EOS],
                [] if part else requirements.forced,
                constraint=requirements.constraint(part),
            )
            for part, row in enumerate(rows)
        ]

    def requirements(self, asked: TextRequest) -> Requirements:
        """The requirements of the translation of a text. Raises: as `Requirements`."""
        text, _, must, must_not, _ = asked.validate()
        prefix = clean_line(asked.prefix)
        return Requirements(self.rules, self.vocabulary, text, prefix, must, must_not, self.longest)

    def translation_of(self, parts: Sequence[list[Hypothesis]]) -> list[Translation]:
        """The translations of a text from the hypotheses of its parts: joined rank by rank, as many
        as all parts have, and of several parts at most `MOST_JOINED`. Those whose probability is
        not finite are left out.
        """
        finite = [[h for h in part if math.isfinite(h.score)] for part in parts]
        ranks = list(zip(*finite, strict=False))[: MOST_JOINED if len(parts) > 1 else None]
        texts = iter(self.tokenizers.target.decode_batch([h.ids for rank in ranks for h in rank]))
        return [
            Translation(
                self.join([next(texts) for _ in rank]),
                sum(h.score for h in rank) / len(rank),
                [i for h in rank for i in (h.ids if h.truncated else [*h.ids, EOS])],
                tuple(value for h in rank for value in h.token_logp),
                any(h.truncated for h in rank),
            )
            for rank in ranks
        ]

    def join(self, texts: list[str]) -> str:
        """The translation of a text from those of its parts."""
        return texts[0] if len(texts) == 1 else self.between.join(text.strip() for text in texts)


@dataclass
class Parts:
    """A text that is being translated: its requests, and the hypotheses of each so far."""

    asked: TextRequest
    requests: list[int]  # ids
    requirements: Requirements
    search: Search | None
    owner: Any = None  # as in `Request`
    ways: int = 0  # to go on that are to be found, see `TextEngine.submit_alternatives`
    hypotheses: dict[int, list[Hypothesis]] = field(default_factory=dict)  # by id
    ended: list[Hypothesis] | None = None  # the ways whose next piece is the end


class TextEngine(EngineBase[TextRequest, list[Translation] | None]):
    """Answers each text with all translations, best first.

    The answer to a blank text is empty; None is the answer to a text without a translation of
    finite probability. What a translation must contain and cannot is named in it, and left out.

    Args:
        engine: translates the sentences. It may have other callers.
        codec: the model's.
    """

    def __init__(self, engine: SentenceEngine, codec: TextCodec):
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

    def size(self, item: TextRequest) -> int:
        """The characters of a text, which is in memory until it is encoded."""
        return len(item.text)

    def check(self, asked: TextRequest) -> None:
        """Raises: as `submit`, if a text can never be answered."""
        for request in self.codec.requests_of(self.codec.requirements(asked)):
            self.engine.check(request)

    def submit(
        self,
        text: str,
        prefix: str = "",
        search: Search | None = None,
        ids: list[int] | None = None,
        owner: Any = None,
        **asked: Any,
    ) -> int:
        """Put a text at the end of the queue.

        Args:
            prefix: what the translation must begin with.
            search: None = the engine's.
            ids: of the text, from `TextCodec.encode`; None = not known yet.
            owner: as in `Request`.
            asked: what else it must be like, see `TextRequest`.

        Returns: its id, by which `step` answers.
        Raises: ConfigError for a prefix that is too long, and as `Engine.submit`.
        """
        rows = None if ids is None else [ids]
        (i,) = self._enter([TextRequest(text, prefix, **asked)], None, search, rows, owner=owner)
        return i

    def submit_alternatives(
        self,
        text: str,
        beginning: str = "",
        count: int = 5,
        search: Search | None = None,
        owner: Any = None,
    ) -> int:
        """Put a text at the end of the queue that is answered with the best ways to go on after the
        beginning of its translation that differ in their next piece, each to its end.

        Args:
            beginning: of the translation; the last word may be completed unless a space follows.
            count: maximum number of them.
            search: that completes them; None = the engine's.
            owner: as in `Request`.

        Raises: as `submit`; ConfigError for a text of several parts, or none.
        """
        asked = TextRequest(text, beginning)
        (i,) = self._enter([asked], None, search, ways=count, owner=owner)
        return i

    def best_so_far(self, i: int) -> str:
        """The best translation so far of a text that is not answered yet; it may still change."""
        text = self._texts[i]
        rows = [
            text.hypotheses[r][0].ids if text.hypotheses.get(r) else self.engine.best_so_far(r)
            for r in text.requests
        ]
        return self.codec.join(self.codec.tokenizers.target.decode_batch(rows))

    def submit_all(
        self,
        items: Sequence[TextRequest],
        answers: dict[int, list[Translation] | None] | None = None,
    ) -> list[int]:
        """Put texts at the end of the queue, encoded together; arguments as in `Answering`.

        Warns of each that is translated in parts. Raises: as `submit`.
        """
        ids = self._enter(items, answers, None)
        for i in ids:
            if i in self._texts and len(self._texts[i].requests) > 1:
                warnings.warn(
                    f"line {i + 1} is longer than {self.codec.limit} pieces: translated in "
                    f"{len(self._texts[i].requests)} parts",
                    stacklevel=2,
                )
        return ids

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
        try:
            self.engine.advance()
        except GivenUp as error:
            texts = {self._text_of[i] for i in error.ids if i in self._text_of}
            self.cancel(*texts)
            raise GivenUp(str(error), texts) from error
        if self._text_of and not (self._hypotheses or self.engine.busy):
            self.cancel(*self._texts)
            raise Seq2SeqError(DROPPED)
        complete = []
        for request_id, hypotheses in self._hypotheses.items():
            i = self._text_of.pop(request_id)
            text = self._texts[i]
            text.hypotheses[request_id] = hypotheses
            if len(text.hypotheses) == len(text.requests):
                complete.append(i)
        self._hypotheses.clear()
        for i in complete:
            self._complete(i, self._texts[i])

    def _complete(self, i: int, text: Parts) -> None:
        """Answer a text; translate it again without what its best translation does not contain."""
        parts = [text.hypotheses[r] for r in text.requests]
        if text.ways:
            self._complete_ways(i, text, parts)
            return
        found = self.codec.translation_of(parts)
        # At the length limit, some contain what they must, and some do not. Some contain what
        # looks like a placeholder of the source and is none.
        requirements = text.requirements
        found.sort(key=lambda translation: requirements.rank(translation.text))
        if requirements.drop_unsatisfied(found[0].text if found else None):
            text.hypotheses.clear()
            self._send([i], [self.codec.requests_of(requirements)], text.search)
        else:
            del self._texts[i]
            found = [t._replace(unsatisfied=requirements.find_unsatisfied(t.text)) for t in found]
            self.answer(i, found or None)

    def _complete_ways(self, i: int, text: Parts, parts: list[list[Hypothesis]]) -> None:
        """Translate each way to its end, if they are one piece long; else answer."""
        if text.ended is None:
            nexts = parts.pop()[: text.ways]
            text.ended = [each for each in nexts if not each.truncated]
            text.requirements.terms.clear()
            (request,) = self.codec.requests_of(text.requirements)
            text.hypotheses.clear()
            if going := [request._replace(prefix=each.ids) for each in nexts if each.truncated]:
                self._send([i], [going], text.search)
                return
        found = self.codec.translation_of([[*text.ended, *(part[0] for part in parts if part)]])
        best = {each.text: each for each in sorted(found, key=lambda each: each.score)}
        del self._texts[i]
        self.answer(i, sorted(best.values(), key=lambda each: -each.score) or None)

    def _enter(
        self,
        items: Sequence[TextRequest],
        answers: dict[int, list[Translation] | None] | None,
        search: Search | None,
        rows: list[list[int]] | None = None,
        ways: int = 0,
        owner: Any = None,
    ) -> list[int]:
        """Submit texts. Returns: their ids."""
        rows = rows or self.codec.encode([asked.text for asked in items])
        texts, requests = [], []
        for line_no, (asked, row) in enumerate(
            zip(items, rows, strict=True), start=self.submitted + 1
        ):
            try:
                requirements = self.codec.requirements(asked)
                found = self.codec.requests_of(requirements, row)
                requests.append(self._next_piece(found, ways) if ways else found)
            except Seq2SeqError as error:
                if answers is None:  # a single text, not a line of a file
                    raise
                raise type(error)(f"line {line_no}: {error}") from error
            texts.append(Parts(asked, [], requirements, search, owner, ways))
        ids = [self.expect(answers) for _ in items]
        self._texts.update(zip(ids, texts, strict=True))
        try:
            self._send(ids, requests, search)
        except BaseException:
            self.cancel(*ids)
            raise
        return ids

    def _next_piece(self, requests: list[Request], ways: int) -> list[Request]:
        """The request for the next pieces of a translation. Raises: as `submit_alternatives`."""
        if len(requests) != 1:
            raise ConfigError("alternatives are found for a text of one part: give one sentence")
        beams = min(ways, self.codec.tokenizers.target.size)
        return [requests[0]._replace(search=Beam(beam_size=beams, length_ratio=0, length_extra=1))]

    def _send(
        self, ids: Sequence[int], texts: Sequence[list[Request]], search: Search | None
    ) -> None:
        """Submit the requests of texts; a text without any is answered."""
        requests = []
        for i, text in zip(ids, texts, strict=True):
            given, owner = self._texts[i].asked.draw_id, self._texts[i].owner
            for draw_id, request in enumerate(text, self._requests if given is None else given):
                requests.append(
                    request._replace(search=request.search or search, draw_id=draw_id, owner=owner)
                )
            self._requests += len(text)
        request_ids = iter(self.engine.submit_all(requests, self._hypotheses))
        for i, text in zip(ids, texts, strict=True):
            self._texts[i].requests = [next(request_ids) for _ in text]
            self._text_of.update(dict.fromkeys(self._texts[i].requests, i))
            if not text:
                del self._texts[i]
                self.answer(i, [])
