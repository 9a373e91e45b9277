"""From a model to translations: searches, and the one loop that runs them."""

import math
from collections.abc import Mapping
from typing import Any

from seq2seq.decoding.beam import Beam
from seq2seq.decoding.engine import Engine, Request
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.running import decode
from seq2seq.decoding.sample import Sample
from seq2seq.decoding.search import Advance, Ask, Frontier, Search
from seq2seq.decoding.stats import Stats
from seq2seq.errors import ConfigError
from seq2seq.tables import Table, check_options, check_range

SEARCHES: Table[Any] = Table("search", {"greedy": Greedy, "beam": Beam, "sample": Sample})

# The least value of an option, and the one that it must be below.
RANGES = {
    "beam_size": (1, math.inf),
    "length_penalty": (0, math.inf),
    "coverage": (0, math.inf),
    "patience": (0, math.inf),
    "samples": (1, math.inf),
    "top_k": (1, math.inf),
    "seed": (0, 2**63),
    "length_ratio": (0, math.inf),
    "length_extra": (1, math.inf),
    "min_length_ratio": (0, math.inf),
    "min_length_extra": (0, math.inf),
}


def build_search(options: Mapping[str, Any]) -> Search:
    """The search that a node of conf/decode describes: `name` and its options.

    Raises: ConfigError for an unknown name or option, and for values that make no sense.
    """
    own = dict(options)
    search = SEARCHES.find(own.pop("name"))
    check_options(search, own, "decode")
    for name, (least, below) in RANGES.items():
        check_range(f"decode.{name}", own.get(name), least, below)
    built: Search = search(**own)
    if isinstance(built, Sample):
        check_sampling(built)
    for name in ("length_ratio", "length_extra"):
        most, least = getattr(built, name), getattr(built, f"min_{name}")
        if least > most:
            raise ConfigError(
                f"decode.min_{name}={least} should be at most decode.{name}={most}: else some "
                "translation has no length that is allowed"
            )
    return built


def check_sampling(search: Sample) -> None:
    """Raises: ConfigError for what no distribution can be made with."""
    if not 0 < search.temperature < math.inf:
        raise ConfigError(
            f"decode.temperature={search.temperature} should be above 0. "
            "For the most probable piece at each step: decode=greedy"
        )
    if not 0 < search.top_p <= 1:
        raise ConfigError(
            f"decode.top_p={search.top_p} should be above 0 and at most 1, which keeps all pieces"
        )


__all__ = [
    "SEARCHES",
    "Advance",
    "Ask",
    "Beam",
    "Engine",
    "Frontier",
    "Greedy",
    "Hypothesis",
    "Request",
    "Sample",
    "Search",
    "Stats",
    "build_search",
    "decode",
]
