"""The paths of the service, and what they have in common."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from seq2seq import pages
from seq2seq.serving import deepl, libretranslate, v1
from seq2seq.serving.bodies import DESCRIPTION, description, read_entry
from seq2seq.serving.observed import Observed
from seq2seq.serving.refusals import Gone, Refusal
from seq2seq.serving.service import Service

Handler = Callable[..., Awaitable[Any]]  # what it returns is sent as JSON, unless it is a response

PAGE = Path(__file__).parent / "page"  # its files are served as they are
THEME = Path(pages.__file__).parent / "theme.css"  # that of the pages which commands write
OPEN = {"/languages", "/frontend/settings", "/health/live", "/health/ready", "/metrics"}  # no key
POST: dict[str, Handler] = {
    "/v1/translate": v1.translate,
    "/v1/alternatives": v1.alternatives,
    "/translate": libretranslate.translate,
    "/detect": libretranslate.find_language,
    "/v2/translate": deepl.translate,
}
GET: dict[str, Handler] = {
    "/v1/models": v1.models,
    "/languages": libretranslate.languages,
    "/frontend/settings": libretranslate.settings,
    "/v2/languages": deepl.languages,
    "/v2/usage": deepl.usage,
}


def build_app(service: Service, origins: Sequence[str] = ()) -> ASGIApp:
    """The application.

    Args:
        origins: of pages elsewhere that may ask, from browsers; `*` means all.
    """
    description()  # takes a tenth of a second, once

    async def live(service: Service, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(service: Service, request: Request) -> Response:
        service.ready()
        return PlainTextResponse("ready\n")

    async def metrics(service: Service, request: Request) -> Response:
        return PlainTextResponse(observed.text())

    operation = {"/health/live": live, "/health/ready": ready, "/metrics": metrics}
    tables = {"POST": POST, "GET": {**GET, **operation}}
    routes: list[BaseRoute] = [
        Route(path, partial(handled, service, handler), methods=[method])
        for method, table in tables.items()
        for path, handler in table.items()
    ]
    routes.append(Route("/openapi.yaml", static(DESCRIPTION)))
    for file in (*PAGE.iterdir(), THEME):
        path = "/" if file.name == "index.html" else f"/{file.name}"
        routes.append(Route(path, static(file)))
    app: ASGIApp = Starlette(routes=routes, exception_handlers={HTTPException: unknown})
    if origins:
        app = CORSMiddleware(app, list(origins), allow_methods=["GET", "POST"], allow_headers=["*"])
    observed = Observed(app, service, frozenset({*POST, *GET, *operation, "/"}))
    return observed


def static(file: Path) -> Callable[[Request], Response]:
    """What answers with a file."""
    return lambda _: FileResponse(file)


async def handled(service: Service, handler: Handler, request: Request) -> Response:
    """What a handler answers, or the error that it raises."""
    limits, path = service.limits, request.scope["path"]
    try:
        if path in POST:
            entry = await read_entry(request, limits.body, limits.patience)
            service.authorize(request, entry.get("api_key") or "")
            answer = await handler(service, request, entry)
        else:
            if path not in OPEN:
                service.authorize(request)
            answer = await handler(service, request)
    except ClientDisconnect:
        return refused(Refusal.of(Gone()))
    except Exception as error:
        return refused(Refusal.of(error))
    return answer if isinstance(answer, Response) else JSONResponse(answer)


def refused(refusal: Refusal) -> Response:
    message = {"error": str(refusal), "message": str(refusal)}
    return JSONResponse(message, refusal.status, refusal.headers)


async def unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refused(Refusal(error.status_code, error.detail, dict(error.headers or {})))
