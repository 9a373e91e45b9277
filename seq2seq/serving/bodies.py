"""Bodies of requests as they arrive, and the keys at their beginning."""

import asyncio
import json
import re

from starlette.datastructures import Headers
from starlette.requests import Request

from seq2seq.serving.errors import HTTPError
from seq2seq.serving.validation import FORM, KEY_NAMES, PARTS, media_type, parse_form, parse_parts

PREFIX = 2**16  # bytes: the key of a body with a file must be among the first
ROOM = (2**24, 2**27)  # bytes of all bodies being read, before and after the key is known
JSON_KEY = re.compile(rb'"(?:%s)"\s*:\s*("(?:[^"\\]|\\.)*")' % "|".join(KEY_NAMES).encode())


class Body:
    """The body of a request, read only as far as its methods need. Call `release` when the body is
    no longer needed.

    Args:
        seconds: Time from now by which the whole body must have arrived.
        used: Bytes that all requests hold now: before their keys are known, and after.
    """

    def __init__(self, request: Request, seconds: float, used: list[int]):
        self.headers = request.headers
        self._used, self._held = used, [0, 0]
        self._data = bytearray()
        self._seconds, self._late_at = seconds, asyncio.get_running_loop().time() + seconds
        self._chunks = request.stream()

    async def read_key(self, limit: int) -> str:
        """The key in the first `limit` bytes; empty if they have none. Little more is read.

        Raises: HTTPError if the bytes arrive too slowly, or there is no room for them.
        """
        while len(self._data) <= limit and (chunk := await self._next()):
            self._keep(chunk, known=False)
        return find_key_in(bytes(self._data[: limit + 1]), self.headers, limit)

    async def read(self, limit: int) -> bytes:
        """The whole body. If it is too long, the rest is read but not kept, so that the client
        finishes sending and reads the answer.

        Raises: HTTPError if the body is longer than `limit`, arrives too slowly, or there is no
            room for it.
        """
        size = len(self._data)
        while chunk := await self._next():
            size += len(chunk)
            if size <= limit:
                self._keep(chunk, known=True)
        if size > limit:
            raise HTTPError(413, f"the body has {size:,} bytes; at most {limit:,} are allowed")
        return bytes(self._data)

    def release(self) -> None:
        """Drop the body to make room for others."""
        self._data.clear()
        for known in (False, True):
            self._used[known] -= self._held[known]
        self._held = [0, 0]

    async def _next(self) -> bytes:
        """The next bytes to arrive; empty at the end."""
        try:
            async with asyncio.timeout_at(self._late_at):
                return await anext(self._chunks, b"")
        except TimeoutError:
            message = f"the body did not arrive within {self._seconds:g} seconds"
            raise HTTPError(408, message, {"connection": "close"}) from None

    def _keep(self, chunk: bytes, known: bool) -> None:
        if self._used[known] + len(chunk) > ROOM[known]:
            message = "too many requests are being sent at once: try again a little later"
            raise HTTPError(503, message, {"retry-after": "1"})
        self._used[known] += len(chunk)
        self._held[known] += len(chunk)
        self._data += chunk


def find_key(headers: Headers, query: bytes) -> str:
    """The key in the Authorization header of a request, or else in its query; empty if neither has
    one.
    """
    text = headers.get("authorization", "").encode("latin-1").decode("utf-8", "replace")
    return text.partition(" ")[2].strip() or find_key_in(query, Headers({"content-type": FORM}))


def find_key_in(data: bytes, headers: Headers, limit: int = PREFIX) -> str:
    """The key in a body; empty if there is none. If the body has more than `limit` bytes, the key
    must be a complete field among the first `limit`.
    """
    is_whole, data = len(data) <= limit, data[:limit]
    try:
        if (kind := media_type(headers)) == FORM:
            complete = data if is_whole else data[: data.rfind(b"&") + 1]
            fields = parse_form(complete.decode("utf-8-sig", "replace"))
        elif kind == PARTS:
            fields = parse_parts(headers, data, max_files=1, is_whole=False)
        else:
            found = JSON_KEY.search(data)
            fields = {KEY_NAMES[0]: [json.loads(found[1])]} if found else {}
    except ValueError:
        return ""
    return next((fields[name][0] for name in KEY_NAMES if name in fields), "")
