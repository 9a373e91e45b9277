"""The process of the service: it listens, loads and reloads models, drains, and ends."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from seq2seq.base.errors import ConfigError
from seq2seq.serving.auth import Access
from seq2seq.serving.routes import build_app
from seq2seq.serving.service import Service

log = logging.getLogger("seq2seq.serving")

PATIENCE = 10  # seconds in which the head of a request must arrive
EXPIRY = 60  # seconds between two removals of records that are too old


def open_socket(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 means any that is free.

    Raises: ConfigError if this is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        message = f"cannot listen at {host}, port {port}: {error}. Another port: --port 8001"
        raise ConfigError(message) from error
    # asyncio sets TCP_NODELAY only if the socket names its protocol, and that one does not. Without
    # it the second part of an answer waits 40 ms, until the client confirms the first.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, bound.detach())


class Server(uvicorn.Server):
    """Loads the models when it listens; SIGHUP loads them again; the first SIGTERM or Ctrl-C
    drains it, and the second ends it.

    Attributes:
        failure: the error of the first load, which ends the server.
    """

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service
        self.failure: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # a task without a reference may be collected
        self._last_requests: dict[Any, Any] = {}  # by connection, when they were looked at
        self._idle: set[Any] = set()  # connections without a request, when they were looked at
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
        """Run a function beside everything else."""
        task = asyncio.ensure_future(function())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self) -> None:
        try:
            await self.service.load()
        except Exception as error:
            if self.service.models:
                log.error("not loaded, so the models are as they were: %s", error)
                return
            self.failure = error
            self.should_exit = True

    async def _drain(self) -> None:
        await self.service.drain()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        try:
            if self._sees_connections:
                self._close_connections(counter % (10 * PATIENCE) == 0)
        except AttributeError as error:  # what it reads of connections, uvicorn does not promise
            self._sees_connections = False
            version = uvicorn.__version__
            log.warning("connections without a request stay open: uvicorn %s: %s", version, error)
        if self.service.storage and counter % (10 * EXPIRY) == 0:
            self._run(partial(asyncio.to_thread, self.service.storage.expire))
        return bool(await super().on_tick(counter))

    def _close_connections(self, late: bool) -> None:
        """Close connections without a request, if there are more connections than may be open.

        Args:
            late: also close those from which no request, or only half of one, has come since this
                was true before; those that wait for their next request stay open.
        """
        connections: set[Any] = self.server_state.connections
        surplus = max(0, len(connections) - self.service.limits.connections)
        idle = [each for each in connections if not each.cycle or each.cycle.response_complete]
        # A new one may be about to send its request: it has until the next call.
        closed = [each for each in idle if each in self._idle][:surplus]
        self._idle = set(idle)
        if late:
            silent = [each for each in idle if not each.timeout_keep_alive_task]
            last = self._last_requests
            closed += [each for each in silent if last.get(each, each) is each.cycle]
            self._last_requests = {each: each.cycle for each in connections}
        for each in set(closed):
            each.transport.close()


def build_server(
    service: Service,
    access: Access = Access(),  # noqa: B008
    tls: tuple[Path | None, Path | None] = (None, None),
) -> Server:
    """The server of a service.

    Args:
        access: from where requests are answered.
        tls: a certificate and its private key, for https.
    """
    config = uvicorn.Config(
        build_app(service, access),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=bool(access.proxies),
        forwarded_allow_ips=list(access.proxies),
        timeout_keep_alive=75,  # longer than proxies keep theirs
        timeout_graceful_shutdown=PATIENCE,  # for reading the last answers
        ssl_certfile=tls[0],
        ssl_keyfile=tls[1],
    )
    return Server(config, service)


def serve(server: Server, listening: socket.socket) -> None:
    """Serve until a signal.

    Raises: Seq2SeqError if a model cannot be loaded at the start.
    """
    host, port = listening.getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    log.info("listening at %s://%s", scheme, address)
    server.run([listening])
    if server.failure:
        raise server.failure
