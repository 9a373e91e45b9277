"""The paths of the service, and the steps that all requests pass."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from seq2seq import pages
from seq2seq.serving.auth import Access, GuardMiddleware, authorize
from seq2seq.serving.bodies import BYTES, PREFIX, Body, find_key
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.metrics import MetricsMiddleware, build_registry
from seq2seq.serving.off_loop import run_off_loop
from seq2seq.serving.protocols import deepl, deepl_documents, deepl_glossaries, libretranslate, v1
from seq2seq.serving.service import Service
from seq2seq.serving.validation import DESCRIPTION, describe_body, read_entry

Handler = Callable[..., Awaitable[Any]]  # a result that is no response is sent as JSON

PAGE = Path(__file__).parent / "page"  # its files are served as they are
THEME = Path(pages.__file__).parent / "theme.css"  # that of the pages which commands write


async def live(service: Service, request: Request) -> Response:
    """Answers as long as the process does."""
    return PlainTextResponse("alive\n")


async def ready(service: Service, request: Request) -> Response:
    """Answers with an error unless requests are accepted, and all models work."""
    for model in service.find_models():
        if not model.thread.alive:
            raise model.thread.death()
    return PlainTextResponse("ready\n")


async def metrics(service: Service, request: Request) -> Response:
    """Counts and times in the text format of Prometheus."""
    return PlainTextResponse(generate_latest(request.app.state.registry))


GLOSSARIES, GLOSSARY = "/v2/glossaries", "/v2/glossaries/{glossary_id}"
MULTILINGUAL, OF_ID = "/v3/glossaries", "/v3/glossaries/{glossary_id}"
POST: dict[str, Handler] = {
    "/v1/translate": v1.translate,
    "/v1/alternatives": v1.alternatives,
    "/translate": libretranslate.translate,
    "/detect": libretranslate.detect_language,
    "/suggest": libretranslate.suggest,
    "/translate_file": libretranslate.translate_file,
    "/v2/translate": deepl.translate,
    "/v2/languages": deepl.languages,
    "/v2/document": deepl_documents.upload,
    "/v2/document/{document_id}": deepl_documents.get_status,
    "/v2/document/{document_id}/result": deepl_documents.download,
    GLOSSARIES: deepl_glossaries.create_bilingual,
    MULTILINGUAL: deepl_glossaries.create_multilingual,
}
GET: dict[str, Handler] = {
    "/v1/models": v1.models,
    "/languages": libretranslate.languages,
    "/frontend/settings": libretranslate.settings,
    "/download_file/{document_id}/{name}": libretranslate.download_file,
    "/v2/languages": deepl.languages,
    "/v2/usage": deepl.usage,
    "/v2/glossary-language-pairs": deepl_glossaries.language_pairs_of_glossaries,
    GLOSSARIES: deepl_glossaries.list_bilingual,
    GLOSSARY: deepl_glossaries.get_bilingual,
    f"{GLOSSARY}/entries": deepl_glossaries.get_bilingual_entries,
    MULTILINGUAL: deepl_glossaries.list_multilingual,
    OF_ID: deepl_glossaries.get_multilingual,
    f"{OF_ID}/entries": deepl_glossaries.get_multilingual_entries,
    "/health/live": live,
    "/health/ready": ready,
    "/metrics": metrics,
}
DELETE: dict[str, Handler] = {
    GLOSSARY: deepl_glossaries.delete_glossary,
    OF_ID: deepl_glossaries.delete_glossary,
    f"{OF_ID}/dictionaries": deepl_glossaries.delete_dictionary,
}
PATCH: dict[str, Handler] = {OF_ID: deepl_glossaries.update_multilingual}
PUT: dict[str, Handler] = {f"{OF_ID}/dictionaries": deepl_glossaries.replace_dictionary}
WITH_FILE = {"/translate_file", "/v2/document"}
METHODS = {"POST": POST, "GET": GET, "DELETE": DELETE, "PATCH": PATCH, "PUT": PUT}
PATHS = tuple(dict.fromkeys(path for handlers in METHODS.values() for path in handlers))
WITHOUT_KEY = {"/languages", "/frontend/settings", "/health/live", "/health/ready", "/metrics"}
# Where clients of LibreTranslate send it as api_key, and old ones of DeepL as auth_key.
KEY_IN_BODY = {each for each in POST if re.match("/(translate|detect|suggest|v2)", each)}
KEEPING = {"/translate_file", "/suggest", "/v2/document", GLOSSARIES, MULTILINGUAL}


def build_app(service: Service, access: Access = Access()) -> ASGIApp:  # noqa: B008
    """The application: metrics around the guard, around CORS, around the routes."""
    files = {f"/{file.name}": file for file in (*PAGE.iterdir(), THEME, DESCRIPTION)}
    files["/"] = files.pop("/index.html")
    routes = [Route(path, partial(send_file, file)) for path, file in files.items()]
    for method, handlers in METHODS.items():
        for path, handler in handlers.items():
            answer = partial(handle, service, path, handler, describe_body(path, method))
            routes.append(Route(path, answer, methods=[method]))
    starlette = Starlette(routes=routes, exception_handlers={HTTPException: handle_http_exception})
    starlette.state.registry = registry = build_registry(service)
    app: ASGIApp = starlette
    if access.origins:
        app = CORSMiddleware(app, access.origins, allow_methods=METHODS, allow_headers=["*"])
    app = GuardMiddleware(app, access, service.limits.connections)
    return MetricsMiddleware(app, service, registry, frozenset({*PATHS, "/"}))


async def send_file(file: Path, request: Request) -> Response:
    return FileResponse(file)


async def handle(
    service: Service, path: str, handler: Handler, description: Any, request: Request
) -> Response:
    """The response of a handler, or of the error that it raises. Without a key, no more of the body
    is read than its beginning, and only if the key may be there.

    Args:
        description: of the body that is expected; None = none is read.
    """
    limits, entries = service.limits, list[Any]()
    body = Body(request, limits.patience, service.body_bytes)
    try:
        if path not in WITHOUT_KEY:
            key = find_key(request.headers, request.scope["query_string"])
            if service.keys is not None and description and not key and path in KEY_IN_BODY:
                if path in KEEPING:
                    service.find_storage()  # else nothing is read
                room = 0 if path in WITH_FILE else BYTES * limits.characters
                key = await body.read_key(PREFIX + room)
            request.state.client = authorize(service.keys, key, request)
        if description:
            if path in KEEPING:
                service.find_storage()
            data = await body.read(limits.file if path in WITH_FILE else limits.body)
            entries = [await run_off_loop(len(data), read_entry, request, data, description)]
        body.release()
        answer = await handler(service, request, *entries)
    except Exception as error:
        return HTTPError.from_exception(error).response()
    finally:
        body.release()
    return answer if isinstance(answer, Response) else JSONResponse(answer)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """The response to a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    message = error.detail
    if error.status_code == 404:
        message = f"{request.url.path[:80]} is not supported. Supported: {', '.join(PATHS)}"
    return HTTPError(error.status_code, message, dict(error.headers or {})).response()
