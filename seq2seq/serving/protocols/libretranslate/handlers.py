"""LibreTranslate's protocol, which Weblate, Open WebUI and many other programs use."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seq2seq.serving.client_request import wait_for_answer
from seq2seq.serving.documents import SECONDS, accept_document, find_record, send_document
from seq2seq.serving.event_loop import run_off_loop
from seq2seq.serving.languages import DetectedLanguage, detect, english_name
from seq2seq.serving.service import Routes, Service, sources_of
from seq2seq.serving.storage import SUGGESTIONS
from seq2seq.serving.texts import ClientText, split_texts, submit_texts
from seq2seq.serving.validation import AUTO, Entry
from seq2seq.text.documents.files.formats import readable_suffixes
from seq2seq.text.documents.html_markup import read_html


async def translate(service: Service, request: Request, entry: Entry) -> Any:
    """Translate one text or several."""
    count, q = entry["alternatives"], entry["q"]
    originals = [q] if isinstance(q, str) else q
    languages = entry["source"], entry["target"]
    read = read_html if entry["format"] == "html" else None
    texts = await split_texts(service, originals, *languages, read=read, links=count + 1)
    options = {"ranks": count + 1, "beams": min(count + 1, service.limits.beam_size)}
    write = partial(to_libretranslate, entry=entry)
    return await (await submit_texts(service, request, texts, write, **options))


def to_libretranslate(texts: Sequence[ClientText], entry: Entry) -> Response:
    """The answer, with lists if the request had a list of texts. A text in a language that no model
    translates is left unchanged, and comes with its language and an error. A text with sentences
    left unchanged comes with an error, too.
    """
    count = entry["alternatives"]
    answer: dict[str, Any] = {"translatedText": [text.translation() for text in texts]}
    if count:
        answer["alternatives"] = [text.alternatives(count) for text in texts]
    if entry["source"] == AUTO:
        answer["detectedLanguage"] = [language_json(text.detected) for text in texts]
    if any(text.problems for text in texts):
        answer["errors"] = ["; ".join(text.problems) or None for text in texts]
    is_single = isinstance(entry["q"], str)
    return JSONResponse({n: v[0] for n, v in answer.items()} if is_single else answer)


def language_json(detected: DetectedLanguage | None) -> dict[str, Any]:
    """The JSON of a detected language, with its probability in percent."""
    assert detected is not None
    return {"language": detected.language, "confidence": round(100 * detected.confidence)}


async def detect_language(service: Service, request: Request, entry: Entry) -> Any:
    """The language of a text; one that no model translates only if there is little doubt."""
    service.check_length(entry["q"])
    candidates = sources_of(service.open_models())
    return [language_json(await run_off_loop(len(entry["q"]), detect, entry["q"], candidates))]


async def suggest(service: Service, request: Request, entry: Entry) -> Any:
    """Keep a better translation of a text, for the languages of a model."""
    storage = service.find_storage()
    (text,) = await split_texts(service, [entry["q"]], entry["source"], entry["target"])
    facts = {"source": text.offer.source, "target": text.offer.target}
    facts |= {"text": entry["q"], "translation": entry["s"]}
    await asyncio.to_thread(storage.create, SUGGESTIONS, request.state.client, facts, b"")
    return {"success": True}


async def translate_file(service: Service, request: Request, entry: Entry) -> Any:
    """Translate a file, and keep it for a while. Returns: its address."""
    languages = entry["source"], entry["target"]
    record, answer = await accept_document(service, request, entry, languages)
    await wait_for_answer(answer, request.receive, SECONDS)
    path = f"download_file/{record.id}/{quote(record.metadata['name'], safe='')}"
    problems = answer.result().metadata["problems"]
    url = {"translatedFileUrl": f"{request.base_url}{path}"}
    return url | ({"problems": problems} if problems else {})


async def download_file(service: Service, request: Request) -> Any:
    """A translated file of this client."""
    return send_document(await find_record(service, request))


async def languages(service: Service, request: Request) -> Any:
    """The source languages, and the target languages of each."""
    targets: dict[str, list[str]] = {}
    for source, target in service.language_pairs():
        targets.setdefault(source, []).append(target)
    return [{"code": n, "name": english_name(n), "targets": each} for n, each in targets.items()]


async def settings(service: Service, request: Request) -> Any:
    """The settings of the service, in the form that LibreTranslate uses for its own."""
    pair = next(iter(service.language_pairs()), ())
    sides = zip(("source", "target"), pair, strict=False)
    return {
        "keyRequired": service.keys is not None,
        "charLimit": service.limits.characters,
        "filesTranslation": service.storage is not None,
        "suggestions": service.storage is not None,
        "supportedFilesFormat": readable_suffixes() if service.storage else [],
        "language": {n: {"code": code, "name": english_name(code)} for n, code in sides},
    }


ROUTES: Routes = {
    "POST /translate": translate,
    "POST /detect": detect_language,
    "POST /suggest": suggest,
    "POST /translate_file": translate_file,
    "GET /languages": languages,
    "GET /frontend/settings": settings,
    "GET /download_file/{document_id}/{name}": download_file,
}
