"""The service: its models and limits, and the way of a text to its translations."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from seq2seq.base.errors import ConfigError, format_count
from seq2seq.base.symbols import EOS
from seq2seq.serving.auth import read_keys
from seq2seq.serving.client_request import ClientRequest
from seq2seq.serving.document_turns import DocumentTurns
from seq2seq.serving.errors import HTTPError, retrieve_error
from seq2seq.serving.glossaries import build_glossary, require_phrases
from seq2seq.serving.languages import DetectedLanguage, check_detector, detect, english_name
from seq2seq.serving.load import Lag
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.off_loop import run_off_loop
from seq2seq.serving.storage import Storage
from seq2seq.serving.validation import AUTO
from seq2seq.text.documents.document import Document, Split
from seq2seq.text.documents.markup import Reader
from seq2seq.text.documents.sentences import LIBRARY_ADVICE, lacks_library
from seq2seq.text.languages import likeness, read_language
from seq2seq.translation.documents import join_translations, requests_of
from seq2seq.translation.request import Translation, TranslationRequest

GRACE = 8  # seconds: `docker stop` allows 10
EMPTY = Translation("", 0.0, [EOS], (0.0,))

Terms = Sequence[tuple[str, str]]  # each with its translation
Requests = dict[ModelWorker, ClientRequest]

log = logging.getLogger("seq2seq.serving")


@dataclass(frozen=True)
class Limits:
    """Limits of what the service does at a time.

    Attributes:
        queue: pieces of all texts that a model has accepted and not answered; of one client, half
            of it counts at most. By default, this half has room for a text of as many characters
            as are allowed.
        deadline: seconds until an answer, unless the client names its own.
        characters: of all texts of a request.
        beam_size: beams, and alternatives.
        body: bytes; of one with a file, `file`.
        patience: seconds until a body must have arrived.
        connections: open connections, and requests that are answered at once.
    """

    queue: int = 40_960
    deadline: float = 30.0
    characters: int = 20_000
    beam_size: int = 10
    body: int = 2**20
    file: int = 2**23
    patience: float = 10.0
    connections: int = 512


@dataclass
class ClientText:
    """A text of a client's request, and the translations of its sentences.

    Attributes:
        detected: its language, if that was not given.
        refusal: why it is answered as it is, if it is in a language of no model.
    """

    model: ModelWorker
    document: Document
    sentences: list[TranslationRequest]
    detected: DetectedLanguage | None
    refusal: HTTPError | None = None

    @property
    def source(self) -> str:
        """Its language."""
        return self.detected.language if self.refusal and self.detected else self.model.source

    @property
    def problems(self) -> list[str]:
        """Messages: the reason of the refusal, or what is wrong with translations of sentences, but
        for those that are in parts or cut off, which are translations all the same.
        """
        if self.refusal:
            return [str(self.refusal)]
        found = [(n, each.result.problems) for n, each in enumerate(self.sentences, start=1)]
        usual = "parts", "truncated"
        return [p.at(f"sentence {n:,}") for n, each in found for p in each if p.kind not in usual]

    @property
    def size(self) -> int:
        """Characters of its sentences."""
        return sum(len(each.text) for each in self.sentences)

    def translations(self) -> list[list[Translation]]:
        """Of each sentence, at least one: a sentence without any pieces has an empty one."""
        return [each.result.translations or [EMPTY] for each in self.sentences]

    def translation(self, rank: int = 0) -> str:
        """The text of the translations of a rank, or of the last one if a sentence has fewer."""
        chosen = [each[min(rank, len(each) - 1)] for each in self.translations()]
        return join_translations(self.document, chosen, self.model.choice, self.model.target)

    def alternatives(self, count: int) -> list[str]:
        """The texts of the next ranks, at most `count`, each only once."""
        ranks = range(1, min(count + 1, max(map(len, self.translations()), default=0)))
        return list(dict.fromkeys(map(self.translation, ranks)))


class Service:
    """The models by name, the limits, and the keys of clients.

    Args:
        builders: functions that load the models, by name.
        keys: one of which every client must send; None = nobody needs any.
        keys_file: from which they are read again by each load but the first.
        storage: of what clients give to be kept; None = nothing is.
        grace: as the attribute.

    Attributes:
        models: in the order of the builders; none while they are loaded.
        draining: are new requests refused?
        characters: translated since the start.
        documents: those that are being translated.
        grace: seconds for which documents may go on when the server drains.
        lag: of the event loop.
        body_bytes: `used` of `Body`.
    """

    def __init__(
        self,
        builders: Mapping[str, Callable[[], ModelWorker]],
        limits: Limits | None = None,
        keys: Sequence[bytes] | None = None,
        keys_file: Path | None = None,
        storage: Storage | None = None,
        grace: float = GRACE,
    ):
        self.builders, self.limits, self.grace = builders, limits or Limits(), grace
        self.keys, self.keys_file, self.storage = keys, keys_file, storage
        self.models: dict[str, ModelWorker] = {}
        self.draining = False
        self.characters = 0
        self.documents = DocumentTurns()
        self.lag = Lag()
        self.body_bytes = [0, 0]
        self._loading = asyncio.Lock()
        self._preparing = 0  # requests that threads split or encode for a model

    async def load(self) -> None:
        """Load all models, and then let them replace the old ones, which answer what they have
        accepted. Raises: Seq2SeqError, and then no model has changed.
        """
        async with self._loading:
            if self.models and self.keys_file:
                try:
                    self.keys = read_keys(self.keys_file)
                except (OSError, ConfigError) as error:
                    log.error("keys not read again, so they are as they were: %s", error)
            loaded: dict[str, ModelWorker] = {}
            try:
                for name, build in self.builders.items():
                    loaded[name] = await asyncio.to_thread(build)
                sources = {model.source for model in loaded.values()}
                await asyncio.to_thread(check_detector, sources)
            except BaseException:
                for model in loaded.values():
                    await model.close()
                raise
            if any(lacks_library(model.source) for model in loaded.values()):
                log.warning(LIBRARY_ADVICE)
            replaced, self.models = self.models, loaded
            for model in loaded.values():
                model.thread.start()
                pair = f"{model.source}-{model.target}"
                log.info("ready: %s (%s), %s", model.name, pair, model.arithmetic)
        await self._close(replaced)
        # Later collections skip what stays: looking at it all takes a fifth of a second, in which
        # nobody is answered.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        # Nor may it look at the thousands of translations of a large request again and again.
        gc.set_threshold(*gc.get_threshold()[:2], 1000)

    async def drain(self) -> None:
        """Answer what was accepted, and refuse everything else. Documents that are not finished
        within `grace` seconds end with an error.
        """
        self.draining = True
        count, rest = len(self.documents.tasks), "accepted texts are answered, new ones are refused"
        what = f"{format_count(count, 'document')} in progress, which may take {self.grace:g} s"
        log.info("draining: %s (--grace); %s", what, rest)
        if late := await self.documents.finish(self.grace):
            log.warning("%s not finished, and got an error", format_count(late, "document"))
        await self._close(self.models)

    async def _close(self, models: Mapping[str, ModelWorker]) -> None:
        """Close models, which have answered what is being prepared for them, too."""
        for _ in range(100):  # others go on sending requests to new models
            if self._preparing:
                await asyncio.sleep(0.01)
        await asyncio.gather(*(model.close() for model in models.values()))

    def find_storage(self) -> Storage:
        """The storage. Raises: ConfigError if nothing is kept."""
        if self.storage is None:
            raise ConfigError(
                "this server keeps nothing of its clients; to keep glossaries, suggestions and "
                "documents, start it with --keep-in FOLDER"
            )
        return self.storage

    def check_length(self, *texts: str) -> None:
        """Raises: HTTPError for too many characters."""
        length, limit = sum(map(len, texts)), self.limits.characters
        if length > limit:
            raise HTTPError(413, f"{length:,} characters; at most {limit:,} are translated at once")

    def find_models(
        self, source: str = AUTO, target: str = "", name: str = ""
    ) -> list[ModelWorker]:
        """The models for some languages, those for just these variants first; arguments as in
        `split`. A language in another script is another language.

        Raises: HTTPError if there is none, or if no request is accepted now.
        """
        if self.draining:
            headers = {"retry-after": "5", "connection": "close"}
            raise HTTPError(503, "the server is about to stop", headers)
        models = list(self.models.values())
        if not models:
            raise HTTPError(503, "the models are being loaded", {"retry-after": "5"})

        def fit(model: ModelWorker) -> int:
            fits = 1 if source == AUTO else likeness(source, model.source)
            fits *= likeness(target, model.target) if target else 1
            return fits if name in ("", model.name) else 0

        matching = sorted(filter(fit, models), key=fit, reverse=True)
        if not matching:
            known = ", ".join(f"{m.source} to {m.target} ({m.name})" for m in models)
            what = f"model {name[:50]!r}" if name else f"{source[:20]!r} to {target[:20]!r}"
            raise HTTPError(400, f"{what} is not supported. Supported: {known}")
        for wanted, offered in ((source, matching[0].source), (target, matching[0].target)):
            if read_language(wanted).is_known and likeness(wanted, offered) == 1:
                log_variant(read_language(wanted).tag, offered)
        return matching

    async def split(self, texts: Sequence[str], *languages: str, **more: Any) -> list[ClientText]:
        """Split texts off the event loop; arguments and errors as of `split_now`."""
        size = sum(map(len, texts)) + 100 * len(more.get("terms", ()))
        return list(await self._prepare(size, self.split_now, texts, *languages, **more))

    async def _prepare(self, size: int, *work: Any, **more: Any) -> Any:
        self._preparing += 1
        try:
            return await run_off_loop(size, *work, **more)
        finally:
            self._preparing -= 1

    def split_now(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        name: str = "",
        read: Reader | None = None,
        split: Split | None = None,
        terms: Terms = (),
        **wishes: Any,
    ) -> list[ClientText]:
        """Split texts into sentences, each text for the first model that has its languages. Beside
        others, a text in a language of no model has no sentences, and a refusal.

        Args:
            source: a language, or `auto`.
            target: a language; empty = any.
            name: of the model; empty = any.
            read, split: as in `Document.of`.
            terms: how terms are translated.
            wishes: as in `requests_of`.

        Raises: HTTPError if there is no such model, for too many characters, and if all texts are
            in languages of no model, unless the model is named; ConfigError if a language cannot
            be detected.
        """
        self.check_length(*texts)
        models = self.find_models(source, target, name)
        glossary = cache(partial(build_glossary, terms))  # by language
        client_texts: list[ClientText] = []
        for text_no, text in enumerate(texts, start=1):
            model, detected = models[0], None
            if source == AUTO:
                detected = detect(text, [each.source for each in models], html=read is not None)
                matching = [each for each in models if each.source == detected.language]
                if not (matching or name):
                    refusal = foreign_text(f"text {text_no}", detected, models)
                    untouched = Document([], [], [], [text], False)
                    client_texts.append(ClientText(model, untouched, [], detected, refusal))
                    continue
                model = (matching or models)[0]
            whole = model.choice is not None
            document = Document.of(text, model.source, read=read, split=split, whole=whole)
            sentences = requests_of(document, **wishes)
            if terms:
                require_phrases(sentences, glossary(model.source))
            client_texts.append(ClientText(model, document, sentences, detected))
        refusals = [each.refusal for each in client_texts if each.refusal]
        if refusals and len(refusals) == len(texts):
            raise refusals[0]
        return client_texts

    async def submit(
        self,
        texts: Sequence[ClientText],
        request: Request,
        *,
        beams: int = 1,
        seconds: float | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Accept a request, and begin to translate its texts.

        Args:
            beams: of the search, at least.
            seconds: until the answer must be there; None = as for all.

        Returns: ends when all texts are translated, or with an error; cancels the request if the
            client disconnects or the time is over.
        Raises: HTTPError if there is no room, or too little time.
        """
        seconds = seconds or self.limits.deadline
        size = sum(text.size for text in texts)
        requests = {text.model: ClientRequest(request.state.client) for text in texts}
        await self._prepare(size, add_sentences, texts, requests, beams)
        for model, part in requests.items():
            model.check_room(part, self.limits.queue, seconds)
        self.characters += size
        request.state.parts = list(requests.values())
        parts = [model.submit(part) for model, part in requests.items() if part.sentences]
        answer = asyncio.gather(*parts)
        answer.add_done_callback(retrieve_error)
        return wait_for_answer(answer, request.receive, seconds)


def add_sentences(texts: Sequence[ClientText], requests: Requests, beams: int) -> None:
    """Add the sentences of texts to the requests to their models, with at least so many beams."""
    for text in texts:
        text.model.add(requests[text.model], text.sentences, beams)


@lru_cache(maxsize=256)  # each pair is logged once
def log_variant(wanted: str, offered: str) -> None:
    log.info("%s is answered by the model for %s", wanted, offered)


def foreign_text(what: str, detected: DetectedLanguage, models: Sequence[ModelWorker]) -> HTTPError:
    """The refusal of a text in a language that none of the models translates from."""
    supported = ", ".join(dict.fromkeys(each.source for each in models))
    return HTTPError(
        400,
        f"{what} seems to be {english_name(detected.language)}, from which nothing is "
        f"translated here. Supported: {supported}. If it is one of these, name the source language "
        "instead of auto",
    )


async def wait_for_answer(answer: "asyncio.Future[Any]", receive: Receive, seconds: float) -> None:
    """Wait for an answer, which is cancelled when the client disconnects or the time is over.

    Raises: ClientDisconnect or HTTPError then, and whatever the answer raises.
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
