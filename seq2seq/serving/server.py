"""The process: it listens, loads and reloads, drains when it is told to stop, and ends."""

import asyncio
import logging
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from seq2seq.errors import ConfigError
from seq2seq.serving.app import build_app
from seq2seq.serving.service import Service

log = logging.getLogger("seq2seq.serving")

Files = tuple[Path | None, Path | None]

PATIENCE = 10  # seconds that the head of a request may take, and a connection without any


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 means any that is free.

    Raises: ConfigError if this is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen at {host}, port {port}: {error}. Another port: --port 8001"
        ) from error


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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
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
        """Ten times a second. Closes connections whose request does not come, or only half of it;
        those that have been answered may wait for the next one.
        """
        if counter % (10 * PATIENCE) == 0:
            now = {each: vars(each).get("cycle") for each in self.server_state.connections}
            for each, request in now.items():
                waits = request is None or request.response_complete
                answered = vars(each).get("timeout_keep_alive_task")
                if waits and not answered and self._seen.get(each, each) is request:
                    each.transport.close()
            self._seen = now
        stop: bool = await super().on_tick(counter)
        return stop


def serve(
    service: Service,
    listening: socket.socket,
    origins: Sequence[str] = (),
    tls: Files = (None, None),
) -> None:
    """Serve until a signal.

    Args:
        origins: as in `build_app`.
        tls: a certificate and its private key, for https.

    Raises: Seq2SeqError if a model cannot be loaded at the start.
    """
    config = uvicorn.Config(
        build_app(service, origins),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=75,  # longer than proxies keep theirs
        timeout_graceful_shutdown=PATIENCE,  # for reading the last answers
        ssl_certfile=tls[0],
        ssl_keyfile=tls[1],
    )
    server = Server(config, service)
    host, port = listening.getsockname()[:2]
    scheme = "https" if config.is_ssl else "http"
    shown = f"[{host}]" if ":" in host else host
    log.info("listening at %s://%s:%d", scheme, shown, port)
    server.run([listening])
    if server.failure:
        raise server.failure
