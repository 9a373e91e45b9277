"""An engine without a model, in a module that worker processes import quickly."""

import os
import signal
import warnings
from collections.abc import Iterable, Sequence

from seq2seq.base.errors import ConfigError
from seq2seq.decoding.engine import Stats
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.decoding.search import Hypothesis
from seq2seq.decoding.sentence_engine import SentenceEngine


class Echo(SentenceEngine):
    """An engine that returns each source as its translation, unless the first piece tells it to
    fail. A source that begins with -3 is never answered.
    """

    window, max_rows, active_rows, model = 100, 8, 0, None

    def __init__(self) -> None:
        self.stats = Stats()
        self.requests: dict[int, SentenceRequest] = {}

    @property
    def busy(self) -> bool:
        return bool(self.requests)

    waiting = busy

    def check(self, request: SentenceRequest) -> None:
        """Accept every request."""

    def submit(self, requests: Sequence[SentenceRequest]) -> None:
        self.requests.update((request.id, request) for request in requests)

    def cancel(self, requests: Iterable[SentenceRequest]) -> None:
        for request in requests:
            if mine := self.requests.pop(request.id, None):
                mine.status = Status.CANCELLED

    def advance(self) -> list[SentenceRequest]:
        ended = []
        for i, request in list(self.requests.items()):
            first = request.source[0]
            if first == -9:
                os.kill(os.getpid(), signal.SIGKILL)
            if first == -1:
                raise ConfigError("this engine refuses -1")
            if first == -2:
                warnings.warn("minus two is odd", RuntimeWarning, stacklevel=2)
            if first == -3:
                continue
            self.stats += Stats(1)
            request.finish([Hypothesis([*request.source, os.getpid()], 0.0, 0.0)])
            ended.append(self.requests.pop(i))
        return ended
