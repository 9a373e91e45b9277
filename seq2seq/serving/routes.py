"""The paths of the service, and what they have in common."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from seq2seq import pages
from seq2seq.serving.auth import Access, authorize, check_host, check_origin, header_key
from seq2seq.serving.errors import ClientDisconnected, HTTPError
from seq2seq.serving.metrics import MetricsMiddleware
from seq2seq.serving.protocols import deepl, libretranslate, v1
from seq2seq.serving.service import Service
from seq2seq.serving.validation import DESCRIPTION, load_description, read_entry, takes_entry

Handler = Callable[..., Awaitable[Any]]  # what it returns is sent as JSON, unless it is a response

PAGE = Path(__file__).parent / "page"  # its files are served as they are
THEME = Path(pages.__file__).parent / "theme.css"  # that of the pages which commands write
OPEN = {"/languages", "/frontend/settings", "/health/live", "/health/ready", "/metrics"}  # no key
KEY_IN_BODY = {"/translate", "/detect"}  # where LibreTranslate's clients send it
POST: dict[str, Handler] = {
    "/v1/translate": v1.translate,
    "/v1/alternatives": v1.alternatives,
    "/translate": libretranslate.translate,
    "/detect": libretranslate.find_language,
    "/v2/translate": deepl.translate,
    "/v2/languages": deepl.languages,
}
GET: dict[str, Handler] = {
    "/v1/models": v1.models,
    "/languages": libretranslate.languages,
    "/frontend/settings": libretranslate.settings,
    "/v2/languages": deepl.languages,
    "/v2/usage": deepl.usage,
}


def build_app(service: Service, access: Access = Access()) -> ASGIApp:  # noqa: B008
    """The application."""
    load_description()  # takes a tenth of a second, once

    async def live(service: Service, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(service: Service, request: Request) -> Response:
        for model in service.ready():
            if not model.alive:
                raise model.ended()
        return PlainTextResponse("ready\n")

    async def metrics(service: Service, request: Request) -> Response:
        return PlainTextResponse(observed.text())

    operation = {"/health/live": live, "/health/ready": ready, "/metrics": metrics}
    tables = {"POST": POST, "GET": {**GET, **operation}}
    routes: list[BaseRoute] = [
        Route(path, partial(handle, service, method, handler), methods=[method])
        for method, table in tables.items()
        for path, handler in table.items()
    ]
    routes.append(Route("/openapi.yaml", static(DESCRIPTION)))
    for file in (*PAGE.iterdir(), THEME):
        path = "/" if file.name == "index.html" else f"/{file.name}"
        routes.append(Route(path, static(file)))
    app: ASGIApp = Starlette(routes=routes, exception_handlers={HTTPException: handle_http_error})
    if access.origins:
        app = CORSMiddleware(
            app, access.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    app = Guard(app, access, service.limits.connections)
    observed = MetricsMiddleware(app, service, frozenset({*POST, *GET, *operation, "/"}))
    return observed


class Guard:
    """Refuses requests by their heads, before an application sees them.

    Args:
        most: requests at once; of more, only those for the health of the server are answered.
    """

    def __init__(self, app: ASGIApp, access: Access, most: int):
        self.app, self.access, self.most = app, access, most
        self.requests = 0  # that are being answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        self.requests += 1
        try:
            if scope["type"] == "http":
                self._check(scope)
        except HTTPError as refusal:
            app = error_response(refusal)
        try:
            await app(scope, receive, send)
        finally:
            self.requests -= 1

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        check_host(headers, self.access.hosts)
        if scope["method"] == "POST":
            check_origin(headers, self.access.origins)
        if self.requests > self.most and not scope["path"].startswith("/health/"):
            wait = {"retry-after": "1", "connection": "close"}
            raise HTTPError(503, f"{self.most:,} requests are being answered already", wait)


def static(file: Path) -> Callable[[Request], Response]:
    """What answers with a file."""
    return lambda _: FileResponse(file)


async def handle(service: Service, method: str, handler: Handler, request: Request) -> Response:
    """The answer of a handler, or the error that it raises. The body of a client without a key is
    read only if the key may be in it.
    """
    limits, path, key = service.limits, request.scope["path"], header_key(request)
    is_key_in_body = path in KEY_IN_BODY and not key
    try:
        if not is_key_in_body and path not in OPEN:
            authorize(service.keys, key)
        entries = []
        if takes_entry(path, method):
            entries = [await read_entry(request, method, limits.body, limits.patience)]
        if is_key_in_body:
            authorize(service.keys, entries[0].get("api_key") or "")
        answer = await handler(service, request, *entries)
    except ClientDisconnect:
        return error_response(HTTPError.of(ClientDisconnected()))
    except Exception as error:
        return error_response(HTTPError.of(error))
    return answer if isinstance(answer, Response) else JSONResponse(answer)


def error_response(refusal: HTTPError) -> Response:
    message = {"error": str(refusal), "message": str(refusal)}
    return JSONResponse(message, refusal.status, refusal.headers)


async def handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = error.detail
    if error.status_code == 404:
        paths = ", ".join(dict.fromkeys((*POST, *GET)))
        message = f"{request.url.path[:80]} is not supported. Supported: {paths}"
    return error_response(HTTPError(error.status_code, message, dict(error.headers or {})))
