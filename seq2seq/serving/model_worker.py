"""A model in service; the sentences of all clients share its batches."""

import asyncio
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seq2seq.base.errors import format_count
from seq2seq.data.text.windows import split_by_padding
from seq2seq.decoding import engine_options
from seq2seq.decoding.constraints.placeholders import Placeholders
from seq2seq.decoding.constraints.request import Rules
from seq2seq.decoding.precision import decoding_precision, describe_backend
from seq2seq.decoding.search import Search
from seq2seq.decoding.shortlist.file import find_shortlist
from seq2seq.serving.client_request import ClientRequest
from seq2seq.serving.engine_thread import EngineThread
from seq2seq.serving.errors import HTTPError, log
from seq2seq.serving.queue import Backlog, QueuedEngine
from seq2seq.serving.validation import AUTO
from seq2seq.text.documents.placeholders import PLACEHOLDERS
from seq2seq.text.languages import matching_languages, read_language
from seq2seq.text.tokenization.directions import SHOWN
from seq2seq.translation.documents import add_alignments
from seq2seq.translation.request import TranslationRequest
from seq2seq.translation.translator import Translator

Options = Mapping[str, Any]  # by name

BEAMS = 5  # if a translation must contain something and the configured search is greedy
MAX_PADDED = 128  # pieces, with padding, of the pairs aligned between two steps; or a single pair
SMALL = 512  # pieces: a request up to this size is always tried if it is the only one


class Arithmetic(NamedTuple):
    """The way in which a model computes; `str()` is the text for the log.

    Attributes:
        precision: Precision, as for `Translator.engine`.
        beam_size: Number of beams for requests that do not name one.
        threads: Number of threads of all processes together.
        decoder: `c` or `torch`.
        reason: Reason why the native decoder is not used; empty if it is.
    """

    precision: str
    beam_size: int
    threads: int
    decoder: str
    reason: str

    def __str__(self) -> str:
        counts = format_count(self.beam_size, "beam"), format_count(self.threads, "thread")
        decoder = f"torch: {self.reason}" if self.reason else "C"
        return f"{self.precision}, {', '.join(counts)}, decoded in {decoder}"


class ModelWorker:
    """A model, the requests it has accepted, and the thread that works on them. The methods are for
    the front, a single thread with an event loop.

    Args:
        name: Name that clients use.
        path: Checkpoint, or folder of a run.
        device: Device, as for `Translator.load`.
        search: Options of the search; others are as configured.
        engine: Options of the engine.

    Attributes:
        languages: Languages between which it translates; empty for a model of one direction.
        source, target: Languages of texts that name none; empty if there are none.
        arithmetic: How the model computes.
        sentences, queue, engine: Engines of sentences, of sentences in a fair order, and of texts.
        choice: Attention weights used to link words; None if the model has none that link words.
        backlog: Requests that were accepted and are not answered yet.
        holds: Number of contexts of `hold_open` that need the model.
        document_turn: Semaphore held while a portion of a document is translated. With many
            portions at once, each step would take longer for clients who wait for a sentence, and
            documents would hardly get faster.
        queue_seconds, decode_seconds: Total times of all requests that were answered or dropped.
    """

    def __init__(self, name: str, path: Path, device: str, search: Options, engine: Options):
        self.name = name
        self.translator = Translator.load(path, device)
        data, configured = self.translator.config["data"], self.translator.config["decode"]
        codes = self.translator.directions.languages
        tags = [read_language(code).tag for code in codes]
        # Two variants may have one tag.
        self.languages = list(codes) if len({*tags}) < len(tags) else tags
        self.context = self.translator.context
        self.source, self.target = (read_language(data[side]).tag for side in ("source", "target"))
        self.search = self.translator.search(**search)
        self._searches = {self.search.beams: self.search}  # by number of beams
        # Clients come at any time; `auto` would decode whole batches on a CPU.
        cache = "paged" if self.translator.device.type == "cpu" else "auto"
        options = {"cache": cache, "workers": 1, **engine}
        shortlist = find_shortlist(path)
        if shortlist is not None:
            log.info("%s: using %s", name, shortlist)
        self.sentences = self.translator.engine(self.search, shortlist=shortlist, **options)
        decode = configured | {k: v for k, v in options.items() if v}
        decoder, _, reason = describe_backend(self.sentences.model).partition(": ")
        precision = engine_options(decode)["precision"]
        precision = decoding_precision(precision, self.translator.device)
        threads = self.sentences.count * torch.get_num_threads()
        self.arithmetic = Arithmetic(precision, self.search.beams, threads, decoder.lower(), reason)
        self.rules = Rules(placeholders=Placeholders(re.compile(PLACEHOLDERS)))
        self.queue = QueuedEngine(self.sentences)
        self.engine = self.translator.text_engine(self.queue, rules=self.rules)
        self.labels = self.translator.target.texts()
        self.backlog = Backlog()
        self.queue_seconds = self.decode_seconds = 0.0
        self.holds = 0
        self.document_turn = asyncio.Semaphore(self.sentences.count)
        self.thread = EngineThread(self.engine, self.sentences, name)
        self._linking = asyncio.Lock()  # held while words are linked, for one request at a time
        try:
            self._warm_up(path)
        except BaseException:
            self.sentences.close()
            raise

    def _warm_up(self, path: Path) -> None:
        """Translate and align something, since the first translation allocates memory, and worker
        processes start only when there is work for two.
        """
        request = ClientRequest("")
        named = Offer(self, *[*self.languages, "", ""][:2]).wishes
        texts = [
            TranslationRequest("a", owner=request, **named) for _ in range(self.sentences.count)
        ]
        for _ in self.engine.translate(texts):
            pass
        self.choice = self.translator.find_choice(path)

    @property
    def sources(self) -> list[str]:
        """The languages that it translates from."""
        return self.languages or [self.source]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of languages that it translates between."""
        return list(permutations(self.languages, 2)) or [(self.source, self.target)]

    @property
    def described(self) -> str:
        """Its languages, for messages."""
        several = ", ".join(self.languages[:SHOWN]) + ", ..." * (len(self.languages) > SHOWN)
        return f"any two of {several}" if several else f"{self.source} to {self.target}"

    def offers(self, source: str, target: str) -> "list[Offer]":
        """The model for each pair of languages that the codes may mean.

        Args:
            source: Language, or `auto`: then the target is also among the sources, so that a text
                in this language is detected.
            target: Language; empty = the model's own.
        """
        is_auto, targets = source == AUTO, [self.target] if self.target else []
        sources = self.sources if is_auto else matching_languages(source, self.sources)
        if target:
            targets = matching_languages(target, self.languages or targets)
        every = (Offer(self, *pair) for pair in product(sources, targets))
        return [each for each in every if is_auto or not each.is_copy]

    async def close(self) -> None:
        """End the thread once everything is answered and nothing holds the model open."""
        while (self.backlog.requests or self.holds) and self.thread.alive:
            await asyncio.sleep(0.05)
        await self.thread.stop()
        self.sentences.close()

    def add(self, request: ClientRequest, texts: Sequence[TranslationRequest], beams: int) -> None:
        """Encode sentences and add them to a request, to search with at least `beams` beams."""
        rows = self.engine.codec.encode([sentence.text for sentence in texts])
        for sentence, ids in zip(texts, rows, strict=True):
            search = self._search(sentence, beams)
            sentence.ids, sentence.search, sentence.owner = ids, search, request
            work = search.beams / self.search.beams * max(1, sentence.alternatives) + sentence.links
            request.sentences[sentence] = pieces = math.ceil(max(1, len(ids)) * work)
            request.pieces += pieces

    def _search(self, sentence: TranslationRequest, beams: int) -> Search:
        beams = max(beams, self.search.beams)
        if beams == 1 and self.rules.terms(sentence.text, sentence.must, sentence.must_not):
            beams = BEAMS
        if beams not in self._searches:
            self._searches[beams] = self.translator.search(beam_size=beams)
        return self._searches[beams]

    def check_room(self, request: ClientRequest, limit: int, seconds: float) -> None:
        """Check that a request can be translated, has room in the queue, and would be in time.

        Args:
            limit: Largest number of waiting pieces.
            seconds: Time until the client needs the answer.

        Raises: HTTPError if the request cannot be accepted.
        """
        if not self.thread.alive:
            raise self.thread.crash_error()
        client, pieces = request.client, request.pieces
        if pieces <= SMALL and not self.backlog.requests:
            return  # it is the only one
        if reason := self.backlog.refusal(client, pieces, limit):
            raise HTTPError(429, reason, {"retry-after": str(max(1, math.ceil(self.backlog.age)))})
        speed = self.queue.speed.pieces_per_second()
        if not speed:
            return
        needed = self.backlog.pieces_until(client, pieces) * self.search.beams / speed
        if needed > seconds:
            raise HTTPError(
                429,
                f"this would take about {needed:.0f} seconds, more than the {seconds:g} allowed: "
                "send smaller parts, allow more time (deadline), or try again later",
                {"retry-after": str(math.ceil(needed - seconds))},
            )

    def submit(self, request: ClientRequest) -> "asyncio.Future[None]":
        """Accept a request.

        Returns: a future that is done when the request is answered; cancel it to drop the request.
        """
        answer = self.thread.translate(request)
        if any(sentence.links for sentence in request.sentences):
            answer = asyncio.ensure_future(self._link_words(request, answer))
        self.backlog.requests[request] = None
        answer.add_done_callback(partial(self._leave, request))
        return answer

    def _leave(self, request: ClientRequest, answer: "asyncio.Future[None]") -> None:
        del self.backlog.requests[request]
        request.ended_at = time.monotonic()
        queued, decoded = request.seconds
        self.queue_seconds += queued
        self.decode_seconds += decoded
        if answer.cancelled() and self.thread.alive:
            self.thread.cancel(request)

    async def _link_words(self, request: ClientRequest, answer: "asyncio.Future[None]") -> None:
        """Wait until a request is translated, and link its words a few at a time between two steps.
        Linking a few takes as long as several steps; afterwards the engine gets as much time.
        """
        await answer
        translations = (
            (sentence, rank)
            for sentence in request.sentences
            for rank in range(len(sentence.result.translations[: sentence.links]))
        )
        for portion in split_by_padding(translations, longer_side, MAX_PADDED):
            async with self._linking:
                started_at = time.monotonic()
                await self.thread.compute(add_alignments, portion, self.translator.alignments)
                if self.sentences.count == 1 and len(self.backlog.requests) > 1:
                    await asyncio.sleep(time.monotonic() - started_at)

    def best_so_far(self, sentences: Sequence[TranslationRequest]) -> "asyncio.Future[list[str]]":
        """The best translations of some sentences so far; they may still change."""

        def best(sentence: TranslationRequest) -> str:
            found = sentence.result.translations
            return found[0].text if found else self.engine.best_so_far(sentence)

        return self.thread.compute(list, map(best, sentences))


class Offer(NamedTuple):
    """A model for a pair of languages."""

    model: ModelWorker
    source: str
    target: str

    @property
    def is_copy(self) -> bool:
        """True if a model of several languages would translate a language into itself."""
        return bool(self.model.languages) and self.source == self.target

    @property
    def wishes(self) -> dict[str, Any]:
        """The languages of requests, if the model needs them."""
        named = {"source_language": self.source, "target_language": self.target}
        return named if self.model.languages else {}


def longer_side(ranked: tuple[TranslationRequest, int]) -> int:
    """Number of pieces of a sentence, or of one of its translations if that has more."""
    sentence, rank = ranked
    return max(len(sentence.ids or ()), len(sentence.result.translations[rank].ids))


@contextmanager
def hold_open(models: Iterable[ModelWorker]) -> Iterator[None]:
    """Context that keeps models open, even if others replace them."""
    held = list(models)
    for model in held:
        model.holds += 1
    try:
        yield
    finally:
        for model in held:
            model.holds -= 1
