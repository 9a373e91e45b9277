"""Errors as HTTP responses: a status, and a message in JSON."""

import asyncio
import logging
import traceback
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError
from seq2seq.serving.storage import NoRoomError, UnknownRecordError

log = logging.getLogger("seq2seq.serving")


class HTTPError(Exception):
    """An error that is the answer to a request.

    Args:
        headers: Headers of the response, in addition to the usual ones.
    """

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.headers = status, headers

    @classmethod
    def from_exception(cls, error: Exception) -> "HTTPError":
        """The error to send to the client. For a bug in the server, the log gets its place in the
        code, but not its message, which may contain the client's text.
        """
        match error:
            case HTTPError():
                return error
            case UnknownRecordError():
                return cls(404, str(error))
            case ConfigError() | DataError():
                return cls(429 if isinstance(error, NoRoomError) else 400, str(error))
            case ClientDisconnect():
                return cls(499, "the client has closed the connection")
            case Seq2SeqError():
                log.error("%s", error)
                return cls(500, str(error))
        log_traceback(error)
        return cls(500, "an error in the server: see its log")

    def response(self) -> Response:
        """The response; `message` is for clients of DeepL's protocol."""
        content = {"error": str(self), "message": str(self)}
        return JSONResponse(content, self.status, self.headers)


def retrieve_error(answer: "asyncio.Future[Any]") -> None:
    """Keep asyncio from logging the error of an answer that nobody waits for."""
    if not answer.cancelled():
        answer.exception()


def log_traceback(error: BaseException) -> None:
    """Log where an error was raised, without its message, which may contain a client's text."""
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s at\n%s", type(error).__name__, places)
