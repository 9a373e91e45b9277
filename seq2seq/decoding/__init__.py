"""From a model to translations: searches, and the one loop that runs them."""

from collections.abc import Mapping
from typing import Any

from seq2seq.decoding.beam import Beam
from seq2seq.decoding.engine import Engine, Request, decode
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.precision import with_precision
from seq2seq.decoding.search import Search
from seq2seq.models import Seq2Seq
from seq2seq.tables import Table, check_options, check_range

SEARCHES: Table[Any] = Table("search", {"greedy": Greedy, "beam": Beam})

LEAST = {"beam_size": 1, "length_penalty": 0, "length_ratio": 0, "length_extra": 1}


def build_search(options: Mapping[str, Any]) -> Search:
    """The search that a node of conf/decode describes: `name` and its options.

    Raises: ConfigError for an unknown name or option, and for values that make no sense.
    """
    own = dict(options)
    search = SEARCHES.find(own.pop("name"))
    check_options(search, own, "decode")
    for name, least in LEAST.items():
        check_range(f"decode.{name}", own.get(name), least)
    return search(**own)


def build_engine(
    model: Seq2Seq, search: Search, *, cache: str = "auto", precision: str = "float32"
) -> Engine:
    """An engine for a model. Raises: ConfigError for options that make no sense."""
    return Engine(with_precision(model, precision), search, cache=cache)


__all__ = [
    "SEARCHES",
    "Beam",
    "Engine",
    "Greedy",
    "Hypothesis",
    "Request",
    "Search",
    "build_engine",
    "build_search",
    "decode",
]
