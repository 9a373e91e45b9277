"""What a search finds."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    ids: list[int]  # without bos and eos
    score: float  # what a search ranks by: log-probability by the length penalty; higher is better
    log_probability: float  # of all tokens, eos included
    truncated: bool = False  # stopped by the length limit, not by eos
    token_logp: Sequence[float] = ()  # of each token, eos included; their sum is log_probability

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its tokens, in [0, 1], whatever the length.

        Tokens that were forced count like all others.
        """
        return math.exp(self.log_probability / len(self.token_logp))
