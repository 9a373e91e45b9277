"""The paths of the service, and the steps that every request goes through."""

import re
from functools import partial
from itertools import chain
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
from seq2seq.serving.bodies import PREFIX, Body, find_key
from seq2seq.serving.description import describe_body, format_description
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.event_loop import run_off_loop
from seq2seq.serving.metrics import build_registry
from seq2seq.serving.protocols.deepl import handlers as deepl
from seq2seq.serving.protocols.libretranslate import handlers as libretranslate
from seq2seq.serving.protocols.v1 import handlers as v1
from seq2seq.serving.service import Routes, Service
from seq2seq.serving.validation import read_entry

PAGE = Path(__file__).parent / "page"  # its files are served as they are
THEME = Path(pages.__file__).parent / "theme.css"  # shared with the pages that commands write


async def live(service: Service, request: Request) -> Response:
    """Answer as long as the process runs."""
    return PlainTextResponse("alive\n")


async def ready(service: Service, request: Request) -> Response:
    """Answer, with an error unless requests are accepted and all models work."""
    for model in service.open_models():
        if not model.thread.alive:
            raise model.thread.crash_error()
    return PlainTextResponse("ready\n")


async def metrics(service: Service, request: Request) -> Response:
    """Metrics in the text format of Prometheus."""
    return PlainTextResponse(generate_latest(request.app.state.registry))


OPERATION: Routes = {
    "GET /health/live": live,
    "GET /health/ready": ready,
    "GET /metrics": metrics,
}
ROUTES = v1.ROUTES | libretranslate.ROUTES | deepl.ROUTES | OPERATION
METHODS = ("POST", "GET", "DELETE", "PATCH", "PUT")
PATHS = {m: [each.split()[1] for each in ROUTES if each.startswith(m)] for m in METHODS}
SERVED = tuple(dict.fromkeys(chain(*PATHS.values())))
WITH_FILE = {"/translate_file", "/v2/document"}
WITHOUT_KEY = {"/languages", "/frontend/settings", "/health/live", "/health/ready", "/metrics"}
# Clients of LibreTranslate send it there as api_key, and old clients of DeepL as auth_key.
KEY_IN_BODY = {each for each in PATHS["POST"] if re.match("/(translate|detect|suggest|v2)", each)}
KEEPING = {"/translate_file", "/suggest", "/v2/document", "/v2/glossaries", "/v3/glossaries"}


def build_app(service: Service, access: Access = Access()) -> ASGIApp:  # noqa: B008
    """The application: the routes, inside CORS if it is allowed, inside the guard."""
    files = {f"/{file.name}": file for file in (*PAGE.iterdir(), THEME)}
    files["/"] = files.pop("/index.html")
    routes = [Route(path, partial(send_file, file)) for path, file in files.items()]
    routes.append(Route("/openapi.yaml", send_description))
    for route, handler in ROUTES.items():
        method, path = route.split()
        answer = partial(handle, service, path, handler, describe_body(path, method))
        routes.append(Route(path, answer, methods=[method]))
    starlette = Starlette(routes=routes, exception_handlers={HTTPException: handle_http_exception})
    starlette.state.registry = build_registry(service)
    app: ASGIApp = starlette
    if access.origins:
        app = CORSMiddleware(app, access.origins, allow_methods=METHODS, allow_headers=["*"])
    return GuardMiddleware(app, access, service.limits.connections)


async def send_file(file: Path, request: Request) -> Response:
    return FileResponse(file)


def send_description(request: Request) -> Response:
    """The OpenAPI description; Starlette calls this in a thread."""
    return Response(format_description(), media_type="application/yaml")


async def handle(
    service: Service, path: str, handler: Any, description: Any, request: Request
) -> Response:
    """The response of a handler, or to the error that it raises. If the client has not yet sent a
    key that it needs, only the beginning of the body is read, where the key may be.

    Args:
        description: Description of the body; None = no body is read.
    """
    limits, entries = service.limits, list[Any]()
    body = Body(request, limits.patience, service.body_bytes)
    try:
        if path not in WITHOUT_KEY:
            key = find_key(request.headers, request.scope["query_string"])
            if service.keys is not None and description and not key and path in KEY_IN_BODY:
                if path in KEEPING:
                    service.find_storage()  # raises before anything is read
                room = 0 if path in WITH_FILE else limits.text
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
    """The response to a request for a path or method that does not exist."""
    assert isinstance(error, HTTPException)
    message = error.detail
    if error.status_code == 404:
        message = f"{request.url.path[:80]} is not supported. Supported: {', '.join(SERVED)}"
    return HTTPError(error.status_code, message, dict(error.headers or {})).response()
