"""An engine for texts, which decodes their sentences and joins the translations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.search import Hypothesis
from seq2seq.decoding.sentence_engine import RequestEngine, SentenceEngine
from seq2seq.translation.codec import TextCodec
from seq2seq.translation.request import Problem, Translation, TranslationRequest

Step = Callable[[TranslationRequest], None]


class TextEngine(RequestEngine[TranslationRequest]):
    """Translates texts, each as one sentence or in parts. Requirements that cannot be met are
    dropped and reported.

    Args:
        engine: engine that decodes the sentences; others may use it at the same time.
        codec: codec of the model.
    """

    def __init__(self, engine: SentenceEngine, codec: TextCodec):
        self.engine, self.codec, self.window = engine, codec, engine.window
        self._submitted = 0  # sentences so far
        # The unfinished texts, each with the step to take when all its sentences have ended.
        self._next: dict[TranslationRequest, Step] = {}
        self._moved: list[TranslationRequest] = []  # one entry for each sentence that has ended
        self._ended: list[TranslationRequest] = []  # to be returned by the next `advance`

    @property
    def busy(self) -> bool:
        return bool(self._next or self._ended)

    @property
    def waiting(self) -> bool:
        return self.engine.waiting

    def submit(self, requests: Sequence[TranslationRequest]) -> None:
        """Add texts to the end of the queue, encoding them together. Requests that have already
        ended are left out.

        Raises: Seq2SeqError if the pattern for copied text takes too long to match. No text is
            submitted then, since the pattern may be as slow for the others.
        """
        requests = [request for request in requests if not request.ended]
        unknown = [request for request in requests if request.ids is None]
        rows = self.codec.encode([request.text for request in unknown])
        for request, ids in zip(unknown, rows, strict=True):
            request.ids = ids
        for request in requests:
            try:
                self._prepare(request)
            except (ConfigError, DataError) as error:
                request.refuse(error)
            except Seq2SeqError as error:
                raise Seq2SeqError(f"{request.place}: {error}") from error
        for request in requests:
            self._next[request] = self._complete_pieces if request.alternatives else self._complete
            if request.ended or not request.sentences:  # refused, copied or blank
                self._end(request, [])
        self._decode([request for request in requests if not request.ended])

    def _prepare(self, request: TranslationRequest) -> None:
        """Create the sentences of a text; none if its words are too long and it is copied.

        Raises: ConfigError or DataError if the text can never be translated.
        """
        request.direction = self.codec.direction_of(request)
        if endless := self.codec.endless_words(request):
            message = f"has a word of {max(endless.values()):,} pieces: copied, not translated"
            request.endless = endless
            request.result.problems.append(Problem("copied", message))
        request.requirements = self.codec.requirements_of(request)
        sentences = self.codec.sentences_of(request)
        parts = len(sentences)
        if endless and not parts:
            request.copy()
        elif request.alternatives and parts != 1:
            raise ConfigError("alternatives need a text of one part: give one sentence")
        elif request.alternatives:
            beams = min(request.alternatives, self.codec.tokenizers.target.size)
            sentences[0].search = Beam(beam_size=beams, length_ratio=0, length_extra=1)
        self._divide(request, sentences)
        if parts > 1 and not endless:
            message = f"is longer than {self.codec.limit} pieces: translated in {parts} parts"
            request.result.problems.append(Problem("parts", message))

    def _divide(self, request: TranslationRequest, sentences: list[SentenceRequest]) -> None:
        """Set the next sentences of a text. Raises: ConfigError as `SentenceEngine.check`."""
        for sentence in sentences:
            self.engine.check(sentence)
            sentence.on_end = partial(self._moved.append, request)
        request.sentences = sentences

    def _decode(self, requests: Sequence[TranslationRequest]) -> None:
        """Submit the sentences of these texts to the engine."""
        for request in requests:
            first = self._submitted if request.draw_id is None else request.draw_id
            for draw_id, sentence in enumerate(request.sentences, first):
                sentence.draw_id = draw_id
            self._submitted += len(request.sentences)
        self.engine.submit([each for request in requests for each in request.sentences])

    def cancel(self, requests: Iterable[TranslationRequest]) -> None:
        dropped = [request for request in requests if self._next.pop(request, None)]
        for request in dropped:
            request.status = Status.CANCELLED
        self.engine.cancel([sentence for request in dropped for sentence in request.sentences])

    def best_so_far(self, request: TranslationRequest) -> str:
        """The best translation so far, which may change until the request has ended."""
        rows = [
            each.hypotheses[0].ids if each.hypotheses else self.engine.best_so_far(each)
            for each in request.sentences
        ]
        texts = self.codec.tokenizers.target.decode_batch(rows)
        return self.codec.join(request, texts)

    def advance(self) -> list[TranslationRequest]:
        """Advance the engine by one step, for everyone who uses it; return the texts that ended."""
        try:
            self.engine.advance()
        finally:
            moved = dict.fromkeys(self._moved)
            self._moved.clear()
            for request in moved:
                if request in self._next:
                    self._move(request)
        ended, self._ended = self._ended, []
        return ended

    def _move(self, request: TranslationRequest) -> None:
        """Take the next step of a text if all its sentences have ended, or if one has failed."""
        if error := next((each.error for each in request.sentences if each.error), None):
            self.engine.cancel(request.sentences)
            request.fail(error)
            self._end(request)
        elif all(sentence.ended for sentence in request.sentences):
            try:
                self._next[request](request)
            except ConfigError as error:
                request.refuse(error)
                self._end(request)

    def _end(self, request: TranslationRequest, translations: Sequence[Translation] = ()) -> None:
        """End a text, with its translations unless it has failed, and queue it for `advance`."""
        if not request.ended:
            request.finish(translations)
        del self._next[request]
        self._ended.append(request)

    def _complete(self, request: TranslationRequest) -> None:
        """End a text, or translate it again without the requirements that its best translation
        fails to meet.
        """
        parts = [each.hypotheses or [] for each in request.sentences]
        found = self.codec.translations_of(request, parts)
        if requirements := request.requirements:
            # Of translations cut off at the length limit, some meet the requirements and some do
            # not. Some contain text that only looks like a placeholder of the source.
            found.sort(key=lambda translation: requirements.rank(translation.text))
            if requirements.drop_unsatisfied(found[0].text if found else None):
                self._divide(request, self.codec.sentences_of(request))
                self._decode([request])
                return
            find = requirements.find_unsatisfied
            found = [each._replace(unsatisfied=find(each.text)) for each in found]
        self._end(request, found)

    def _complete_pieces(self, request: TranslationRequest) -> None:
        """Complete each continuation, which so far is one piece long."""
        (sentence,) = request.sentences
        nexts = (sentence.hypotheses or [])[: request.alternatives]
        if request.requirements:
            request.requirements.terms.clear()
        start = len(request.direction.start)
        (whole,) = self.codec.sentences_of(request)
        going = [
            replace(whole, prefix=[*whole.prefix[:start], *each.ids[start:]])
            for each in nexts
            if each.truncated
        ]
        self._divide(request, going)
        ended = [each for each in nexts if not each.truncated]
        self._next[request] = partial(self._complete_alternatives, ended)
        if going:
            self._decode([request])
        else:
            self._next[request](request)

    def _complete_alternatives(self, ended: list[Hypothesis], request: TranslationRequest) -> None:
        """End a text with its alternatives.

        Args:
            ended: alternatives that were complete after one piece.
        """
        bests = [each.hypotheses[0] for each in request.sentences if each.hypotheses]
        found = self.codec.translations_of(request, [[*ended, *bests]])
        best = {each.text: each for each in sorted(found, key=lambda each: each.score)}
        self._end(request, sorted(best.values(), key=lambda each: -each.score))
