"""What a search finds."""

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    ids: list[int]  # without bos and eos
    score: float  # log-probability divided by the length penalty; higher is better
    log_probability: float  # of all tokens, eos included
    truncated: bool = False  # stopped by the length limit, not by eos
