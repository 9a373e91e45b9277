"""DeepL's protocol, which translation tools and office programs use."""

import asyncio
import hmac
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seq2seq.serving.documents import accept_document, find_record, send_document
from seq2seq.serving.languages import english_name
from seq2seq.serving.protocols.deepl import glossaries
from seq2seq.serving.protocols.deepl.glossaries import read_terms
from seq2seq.serving.service import Routes, Service
from seq2seq.serving.storage import DOCUMENTS, Record, UnknownRecordError
from seq2seq.serving.texts import ClientText, split_texts, submit_texts
from seq2seq.serving.validation import Entry, UploadedFile
from seq2seq.text.documents.document import Split
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.markup import Reader
from seq2seq.text.documents.xml_markup import XMLReader

NO_LIMIT = 10**12  # characters
SPLITS: dict[str, Split | None] = {"0": "none", "1": None, "nonewlines": "sentences"}
TRUE = (True, "1", "true")  # also the number 1, which equals True


async def translate(service: Service, request: Request, entry: Entry) -> Any:
    """Translate texts. Fields that express mere preferences have no effect."""
    languages = entry["source_lang"], entry["target_lang"]
    wishes: Entry = {"read": reader_of(entry), "split": SPLITS[entry["split_sentences"]]}
    wishes |= {"terms": await read_terms(service, request, entry), "context": entry["context"]}
    texts = await split_texts(service, entry["text"], *languages, **wishes)
    is_billed = entry.get("show_billed_characters", False) in TRUE
    write = partial(to_deepl, originals=entry["text"], is_billed=is_billed)
    return await (await submit_texts(service, request, texts, write))


def to_deepl(texts: Sequence[ClientText], originals: Sequence[str], is_billed: bool) -> Response:
    """The answer. A text in a language that no model translates is left unchanged, and comes with
    its language and a message. A text with sentences left unchanged comes with a message, too.
    """
    translations: list[dict[str, Any]] = []
    for text, original in zip(texts, originals, strict=True):
        answer = {"detected_source_language": text.source.upper(), "text": text.translation()}
        more = {"billed_characters": len(original)} if is_billed else {}
        why = {"message": "; ".join(text.problems)} if text.problems else {}
        translations.append(answer | more | why)
    return JSONResponse({"translations": translations})


def reader_of(entry: Entry) -> Reader | None:
    """The reader of tags that a request asks for; None for plain text."""
    match entry.get("tag_handling"):
        case "html":
            return read_html
        case "xml":
            return XMLReader(
                copied=tag_names(entry, "ignore_tags"),
                splitting=tag_names(entry, "splitting_tags"),
                inline=tag_names(entry, "non_splitting_tags"),
                outline=entry.get("outline_detection", True) in TRUE,
            )
    return None


def tag_names(entry: Entry, field: str) -> frozenset[str]:
    """The names in a field, which is a list, or a text with commas between names."""
    value = entry.get(field, [])
    names = value.split(",") if isinstance(value, str) else value
    return frozenset(name.strip() for name in names)


async def languages(service: Service, request: Request, entry: Entry) -> Any:
    """The source or target languages. The query or a form says which; even a GET request may have a
    form, since DeepL's own Python client sends one.
    """
    side, models = entry["type"], service.models.values()
    codes = dict.fromkeys(c for m in models for c in m.languages or [getattr(m, side)])
    more = {"supports_formality": False} if side == "target" else {}
    return [{"language": code.upper(), "name": english_name(code)} | more for code in codes]


async def usage(service: Service, request: Request) -> Any:
    """The number of characters translated since the start; there is no limit."""
    return {"character_count": service.characters, "character_limit": NO_LIMIT}


async def upload_document(service: Service, request: Request, entry: Entry) -> Any:
    """Start to translate a document. Returns: its id, and the key needed to ask for it."""
    if "filename" in entry and isinstance(entry["file"], UploadedFile):
        entry["file"] = UploadedFile(entry["filename"], entry["file"].data)
    terms = await read_terms(service, request, entry)
    languages = entry["source_lang"], entry["target_lang"]
    record, _ = await accept_document(service, request, entry, languages, terms)
    return {"document_id": record.id, "document_key": record.metadata["key"]}


async def get_document_status(service: Service, request: Request, entry: Entry) -> Any:
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


async def download_document(service: Service, request: Request, entry: Entry) -> Response:
    """A translated document, which is deleted here."""
    record = await find_document(service, request, entry)
    response = send_document(record)
    storage, client = service.find_storage(), request.state.client
    await asyncio.to_thread(storage.delete, DOCUMENTS, client, record.id)
    return response


async def find_document(service: Service, request: Request, entry: Entry) -> Record:
    """The document of a request. Raises: UnknownRecordError if it or its key is unknown."""
    record = await find_record(service, request)
    if not hmac.compare_digest(record.metadata["key"].encode(), entry["document_key"].encode()):
        raise UnknownRecordError("document_key does not belong to this document")
    return record


ROUTES: Routes = {
    "POST /v2/translate": translate,
    "POST /v2/languages": languages,
    "GET /v2/languages": languages,
    "GET /v2/usage": usage,
    "POST /v2/document": upload_document,
    "POST /v2/document/{document_id}": get_document_status,
    "POST /v2/document/{document_id}/result": download_document,
}
ROUTES |= glossaries.ROUTES
