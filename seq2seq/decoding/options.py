"""Searches and engines from a node of conf/decode."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from seq2seq.attention import Attention, Role
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.engine import Cache, Engine
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.precision import with_precision
from seq2seq.decoding.sample import Sample
from seq2seq.decoding.search import Search
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.tables import Table, check_options, check_range, options_of

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


def build_engine(
    model: Seq2Seq,
    search: Search,
    *,
    cache: Cache = "auto",
    rows: int = 320,
    pages: int | None = None,
    page_size: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> Engine:
    """An engine for a model, in that precision; other options as in `Engine`.

    Raises: ConfigError for a precision that the device does not offer.
    """
    converted = with_precision(model, precision)
    return Engine(converted, search, cache=cache, rows=rows, pages=pages, page_size=page_size)


ENGINE_OPTIONS = (*options_of(build_engine), "workers")  # of a node; all others are the search's


def engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a node that `build_engine` takes, and `workers`: processes, `auto` as many as help.

    Raises: ConfigError for values that make no sense.
    """
    own = {name: options[name] for name in ENGINE_OPTIONS if name in options}
    workers = own.pop("workers", "auto")
    if workers != "auto" and (not isinstance(workers, int) or workers < 1):
        raise ConfigError(f"decode.workers={workers!r} should be auto, or 1 or more")
    check_options(build_engine, own, "decode")
    for name in ("rows", "pages", "page_size"):
        check_range(f"decode.{name}", own.get(name), 1)
    return {**own, "workers": workers}


def build_search(options: Mapping[str, Any]) -> Search:
    """The search that a node of conf/decode describes: `name` and its options. Those of the engine
    may stand beside them.

    Raises: ConfigError for an unknown name or option, and for values that make no sense.
    """
    own = {name: value for name, value in options.items() if name not in ENGINE_OPTIONS}
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


def check_coverage(search: Search, model: Seq2Seq) -> None:
    """Raises: ConfigError if a search wants weights of attention that the model does not have."""
    if not isinstance(search, Beam) or not search.reads_weights:
        return
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    cross = [a for a in attentions if a.place.role is Role.CROSS]
    if not cross[0].shows_weights:
        raise ConfigError(
            f"decode.coverage={search.coverage} needs the weights of cross-attention, and this one "
            f"has none: {cross[0].no_weights}. Take decode.coverage=0"
        )
    if not -len(cross) <= search.coverage_layer < len(cross):
        raise ConfigError(
            f"decode.coverage_layer={search.coverage_layer} should be at least {-len(cross)} and "
            f"less than {len(cross)}: so many layers have cross-attention"
        )


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
