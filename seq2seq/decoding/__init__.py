"""From a model to translations: searches, and the engine that runs them, by their options."""

from collections.abc import Callable, Mapping
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable, explain_missing
from seq2seq.base.registry import check_options, check_range, options_of
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.constraints.guide import Guide
from seq2seq.decoding.decoding_batch import decode
from seq2seq.decoding.diverse import DiverseBeam
from seq2seq.decoding.engine import Engine, check_required
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.precision import PRECISIONS, with_precision
from seq2seq.decoding.request import SentenceRequest
from seq2seq.decoding.sample import Sample
from seq2seq.decoding.search import Hypothesis, Search, SearchState, StepChoice
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.models import Seq2Seq

__all__ = [
    "ENGINE_OPTIONS",
    "SEARCHES",
    "Beam",
    "DiverseBeam",
    "Engine",
    "Greedy",
    "Hypothesis",
    "Sample",
    "Search",
    "SearchState",
    "SentenceRequest",
    "StepChoice",
    "build_engine",
    "build_search",
    "check_coverage",
    "check_required",
    "choose_search",
    "decode",
    "engine_options",
]

SEARCHES: PluginTable[type[Search]] = PluginTable(
    "search",
    {"greedy": Greedy, "beam": Beam, "sample": Sample, "diverse": DiverseBeam},
    lambda entry: isinstance(entry, type) and issubclass(entry, Search),
    "a class that derives from seq2seq.decoding.Search",
)


def build_engine(
    model: Seq2Seq,
    precision: str,
    search: Search,
    guide: Callable[[Any], Guide],
    shortlist: Shortlist | None = None,
    **options: Any,
) -> Engine:
    """An engine for the model converted to `precision`; other options as in `Engine`.

    Raises: ConfigError if the device does not support the precision.
    """
    return Engine(with_precision(model, precision), search, guide, shortlist, **options)


ENGINE_OPTIONS = (*options_of(Engine), "precision", "workers")  # all others are the search's


def engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a conf/decode node that `Engine` takes, `precision` (default: float32) and
    `workers` (default: auto).

    Raises: ConfigError for invalid values.
    """
    given = {name: options[name] for name in options_of(Engine) if name in options}
    precision, workers = options.get("precision", "float32"), options.get("workers", "auto")
    if workers != "auto" and (not isinstance(workers, int) or not 1 <= workers <= 10_000):
        raise ConfigError(f"decode.workers={workers!r} should be auto, or 1 or more, up to 10,000")
    PRECISIONS.find(precision)
    check_options(Engine, given, "decode")
    for name in ("rows", "pages", "page_size"):
        check_range(f"decode.{name}", given.get(name), 1, maximum=10_000_000)
    return {**given, "precision": precision, "workers": workers}


def build_search(options: Mapping[str, Any]) -> Search:
    """The search that a conf/decode node describes: `name` and its options. Options of the engine
    are ignored.

    Raises: ConfigError for an unknown name or option, and for invalid values.
    """
    given = {name: value for name, value in options.items() if name not in ENGINE_OPTIONS}
    search = SEARCHES.find(given.pop("name"))
    check_options(search, given, "decode")
    return search(**given)


def choose_search(config: Mapping[str, Any], changed: Mapping[str, Any]) -> str:
    """The name of a model's configured search, or if it lacks an option that is changed, of the
    first that has them all.

    Raises: ConfigError if the configured one is of a plug-in that is not installed, unless the
        options belong to another.
    """
    configured = config["decode"]["name"]
    has_plugin = SEARCHES.has(configured)
    if not has_plugin and changed.keys() <= options_of(Search).keys():
        missing = explain_missing("search", configured, config.get("plugins"))
        raise ConfigError(f"{missing}. Or choose another search: --beam-size 5")
    names = (configured, *SEARCHES) if has_plugin else tuple(SEARCHES)
    able = [n for n in names if changed.keys() <= options_of(SEARCHES.find(n)).keys()]
    return able[0] if able else configured


def check_coverage(search: Search, model: Seq2Seq) -> None:
    """Raises: ConfigError if a search needs attention weights that the model does not have."""
    if not isinstance(search, Beam) or not search.reads_weights:
        return
    cross = model.cross_attentions
    if not cross[0].shows_weights:
        raise ConfigError(
            f"decode.coverage={search.coverage} needs the weights of cross-attention, and this one "
            f"has none: {cross[0].no_weights}. Use decode.coverage=0"
        )
    if not -len(cross) <= search.coverage_layer < len(cross):
        raise ConfigError(
            f"decode.coverage_layer={search.coverage_layer} should be at least {-len(cross)} and "
            f"less than {len(cross)}: {len(cross)} layers have cross-attention"
        )
