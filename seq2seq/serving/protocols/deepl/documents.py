"""Documents in DeepL's protocol: sent, asked for until they are translated, fetched once."""

import asyncio
import hmac
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from seq2seq.serving.documents import accept_document, find_record, send_document
from seq2seq.serving.protocols.deepl.glossaries import read_terms
from seq2seq.serving.service import Routes, Service
from seq2seq.serving.storage import DOCUMENTS, Record, UnknownRecordError
from seq2seq.serving.validation import Entry, UploadedFile


async def upload(service: Service, request: Request, entry: Entry) -> Any:
    """Begin to translate a document. Returns: its id, and the key that its client must know."""
    if "filename" in entry and isinstance(entry["file"], UploadedFile):
        entry["file"] = UploadedFile(entry["filename"], entry["file"].data)
    terms = await read_terms(service, request, entry)
    languages = entry["source_lang"], entry["target_lang"]
    record, _ = await accept_document(service, request, entry, languages, terms)
    return {"document_id": record.id, "document_key": record.metadata["key"]}


async def get_status(service: Service, request: Request, entry: Entry) -> Any:
    """The state of a document: `translating`, `done` or `error`."""
    record = await find_document(service, request, entry)
    facts = record.metadata
    status = {"document_id": record.id, "status": facts["status"]}
    if facts["status"] == "done":
        problems = {"problems": facts["problems"]} if facts.get("problems") else {}
        return status | {"billed_characters": facts["characters"]} | problems
    if facts["status"] == "error":
        return status | {"message": facts["message"], "error_message": facts["message"]}
    return status


async def download(service: Service, request: Request, entry: Entry) -> Response:
    """A translated document, which is then no longer kept."""
    record = await find_document(service, request, entry)
    response = send_document(record)
    storage, client = service.find_storage(), request.state.client
    await asyncio.to_thread(storage.delete, DOCUMENTS, client, record.id)
    return response


async def find_document(service: Service, request: Request, entry: Entry) -> Record:
    """Raises: UnknownRecordError if the client has no such document, or the key is not its own."""
    record = await find_record(service, request)
    if not hmac.compare_digest(record.metadata["key"].encode(), entry["document_key"].encode()):
        raise UnknownRecordError("document_key is not that of this document")
    return record


ROUTES: Routes = {
    "POST /v2/document": upload,
    "POST /v2/document/{document_id}": get_status,
    "POST /v2/document/{document_id}/result": download,
}
