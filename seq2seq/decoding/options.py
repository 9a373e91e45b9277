"""Searches and engines from a node of conf/decode."""

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
    if workers != "auto" and (not isinstance(workers, int) or not 1 <= workers <= 10_000):
        raise ConfigError(f"decode.workers={workers!r} should be auto, or 1 or more, to 10,000")
    check_options(build_engine, own, "decode")
    for name in ("rows", "pages", "page_size"):
        check_range(f"decode.{name}", own.get(name), 1, maximum=10_000_000)
    return {**own, "workers": workers}


def build_search(options: Mapping[str, Any]) -> Search:
    """The search that a node of conf/decode describes: `name` and its options. Those of the engine
    may stand beside them.

    Raises: ConfigError for an unknown name or option, and for values that make no sense.
    """
    own = {name: value for name, value in options.items() if name not in ENGINE_OPTIONS}
    search = SEARCHES.find(own.pop("name"))
    check_options(search, own, "decode")
    built: Search = search(**own)
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
