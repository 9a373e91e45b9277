"""Services in this process: behind a test client, or behind a socket."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from seq2seq.cli.main import parse_arguments
from seq2seq.cli.serve import access_of
from seq2seq.serving.auth import Access
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.server import Server, build_server, open_socket
from seq2seq.serving.service import Service
from seq2seq.serving.storage import Storage
from seq2seq.serving.validation import Limits

KEYS = [{"authorization": f"Bearer {key}"} for key in ("first", "second")]


def demo_service(run: Path, limits: Limits = Limits(), **options: Any) -> Service:  # noqa: B008
    """A service with the model of a run."""
    return Service({"demo": partial(ModelWorker, "demo", run, "cpu", {}, {})}, limits, **options)


def keyed_service(run: Path, folder: Path) -> Service:
    """A service that asks for the keys of `KEYS`, and keeps in a folder what clients send."""
    return demo_service(run, keys=[b"first", b"second"], storage=Storage(folder))


def loadless_twin(service: Service, **changed: Any) -> Service:
    """A service with the models of another one, and other options. It describes them,
    but translates nothing in time: their engines wake the event loop that they were loaded in.
    """
    twin = replace(service, builders={}, **changed)
    twin.models = service.models
    return twin


def client_of(service: Service, access: Access = Access(), **options: Any) -> TestClient:  # noqa: B008
    """A client of a service behind the middleware of a server."""
    return TestClient(build_server(service, access, (None, None)).config.app, **options)  # type: ignore[arg-type]


@contextmanager
def loaded_client(service: Service, **options: Any) -> Iterator[TestClient]:
    """A client of a service that is loaded, and drained at the end."""
    with client_of(service, **options) as client:
        assert client.portal
        client.portal.call(service.load)
        yield client
        client.portal.call(service.drain)


def access(*words: str) -> Access:
    """The access that options of `seq2seq serve RUN` allow."""
    options = parse_arguments(["serve", "run", *words]).access
    return access_of(options, keys=[b"key"] if options.keys else None)


LOCAL = access()


@asynccontextmanager
async def running(
    access: Access = LOCAL,
    limits: Limits = Limits(),  # noqa: B008
    *,
    keys: list[bytes] | None = None,
    host: str = "127.0.0.1",
    tls: tuple[Path | None, Path | None] = (None, None),
) -> AsyncIterator[tuple[Server, int]]:
    """A server without models, and its port."""
    listening = open_socket(host, 0)
    server = build_server(Service({}, limits, keys), access, tls)
    task = asyncio.ensure_future(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    yield server, listening.getsockname()[1]
    server.should_exit = server.force_exit = True
    await task


async def send(port: int, head: str, body: bytes = b"") -> tuple[int, str]:
    """Send a request as it is written. Returns: the code, and the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
    answer = b""
    while b"\r\n\r\n" not in answer:
        more = await asyncio.wait_for(reader.read(10_000), 10)
        if not more:
            break
        answer += more
    if b"content-length: " in answer:
        size = int(answer.split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(answer.split(b"\r\n\r\n", 1)[1]) < size:
            answer += await asyncio.wait_for(reader.read(10_000), 10)
    writer.close()
    return int(answer.split()[1]), answer.decode()


def later(
    function: Callable[[], Any], results: list[Any] | None = None
) -> tuple[threading.Thread, list[Any]]:
    """Call a function in another thread. Returns: the thread, and the list that gets the result."""
    found = [] if results is None else results
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    return thread, found


def metrics_of(client: TestClient) -> dict[str, float]:
    """The metrics that a service shows."""
    lines = client.get("/metrics").text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}
