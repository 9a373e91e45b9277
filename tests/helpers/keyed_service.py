"""A service that asks for keys."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from seq2seq.cli.main import parse_arguments
from seq2seq.cli.serve import access_of
from seq2seq.serving.auth import Access
from seq2seq.serving.server import Server, build_server, open_socket
from seq2seq.serving.service import Limits, Service

FORM = "application/x-www-form-urlencoded"


def access(*words: str) -> Access:
    """What `seq2seq serve RUN` makes of options."""
    options = parse_arguments(["serve", "run", *words]).access
    return access_of(options, keys=[b"key"] if options.keys else None)


LOCAL = access()


@asynccontextmanager
async def running(
    access: Access = LOCAL,
    limits: Limits | None = None,
    *,
    keys: list[bytes] | None = None,
    host: str = "127.0.0.1",
    tls: tuple[Path | None, Path | None] = (None, None),
    change: Callable[[Server], None] = lambda server: None,
) -> AsyncIterator[tuple[Server, int]]:
    """A server without models, and its port."""
    listening = open_socket(host, 0)
    server = build_server(Service({}, limits, keys), access, tls)
    change(server)
    task = asyncio.ensure_future(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    yield server, listening.getsockname()[1]
    server.should_exit = server.force_exit = True
    await task


async def send(port: int, head: str, body: bytes = b"") -> tuple[int, str]:
    """Send a request as it is written. Returns: the code, and all of the answer."""
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
