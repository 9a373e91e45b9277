"""An engine that translates nothing, in a file that a worker process imports quickly."""

import os
import signal
import warnings
from collections.abc import Sequence

from seq2seq.decoding.answering import EngineBase
from seq2seq.decoding.engine import Request, Stats
from seq2seq.decoding.search import Hypothesis
from seq2seq.errors import ConfigError


class Echo(EngineBase[Request, list[Hypothesis]]):
    """An engine that gives the source back, and does what its first piece says. One that begins
    with -3 is never answered.
    """

    look_ahead = 100

    def __init__(self) -> None:
        super().__init__()
        self.stats = Stats()
        self.requests: dict[int, Request] = {}

    @property
    def max_rows(self) -> int:
        return 8

    @property
    def waiting(self) -> bool:
        return bool(self.requests)

    def check(self, request: Request) -> None:
        """All can be answered."""

    def submit_all(
        self, items: Sequence[Request], answers: dict[int, list[Hypothesis]] | None = None
    ) -> list[int]:
        ids = [self.expect(answers) for _ in items]
        self.requests.update(zip(ids, items, strict=True))
        return ids

    def cancel(self, *ids: int) -> None:
        super().cancel(*ids)
        for i in ids:
            self.requests.pop(i, None)

    def advance(self) -> None:
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
            self.answer(i, [Hypothesis([*request.source, os.getpid()], 0.0, 0.0)])
            del self.requests[i]
