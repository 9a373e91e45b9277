"""Servers in processes of their own."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class ServerProcess:
    """`seq2seq serve`, at a free port."""

    def __init__(self, *arguments: Any):
        command = [sys.executable, "-m", "seq2seq", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert self.process.stderr
        self.log: list[str] = []
        self.port = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.wait_for(lambda: self.port)

    def _read(self) -> None:
        assert self.process.stderr
        with self.process.stderr as lines:
            for line in lines:
                self.log.append(line)
                if "listening at" in line:
                    self.port = int(line.rsplit(":", 1)[1])

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition holds, however long that takes."""
        while not condition():
            assert self.process.poll() is None, "".join(self.log)
            time.sleep(0.05)

    def ready(self) -> "ServerProcess":
        self.wait_for(lambda: self.ask("GET", "/health/ready")[0] == 200)
        return self

    def ask(
        self, method: str, path: str, entry: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request. Returns: the code and the content of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        body = None if entry is None else json.dumps(entry)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        kind = answer.headers["content-type"] or ""
        return answer.status, json.loads(content) if "json" in kind else content

    def translate(self, text: str) -> tuple[int, Any]:
        return self.ask("POST", "/translate", {"q": text, "source": "de", "target": "en"})

    def gauge(self, name: str) -> float:
        lines = self.ask("GET", "/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))

    def send(self, data: bytes) -> socket.socket:
        """Open a connection, and send bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(data)
        return connection

    def end(self) -> int:
        """End the server with SIGTERM. Returns: its exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait()
        self.reader.join()
        return code


def children(process: int) -> list[int]:
    """The processes that a process has started, and those that these have started."""
    found: list[int] = []
    with suppress(OSError):  # it has just ended
        for path in Path(f"/proc/{process}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found += [child, *children(child)]
    return found


def request_bytes(text: str) -> bytes:
    """A request to translate a text, as it is sent."""
    body = json.dumps({"text": text}).encode()
    head = f"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
