"""An engine that translates nothing, in a file that a worker process imports quickly."""

import os
import signal
import warnings
from collections.abc import Iterable, Iterator

from seq2seq.decoding.engine import Request, Stats
from seq2seq.decoding.search import Hypothesis
from seq2seq.errors import ConfigError


class Echo:
    """An engine that gives the source back, and does what its first piece says."""

    def __init__(self) -> None:
        self.stats = Stats()

    def translate(self, requests: Iterable[Request]) -> Iterator[list[Hypothesis]]:
        for request in requests:
            if request.source[0] == -9:
                os.kill(os.getpid(), signal.SIGKILL)
            if request.source[0] == -1:
                raise ConfigError("this engine refuses -1")
            if request.source[0] == -2:
                warnings.warn("minus two is odd", RuntimeWarning, stacklevel=2)
            self.stats += Stats(1)
            yield [Hypothesis([*request.source, os.getpid()], 0.0, 0.0)]
