"""The service's end of the process that reads and writes a file."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import Any, Self

from seq2seq.serving.document_process import PARSING, WRITING, Message, pack_message
from seq2seq.serving.errors import HTTPError, log


class DocumentHandle:
    """Context that starts the process for a file on entry, and kills it on exit.

    Args:
        name: Name of the file.
        data: Content of the file.
    """

    def __init__(self, name: str, data: bytes):
        self.name, self.data = name, data

    async def __aenter__(self) -> Self:
        # It imports the same modules as this process, not what happens to be in the current folder.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = sys.executable, "-P", "-m", "seq2seq.serving.document_process"
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
        )
        assert self._process.stdin and self._process.stdout
        self._pipe, self._answers = self._process.stdin, self._process.stdout
        self._pipe.write(pack_message({"name": self.name}, self.data))
        self.data = b""
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.shield(self._process.wait())

    async def ask(self, verb: str, **arguments: Any) -> Message:
        """Send a message, and return the answer.

        Raises: HTTPError if the file cannot be read, or takes more time or memory than is allowed
            for a file of its size.
        """
        self._pipe.write(pack_message({"verb": verb, **arguments}))
        entry, data = await self._receive(verb)
        if "bug" in entry:
            log.error("%s", entry["bug"])
        if "error" in entry:
            raise HTTPError(entry["status"], entry["error"])
        return entry, data

    async def _receive(self, verb: str) -> Message:
        try:
            head = (await self._answers.readline()).split()
            text = await self._answers.readexactly(int(head[0]))
            return json.loads(text), await self._answers.readexactly(int(head[1]))
        except (IndexError, asyncio.IncompleteReadError):  # the process has ended
            code = await self._process.wait()
        seconds = WRITING if verb == "write" else PARSING
        limits = {
            -signal.SIGXCPU: f"more than {seconds} seconds of computing",
            -signal.SIGKILL: "more memory than is available",
        }
        if code in limits:
            raise HTTPError(413, f"{self.name} needs {limits[code]}: split it into several files")
        log.error("the process of a document has ended with code %d", code)
        raise HTTPError(500, f"{self.name}: the process that reads it has ended unexpectedly")
