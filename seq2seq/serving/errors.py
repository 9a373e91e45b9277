"""Answers that are errors."""

import logging
import traceback

from seq2seq.errors import ConfigError, DataError, Seq2SeqError

log = logging.getLogger("seq2seq.serving")


class ClientDisconnected(Exception):
    """The client has closed the connection: nobody reads an answer."""


class HTTPError(Exception):
    """A request that is answered with an error: its status, a message, and further headers."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.headers = status, headers

    @classmethod
    def of(cls, error: Exception) -> "HTTPError":
        """What a client is told of an error. Of a mistake of ours, the log has the places, but not
        the message, which may contain the client's text.
        """
        match error:
            case HTTPError():
                return error
            case ConfigError() | DataError():
                return cls(400, str(error))
            case ClientDisconnected():
                return cls(499, "the client has gone")
            case Seq2SeqError():
                log.error("%s", error)
                return cls(500, str(error))
        log_mistake(error)
        return cls(500, "a mistake of the server: its log says where")


def log_mistake(error: BaseException) -> None:
    """Log the places of an error, but not its message, which may contain a client's text."""
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s at\n%s", type(error).__name__, places)
