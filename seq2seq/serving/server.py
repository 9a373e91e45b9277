"""The server process: it listens, logs requests, loads and reloads models, drains and ends."""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from resource import getpagesize
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.base.errors import ConfigError
from seq2seq.serving.auth import Access
from seq2seq.serving.errors import log
from seq2seq.serving.event_loop import count_waiting_calls
from seq2seq.serving.metrics import REQUESTS, SECONDS
from seq2seq.serving.routes import SERVED, build_app
from seq2seq.serving.service import Service
from seq2seq.serving.storage import client_digest

access_log = logging.getLogger("seq2seq.access")

PATIENCE = 10  # seconds within which the headers of a request must arrive
EXPIRY = 60  # seconds between removals of expired records


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 means any free port.

    Raises: ConfigError if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        message = f"cannot listen at {host}, port {port}: {error}. Another port: --port 8001"
        raise ConfigError(message) from error
    # asyncio sets TCP_NODELAY only if the socket names its protocol, which this one does not.
    # Without it, the second part of an answer waits 40 ms until the client confirms the first.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, bound.detach())


class Server(uvicorn.Server):
    """Loads the models once it listens, and again on SIGHUP; drains on the first SIGTERM or Ctrl-C,
    and ends at once on the second.

    Attributes:
        failure: Error that made the first load fail and ended the server.
    """

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service
        self.failure: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # without a reference, a task may be collected
        self._last_requests: dict[Any, Any] = {}  # by connection, at the last check
        self._idle: set[Any] = set()  # connections without a request at the last check
        self._sees_connections = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGHUP, self._run, self._load)
        self._run(self._load)
        self._run(self.service.lag.measure)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.service.draining or not self.started:
            self.should_exit = self.force_exit = True
        else:
            self.service.draining = True
            self._loop.call_soon_threadsafe(self._run, self._drain)

    def _run(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a function in the background."""
        task = asyncio.ensure_future(function())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self) -> None:
        try:
            await self.service.load()
        except Exception as error:
            if self.service.models:
                log.error("loading failed, so the old models stay in use: %s", error)
                return
            self.failure = error
            self.should_exit = True

    async def _drain(self) -> None:
        await self.service.drain()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        try:
            if self._sees_connections:
                self._close_connections(counter % (10 * PATIENCE) == 0)
        except AttributeError as error:  # these attributes of connections are private to uvicorn
            self._sees_connections = False
            version = uvicorn.__version__
            log.warning("idle connections can no longer be closed (uvicorn %s): %s", version, error)
        if self.service.storage and counter % (10 * EXPIRY) == 0:
            self._run(partial(asyncio.to_thread, self.service.storage.expire))
        return bool(await super().on_tick(counter))

    def _close_connections(self, late: bool) -> None:
        """Close idle connections if more are open than allowed.

        Args:
            late: True to also close connections that have sent no request, or only part of one,
                since the last call with True; those between two requests stay open.
        """
        connections: set[Any] = self.server_state.connections
        surplus = max(0, len(connections) - self.service.limits.connections)
        idle = [each for each in connections if not each.cycle or each.cycle.response_complete]
        # A new connection may be about to send its request, so it has until the next call.
        closed = [each for each in idle if each in self._idle][:surplus]
        self._idle = set(idle)
        if late:
            silent = [each for each in idle if not each.timeout_keep_alive_task]
            last = self._last_requests
            closed += [each for each in silent if last.get(each, each) is each.cycle]
            self._last_requests = {each: each.cycle for each in connections}
        for each in set(closed):
            each.transport.close()


class AccessMiddleware:
    """Counts and logs the requests to an application. The log contains only known paths, status
    codes, times, the load and a digest of the key, but no texts, queries or ids.
    """

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started_at = time.perf_counter()
        code = 499  # if the client disconnects before the answer

        async def send_and_see(message: Message) -> None:
            nonlocal code
            code = message.get("status", code)
            await send(message)

        try:
            await self.app(scope, receive, send_and_see)
        finally:
            seconds = time.perf_counter() - started_at
            path = scope["path"]
            for name, value in scope.get("path_params", {}).items():
                path = path.replace(value, f"{{{name}}}")
            path = path if path in {*SERVED, "/"} else "other"
            REQUESTS.labels(path, code).inc()
            SECONDS.labels(path).observe(seconds)
            load = self._describe_load(scope.get("state", {}))
            what = f"{(scope.get('client') or '-')[0]} {scope['method']} {path} {code}"
            access_log.info("%s %.1f ms %s", what, 1000 * seconds, load)

    def _describe_load(self, state: Mapping[str, Any]) -> str:
        """The part of a log line about the load when a request ended, and the request's times.

        Args:
            state: State of the request; has its client and its parts if it got that far.
        """
        lag, memory = 1000 * self.service.lag.seconds, resident_memory() / 2**20
        load = [f"pool={sum(count_waiting_calls().values())} lag={lag:.1f} memory={memory:.0f}"]
        if client := state.get("client"):
            counts = self.service.documents.counts(client).values()
            load += [f"key={client_digest(client)[:12]}", f"documents={'+'.join(map(str, counts))}"]
        if times := [part.seconds for part in state.get("parts", ())]:
            queued, decoded = map(max, zip(*times, strict=True))
            load.append(f"queue={1000 * queued:.1f} decode={1000 * decoded:.1f}")
        return " ".join(load)


def resident_memory() -> int:
    """Bytes of resident memory of this process; 0 if the system does not report them."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except OSError:
        return 0


def build_server(service: Service, access: Access, tls: tuple[Path | None, Path | None]) -> Server:
    """The server for a service.

    Args:
        access: Requests that are answered, by where they come from.
        tls: Certificate and private key for https.
    """
    config = uvicorn.Config(
        AccessMiddleware(build_app(service, access), service),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=bool(access.proxies),
        forwarded_allow_ips=list(access.proxies),
        timeout_keep_alive=75,  # longer than proxies keep theirs
        timeout_graceful_shutdown=PATIENCE,  # so that clients can read the last answers
        ssl_certfile=tls[0],
        ssl_keyfile=tls[1],
    )
    return Server(config, service)


def serve(server: Server, listening: socket.socket) -> None:
    """Serve until a signal ends the server.

    Raises: Seq2SeqError if a model cannot be loaded at the start.
    """
    host, port = listening.getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    log.info("listening at %s://%s", scheme, address)
    server.run([listening])
    if server.failure:
        raise server.failure
