"""Files of clients: translated a few sentences at a time, and kept until they expire."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from seq2seq.constraints.glossary import Glossary
from seq2seq.serving.client_request import ClientRequest
from seq2seq.serving.document_handle import DocumentHandle
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.glossaries import build_glossary, require_phrases
from seq2seq.serving.languages import detect
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.off_loop import document_thread
from seq2seq.serving.service import Service, foreign_text, wait_for_answer
from seq2seq.serving.storage import DOCUMENTS, Record, Storage
from seq2seq.serving.validation import UploadedFile
from seq2seq.translation.documents import links_of, request_of
from seq2seq.translation.request import Translation

OPENING = 300  # seconds in which a file must be read, also if others are read before
SECONDS = 3600  # in which a document must be translated
CHARACTERS = 10**6  # of a document
MAX_PROBLEMS = 20  # of a document that its client is told
STOPPED = "the server stopped: send it again"

Value = TypeVar("Value")


@dataclass
class OpenDocument:
    """A file that its process has read, and what is needed to translate it.

    Attributes:
        turns: ends the process, and lets the client send the next document.
        problems: messages about its translation.
    """

    handle: DocumentHandle
    turns: AsyncExitStack
    client: str
    model: ModelWorker
    glossary: Glossary
    record: Record
    problems: list[str] = field(default_factory=list)


async def accept_document(
    service: Service,
    request: Request,
    entry: dict[str, Any],
    languages: tuple[str, str],
    terms: Sequence[tuple[str, str]] = (),
) -> tuple[Record, "asyncio.Task[Record]"]:
    """Begin to translate a file.

    Args:
        entry: with the file.
        languages: source and target, as of `Service.find_models`.
        terms: with their translations.

    Returns: its record, and the work on it, whose result is the record of the translation; cancel
        it to drop the document.
    Raises: HTTPError or DataError if that is not possible; ConfigError if nothing is kept;
        ClientDisconnect if the client leaves before the file is read.
    """
    service.find_storage()
    models, file = service.find_models(*languages), entry.pop("file")
    if not isinstance(file, UploadedFile):
        raise HTTPError(400, "file should be a part of a form that has a file name")
    work = open_document(service, request.state.client, languages[0], models, file, terms)
    opening = service.documents.run(explain_end(service, work))
    await wait_for_answer(opening, request.receive, OPENING)
    document = opening.result()
    return document.record, service.documents.run(finish_document(service, document))


async def explain_end(service: Service, work: Coroutine[Any, Any, Value]) -> Value:
    """The result of work on a document. Raises: HTTPError if it fails, or is cancelled."""
    try:
        return await work
    except TimeoutError:
        raise HTTPError(504, f"not translated within {SECONDS:,} seconds") from None
    except asyncio.CancelledError:
        raise HTTPError(503, STOPPED if service.draining else "its client has left") from None
    except Exception as error:
        raise HTTPError.from_exception(error) from error


async def open_document(
    service: Service,
    client: str,
    source: str,
    models: Sequence[ModelWorker],
    file: UploadedFile,
    terms: Sequence[tuple[str, str]],
) -> OpenDocument:
    """Read a file, and keep a record of it."""
    async with AsyncExitStack() as turns:
        turns.enter_context(service.documents.admit(client))
        async with service.documents.turn(client):
            handle = await turns.enter_async_context(DocumentHandle(file, file.data))
            model, characters = await read_document(service, handle, source, models)
        glossary = await in_thread(build_glossary, terms, model.source)
        name = PurePath(file.replace("\\", "/")).name[-100:]
        facts = {"name": name, "key": secrets.token_hex(32), "characters": characters}
        record = await asyncio.to_thread(create_record, service.find_storage(), client, facts)
        service.characters += characters
        return OpenDocument(handle, turns.pop_all(), client, model, glossary, record)
    raise AssertionError("unreachable")


async def read_document(
    service: Service, handle: DocumentHandle, source: str, models: Sequence[ModelWorker]
) -> tuple[ModelWorker, int]:
    """Let a file be read for the first model that has its language.

    Returns: the model, and the characters of the file.
    Raises: HTTPError for too many, and for a file in a language of none of the models; others as
        `DocumentHandle.ask`.
    """
    model = models[0]
    if source == "auto":
        sample, _ = await handle.ask("sample")
        sources = [each.source for each in models]
        detected = await in_thread(detect, sample["sample"], sources)
        matching = [each for each in models if each.source == detected.language]
        if not matching:
            raise foreign_text(handle.name, detected, models)
        model = matching[0]
    facts, _ = await handle.ask("open", language=model.source, whole=model.choice is not None)
    if facts["characters"] > CHARACTERS:
        message = f"{facts['characters']:,} characters; a document may have {CHARACTERS:,}"
        raise HTTPError(413, message)
    if facts["longest"] > service.limits.characters:
        raise HTTPError(
            413,
            f"it has a sentence of {facts['longest']:,} characters; one may have "
            f"{service.limits.characters:,}: add full stops or line breaks",
        )
    return model, facts["characters"]


def create_record(storage: Storage, client: str, facts: dict[str, Any]) -> Record:
    """Keep the record of a document that this server is about to translate."""
    facts = facts | {"status": "translating", "server": storage.server_id()}
    return storage.create(DOCUMENTS, client, facts, b"")


async def finish_document(service: Service, document: OpenDocument) -> Record:
    """Translate a document, and keep it, or the reason why it is not. Raises: HTTPError."""
    facts, data = {**document.record.metadata, "status": "error"}, b""
    try:
        data = await explain_end(service, translate_document(service, document))
        facts |= {"status": "done", "problems": document.problems[:MAX_PROBLEMS]}
    except HTTPError as error:
        facts["message"] = str(error)
        raise
    finally:
        update = partial(service.find_storage().update, DOCUMENTS, document.client)
        keep = asyncio.to_thread(update, document.record.id, lambda record: (facts, data))
        await asyncio.shield(keep)
    return document.record._replace(metadata=facts)


async def translate_document(service: Service, document: OpenDocument) -> bytes:
    """The file with its translations."""
    async with document.turns, asyncio.timeout(SECONDS):
        await translate_portions(service, document)
        async with service.documents.turn(document.client):
            written, data = await document.handle.ask("write", target=document.model.target)
    document.problems += written["problems"]
    return data


async def translate_portions(service: Service, document: OpenDocument) -> None:
    """Translate sentences a portion at a time, as soon as there is room for it."""
    model, answers, count = document.model, list[Any](), 0
    while sentences := (await document.handle.ask("next", translations=answers))[0]["sentences"]:
        portion = ClientRequest(document.client)
        await in_thread(add_sentences, document, portion, sentences, count)
        count += len(sentences)
        async with model.document_turn:
            await wait_for_room(service, model, portion)
            await model.submit(portion)
        answers = await in_thread(answers_of, document, portion)


async def wait_for_room(service: Service, model: ModelWorker, portion: ClientRequest) -> None:
    """Wait until there is room in the queue for a portion."""
    while True:
        try:
            return model.check_room(portion, service.limits.queue, service.limits.deadline)
        except HTTPError as error:
            if error.status != 429:
                raise
        await asyncio.sleep(1)


def add_sentences(
    document: OpenDocument, portion: ClientRequest, sentences: Sequence[dict[str, Any]], before: int
) -> None:
    """Add the requests for some sentences, of which so many were before, to a portion."""
    requests = [request_of(**each) for each in sentences]
    for number, request in enumerate(requests, start=before + 1):
        request.place = f"sentence {number:,}"
    require_phrases(requests, document.glossary)
    document.model.add(portion, requests, 1)


def answers_of(document: OpenDocument, portion: ClientRequest) -> list[Any]:
    """The translations of sentences, with the links of their words, as the process gets them. A
    sentence without a translation stays as it is.
    """
    answers: list[Any] = []
    for sentence in portion.sentences:
        problems = sentence.result.problems
        document.problems += [each.at(sentence.place) for each in problems if each.kind != "parts"]
        best = (*sentence.result.translations, Translation(sentence.text, 0.0))[0]
        links = links_of(best, document.model.choice)
        answers.append((best.text, links and (*links[:2], list(links.links), links.nearest)))
    return answers


async def in_thread(function: Callable[..., Value], *arguments: Any) -> Value:
    """The value of a function that takes some milliseconds. Documents wait for each other, and for
    nobody else.
    """
    return await asyncio.get_running_loop().run_in_executor(
        document_thread, partial(function, *arguments)
    )


async def find_record(service: Service, request: Request) -> Record:
    """The document that the path of a request names. It has an error if the server that was to
    translate it has ended.

    Raises: UnknownRecordError if it is none of the client's.
    """
    client, document_id = request.state.client, request.path_params["document_id"]
    return await asyncio.to_thread(read_record, service.find_storage(), client, document_id)


def read_record(storage: Storage, client: str, document_id: str) -> Record:
    """`find_record`, which waits for the disk."""
    for _ in range(2):  # it may have been finished while the server was looked for
        record = storage.read(DOCUMENTS, client, document_id)
        facts = record.metadata
        if facts["status"] != "translating" or storage.is_running(facts.get("server", "")):
            return record
    return record._replace(metadata={**facts, "status": "error", "message": STOPPED})


def send_document(record: Record) -> Response:
    """The response that is a document. Raises: HTTPError if it is not translated."""
    if record.metadata["status"] != "done":
        raise HTTPError(503, record.metadata.get("message", "it is being translated"))
    name = quote(record.metadata["name"], safe="")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "x-content-type-options": "nosniff",
    }
    return Response(record.content, 200, headers, "application/octet-stream")
