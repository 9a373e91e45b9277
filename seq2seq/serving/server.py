"""The process: it listens, loads and reloads, drains when it is told to stop, and ends."""

import asyncio
import logging
import signal
import socket
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from seq2seq.errors import ConfigError
from seq2seq.serving.auth import Access
from seq2seq.serving.routes import build_app
from seq2seq.serving.service import Service

log = logging.getLogger("seq2seq.serving")

Files = tuple[Path | None, Path | None]

PATIENCE = 10  # seconds that the head of a request may take, and a connection without any
# What uvicorn knows of a connection, though it does not promise to: its request, and the timer that
# runs when that has been answered.
CONNECTION = ("cycle", "timeout_keep_alive_task", "transport")


def open_socket(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 means any that is free.

    Raises: ConfigError if this is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen at {host}, port {port}: {error}. Another port: --port 8001"
        ) from error
    # asyncio sets TCP_NODELAY only if the socket names its protocol, and that one does not. Without
    # it the second part of an answer waits 40 ms, until the client confirms the first.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, bound.detach())


class Server(uvicorn.Server):
    """Loads when it has begun to listen; SIGHUP loads again; the first SIGTERM or Ctrl-C drains.

    Attributes:
        failure: why the first load failed, which ends the server.
    """

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service
        self.failure: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: dict[Any, Any] = {}  # connections, and their requests when they were looked at
        self._idle: set[Any] = set()  # those without a request when there were too many

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._sees_connections = can_see_connections(self.config, self.server_state)
        if not self._sees_connections:
            version = uvicorn.__version__
            log.warning(
                "connections without a request stay: uvicorn %s does not show them", version
            )
        if hasattr(signal, "SIGHUP"):
            self._loop.add_signal_handler(signal.SIGHUP, self._begin, "_load")
        self._begin("_load")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.service.draining or not self.started:
            self.should_exit = self.force_exit = True
        else:
            self.service.draining = True
            self._loop.call_soon_threadsafe(self._begin, "_drain")

    def _begin(self, what: str) -> None:
        task = asyncio.ensure_future(getattr(self, what)())
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
        log.info("draining: what was accepted is answered, nothing else is accepted")
        await self.service.drain()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if self._sees_connections:
            self._close_connections(counter % (10 * PATIENCE) == 0)
        stop: bool = await super().on_tick(counter)
        return stop

    def _close_connections(self, late: bool) -> None:
        """Close connections without a request, if there are more connections than are kept.

        Args:
            late: also close those whose request does not come, or only half of it, since this was
                asked last; those that have been answered may wait for the next one.
        """
        connections: set[Any] = self.server_state.connections
        surplus = max(0, len(connections) - self.service.limits.connections)
        if not surplus and not late:
            return
        now = {each: each.cycle for each in connections}
        idle = [
            each
            for each, request in now.items()
            if request is None or getattr(request, "response_complete", False)
        ]
        # A new one may be about to send its request: it has until this is asked again.
        closed = [each for each in idle if each in self._idle][:surplus]
        self._idle = set(idle)
        if late:
            closed += [
                each
                for each in idle
                if not each.timeout_keep_alive_task and self._seen.get(each, each) is now[each]
            ]
            self._seen = now
        for each in set(closed):
            each.transport.close()


def can_see_connections(config: uvicorn.Config, state: Any) -> bool:
    """Are the attributes there that `Server` reads of connections?

    Args:
        config: after it was loaded.
        state: of the server, which has its connections.
    """
    try:
        protocol: Any = config.http_protocol_class
        connection = protocol(config=config, server_state=state, app_state={})
    except (AttributeError, TypeError):
        return False
    return hasattr(state, "connections") and all(hasattr(connection, each) for each in CONNECTION)


def build_server(
    service: Service,
    access: Access = Access(),  # noqa: B008
    tls: Files = (None, None),
) -> Server:
    """The server of a service.

    Args:
        access: from where the service may be asked.
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
    shown = f"[{host}]" if ":" in host else host
    log.info("listening at %s://%s:%d", scheme, shown, port)
    server.run([listening])
    if server.failure:
        raise server.failure
