"""Files of clients: translated a few sentences at a time, and kept until they expire."""

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from seq2seq.documents.files.contents import Contents, Cutter
from seq2seq.documents.files.formats import open_file
from seq2seq.serving.client_request import ClientRequest
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.glossaries import require_terms
from seq2seq.serving.languages import detect
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import ClientText, Service, retrieve_error
from seq2seq.serving.storage import DOCUMENTS, Record
from seq2seq.serving.validation import UploadedFile
from seq2seq.translation.documents import requests_of

SECONDS = 3600  # in which a document must be translated
CHARACTERS = 10**6  # of a document
AT_ONCE = 4  # documents of a client that are translated
PORTION = 16  # sentences that are in the queue: a document never takes more room in it
SAMPLE = 2000  # characters by which a language is detected

Answer = asyncio.Future[None]


async def accept_document(
    service: Service,
    request: Request,
    entry: dict[str, Any],
    languages: tuple[str, str],
    terms: Sequence[tuple[str, str]] = (),
) -> tuple[Record, Answer]:
    """Begin to translate a file.

    Args:
        entry: with the file.
        languages: source and target, as of `Service.find_models`.
        terms: with their translations.

    Returns: its record, and what ends when it is translated; cancel it to drop the document.
    Raises: HTTPError or DataError if that is not possible; ConfigError if nothing is kept.
    """
    storage, client, file = service.find_storage(), request.state.client, entry["file"]
    models = service.find_models(*languages)
    if not isinstance(file, UploadedFile):
        raise HTTPError(400, "file should be a part of a form that has a file name")
    if service.documents[client] >= AT_ONCE:
        message = f"{AT_ONCE} documents of yours are being translated: wait for one of them"
        raise HTTPError(429, message, {"retry-after": "10"})
    service.documents[client] += 1
    try:
        contents, texts = await asyncio.to_thread(read_texts, models, file, terms)
        name = PurePath(file.replace("\\", "/")).name[-100:]
        characters = sum(len(each.text) for text in texts for each in text.sentences)
        key = secrets.token_hex(32)
        facts = {"name": name, "key": key, "status": "translating", "characters": characters}
        record = await asyncio.to_thread(storage.create, DOCUMENTS, client, facts, b"")
    except BaseException:
        service.documents -= {client: 1}
        raise
    service.characters += characters
    answer = asyncio.ensure_future(finish_document(service, client, record, contents, texts))
    answer.add_done_callback(retrieve_error)
    return record, answer


def read_texts(
    models: Sequence[ModelWorker], file: UploadedFile, terms: Sequence[tuple[str, str]]
) -> tuple[Contents, list[ClientText]]:
    """The contents of a file, and the requests for its sentences."""
    model = models[0]
    if len({each.source for each in models}) > 1:
        documents = open_file(file, file.data, Cutter(None)).documents
        sample = " ".join(" ".join(each.sentences) for each in documents[:100])[:SAMPLE]
        language = detect(sample, [each.source for each in models]).language
        model = next((each for each in models if each.source == language), model)
    contents = open_file(file, file.data, Cutter(model.source, model.choice is not None))
    texts = [ClientText(model, each, requests_of(each), None) for each in contents.documents]
    length = sum(len(each.text) for text in texts for each in text.sentences)
    if length > CHARACTERS:
        raise HTTPError(413, f"{length:,} characters; a document may have {CHARACTERS:,}")
    require_terms(texts, terms)
    return contents, texts


async def finish_document(
    service: Service, client: str, record: Record, contents: Contents, texts: list[ClientText]
) -> None:
    """Translate a document, and keep it, or the reason why it is not. Raises: what went wrong."""
    storage = service.find_storage()
    facts, data = {**record.metadata, "status": "error", "message": "its client has left"}, b""
    try:
        async with asyncio.timeout(SECONDS):
            await translate_portions(service, client, texts)
        data = await asyncio.to_thread(write_texts, contents, texts)
        facts = {**record.metadata, "status": "done"}
    except TimeoutError:
        facts["message"] = f"not translated within {SECONDS:,} seconds"
        raise HTTPError(504, facts["message"]) from None
    except Exception as error:
        facts["message"] = str(HTTPError.from_exception(error))
        raise
    finally:
        service.documents -= {client: 1}
        await asyncio.shield(
            asyncio.to_thread(
                storage.update, DOCUMENTS, client, record.id, lambda record: (facts, data)
            )
        )


def write_texts(contents: Contents, texts: Sequence[ClientText]) -> bytes:
    """A file with its texts as they are translated."""
    return contents.write([each.translation() for each in texts])


async def translate_portions(service: Service, client: str, texts: Sequence[ClientText]) -> None:
    """Translate sentences a portion at a time, as soon as there is room for it."""
    sentences = [sentence for text in texts for sentence in text.sentences]
    for begin in range(0, len(sentences), PORTION):
        portion, model = ClientRequest(client), texts[0].model
        model.add(portion, sentences[begin : begin + PORTION], 1)
        while True:
            try:
                model.check_room(portion, service.limits.queue, service.limits.deadline)
                break
            except HTTPError as error:
                if error.status != 429:
                    raise
            await asyncio.sleep(1)
        await model.submit(portion)


async def find_record(service: Service, request: Request) -> Record:
    """The document that the path of a request names.

    Raises: UnknownRecordError if it is none of the client's.
    """
    read, document_id = service.find_storage().read, request.path_params["document_id"]
    return await asyncio.to_thread(read, DOCUMENTS, request.state.client, document_id)


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
