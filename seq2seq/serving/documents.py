"""Clients' files, translated a few sentences at a time and kept until they expire."""

import asyncio
import secrets
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.serving.client_request import ClientRequest, wait_for_answer
from seq2seq.serving.document_handle import DocumentHandle
from seq2seq.serving.errors import HTTPError, log
from seq2seq.serving.event_loop import Value, run_off_loop
from seq2seq.serving.glossaries import Terms, build_glossary, require_phrases
from seq2seq.serving.model_worker import Offer, hold_open
from seq2seq.serving.service import Service
from seq2seq.serving.storage import DOCUMENTS, Record
from seq2seq.serving.texts import choose_offer, foreign_text
from seq2seq.serving.validation import AUTO, Entry, UploadedFile
from seq2seq.translation.documents import links_of, request_sentence
from seq2seq.translation.request import Translation, TranslationRequest

OPENING = 300  # seconds until a file must have been read, including the wait for its turn
SECONDS = 3600  # until a document must be translated
CHARACTERS = 10**6  # of a document
MAX_PROBLEMS = 20  # of a document that are reported to its client
STOPPED = "the server stopped before the document was translated: send it again"
NOT_KEPT = "the translation could not be saved: the server's log says why"
LEFT = 499  # status of a document that its client no longer waits for


class ClientDocument:
    """A client's file. `open` reads it and keeps a record of it; `finish` translates it and keeps
    the translation.

    Attributes:
        record, offer, glossary: Record of the file, the model that translates it with the
            languages, and the client's terms; set by `open`.
        place, lock: Place of the record, and the file that locks it; set by `open`.
        turns: Context that ends the file's process and lets the client send another document; set
            by `open`.
        problems: Messages about the translation.
    """

    def __init__(self, service: Service, client: str, file: UploadedFile):
        self.service, self.client, self.storage = service, client, service.find_storage()
        self.handle = DocumentHandle(file, file.data)
        self.problems: list[str] = []

    async def open(self, source: str, models: Sequence[Offer], terms: Terms) -> None:
        """Read the file, and choose the first of `models` that translates its language."""
        async with AsyncExitStack() as turns:
            turns.enter_context(self.service.documents.admit(self.client))
            with hold_open({each.model for each in models}):
                async with self.service.documents.turn(self.client):
                    await turns.enter_async_context(self.handle)
                    characters = await self.read(source, models)
                turns.enter_context(hold_open([self.offer.model]))
            size = 100 * len(terms)
            self.glossary = await run_off_loop(size, build_glossary, terms, self.offer.source)
            facts = {
                "name": PurePath(self.handle.name.replace("\\", "/")).name[-100:],
                "key": secrets.token_hex(32),
                "characters": characters,
                "status": "translating",
            }
            keep = self.storage.create
            self.record = await asyncio.to_thread(keep, DOCUMENTS, self.client, facts, b"")
            self.place = DOCUMENTS, self.client, self.record.id
            self.lock = await asyncio.to_thread(self.storage.lock, *self.place)
            self.service.characters += characters
            self.turns = turns.pop_all()

    async def read(self, source: str, models: Sequence[Offer]) -> int:
        """Let the process read the file. Returns: the number of characters.

        Raises: HTTPError if there are too many, or no model translates the language; others as for
            `DocumentHandle.ask`.
        """
        name, self.offer = self.handle.name, models[0]
        if source == AUTO:
            sample, _ = await self.handle.ask("sample")
            chosen, detected = await asyncio.to_thread(choose_offer, models, sample["sample"])
            if not chosen:
                raise foreign_text(name, detected, models)
            self.offer = chosen
        whole = self.offer.model.choice is not None
        facts, _ = await self.handle.ask("open", language=self.offer.source, whole=whole)
        characters, longest = int(facts["characters"]), facts["longest"]
        if characters > CHARACTERS:
            raise HTTPError(413, f"{name} has {characters:,} characters, more than {CHARACTERS:,}")
        if longest > (limit := self.service.limits.characters):
            message = f"{name} has a sentence of {longest:,} characters, more than {limit:,}"
            raise HTTPError(413, f"{message}: add full stops or line breaks")
        return characters

    async def finish(self) -> Record:
        """Translate the file, and keep the translation, or the error if there was one; keep nothing
        for a client that has left. Raises: HTTPError if it cannot be translated or kept.
        """
        try:
            return await explain_end(self.service, self.translate_and_keep())
        except HTTPError as error:
            facts = {**self.record.metadata, "status": "error", "message": str(error)}
            try:
                if error.status == LEFT:
                    await asyncio.to_thread(self.storage.delete, *self.place)
                else:
                    await self.keep(facts, b"")
            except (OSError, Seq2SeqError):
                self.service.documents.unsaved.add(self.record.id)
            raise
        finally:
            self.lock.close()

    async def translate_and_keep(self) -> Record:
        async with self.turns, asyncio.timeout(SECONDS):
            await self.translate_portions()
            async with self.service.documents.turn(self.client):
                written, data = await self.handle.ask("write", target=self.offer.target)
        problems = [*self.problems, *written["problems"]][:MAX_PROBLEMS]
        facts = {**self.record.metadata, "status": "done", "problems": problems}
        try:
            return await self.keep(facts, data)
        except (OSError, ConfigError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            log.error("the translation of a document could not be saved: %s", reason)
            message = NOT_KEPT if isinstance(error, OSError) else str(error)
            raise HTTPError(507, message) from error

    async def keep(self, facts: dict[str, Any], data: bytes) -> Record:
        """Replace the content of the record; errors as for `Storage.update`."""
        return await asyncio.to_thread(self.storage.update, *self.place, lambda _: (facts, data))

    async def translate_portions(self) -> None:
        """Translate the sentences in portions, each as soon as there is room for it."""
        model, answers, numbers = self.offer.model, list[Any](), count(1)
        named, earlier = self.offer.wishes, deque[str](maxlen=model.context)
        while sentences := (await self.handle.ask("next", translations=answers))[0]["sentences"]:
            places = (f"sentence {number:,}" for number in numbers)
            requests = []
            for each in sentences:
                wishes = {"context": [*earlier], "place": next(places), **named}
                requests.append(request_sentence(**each, **wishes))
                earlier.append(each["sentence"])
            size = sum(len(each.text) for each in requests)
            await run_off_loop(size, require_phrases, requests, self.glossary)
            portion = ClientRequest(self.client)
            await run_off_loop(size, model.add, portion, requests, 1)
            async with model.document_turn:
                await self.wait_for_room(portion)
                await model.submit(portion)
            answers = await run_off_loop(size, list, map(self.answer, requests))

    async def wait_for_room(self, portion: ClientRequest) -> None:
        """Wait until there is room in the queue for a portion."""
        limits = self.service.limits
        while True:
            try:
                return self.offer.model.check_room(portion, limits.queue, limits.deadline)
            except HTTPError as error:
                if error.status != 429:
                    raise
            await asyncio.sleep(1)

    def answer(self, sentence: TranslationRequest) -> Any:
        """The translation of a sentence with the links between its words, in the form that the
        process reads. A sentence that could not be translated is left unchanged.
        """
        problems = sentence.result.problems
        self.problems += [each.at(sentence.place) for each in problems if each.kind != "parts"]
        best = (*sentence.result.translations, Translation(sentence.text, 0.0))[0]
        links = links_of(best, self.offer.model.choice)
        return best.text, links and (*links[:2], list(links.links), links.nearest)


async def accept_document(
    service: Service, request: Request, entry: Entry, languages: tuple[str, str], terms: Terms = ()
) -> tuple[Record, "asyncio.Task[Record]"]:
    """Start to translate a file.

    Args:
        entry: Fields of the request, including the file.
        languages: Source and target, as for `Service.find_models`.
        terms: Terms with their translations.

    Returns: the record of the file, and a task whose result is the record of the translation;
        cancelling the task drops the document.
    Raises: HTTPError or DataError if the file cannot be translated; ConfigError if this server
        keeps nothing; ClientDisconnect if the client leaves before the file is read.
    """
    models, file = service.find_models(*languages), entry.pop("file")
    if not isinstance(file, UploadedFile):
        raise HTTPError(400, "file should be sent as a part of a multipart form, with a file name")
    document = ClientDocument(service, request.state.client, file)
    opening = explain_end(service, document.open(languages[0], models, terms))
    await wait_for_answer(service.documents.run(opening), request.receive, OPENING)
    return document.record, service.documents.run(document.finish())


async def explain_end(service: Service, work: Coroutine[Any, Any, Value]) -> Value:
    """The result of work on a document. Raises: HTTPError if the work fails or is cancelled."""
    try:
        return await work
    except TimeoutError:
        raise HTTPError(504, f"not translated within {SECONDS:,} seconds") from None
    except asyncio.CancelledError:
        if service.draining:
            raise HTTPError(503, STOPPED) from None
        raise HTTPError(LEFT, "the client has disconnected") from None
    except Exception as error:
        raise HTTPError.from_exception(error) from error


async def find_record(service: Service, request: Request) -> Record:
    """The document named in the path of a request. Its status is `error` if the server that should
    have translated it has ended.

    Raises: UnknownRecordError if the client has no such document.
    """
    storage = service.find_storage()
    place = DOCUMENTS, request.state.client, request.path_params["document_id"]
    for _ in range(2):  # the document may have been finished while this looked for its lock
        record = await asyncio.to_thread(storage.read, *place)
        if record.metadata["status"] != "translating":
            return record
        unsaved = record.id in service.documents.unsaved
        if not unsaved and await asyncio.to_thread(storage.is_locked, *place):
            return record
    facts = {"status": "error", "message": NOT_KEPT if unsaved else STOPPED}
    return record._replace(metadata=record.metadata | facts)


def send_document(record: Record) -> Response:
    """The response with a translated document. Raises: HTTPError if it is not translated."""
    if record.metadata["status"] != "done":
        message = record.metadata.get("message", "the document is still being translated")
        raise HTTPError(503, message)
    name = quote(record.metadata["name"], safe="")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(record.content, 200, headers, "application/octet-stream")
