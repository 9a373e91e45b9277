"""Build searches and engines from the options of a configuration, which are checked first."""

from collections.abc import Callable, Mapping
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable, explain_missing
from seq2seq.base.registry import check_options, options_of
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.constraints.guide import Guide
from seq2seq.decoding.diverse import DiverseBeam
from seq2seq.decoding.engine import Engine
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.options import EngineOptions
from seq2seq.decoding.precision import PRECISIONS, with_precision
from seq2seq.decoding.sample import Sample
from seq2seq.decoding.search import Search
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.models import Seq2Seq

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
    """Build an engine for the model converted to `precision`; other options as in `Engine`.

    Raises: ConfigError if the device does not support the precision.
    """
    return Engine(with_precision(model, precision), search, guide, shortlist, **options)


ENGINE_OPTIONS = tuple(options_of(EngineOptions))  # all others belong to the search


def engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a conf/decode node for `Engine`, and `precision` and `workers`.

    Raises: ConfigError for invalid values.
    """
    given = {name: options[name] for name in ENGINE_OPTIONS if name in options}
    workers = given.setdefault("workers", EngineOptions.workers)
    if workers != "auto" and (not isinstance(workers, int) or not 1 <= workers <= 10_000):
        raise ConfigError(f"decode.workers={workers!r} should be auto, or from 1 to 10,000")
    PRECISIONS.find(given.setdefault("precision", EngineOptions.precision))
    check_options(EngineOptions, given, "decode")
    return given


def build_search(options: Mapping[str, Any]) -> Search:
    """The search that a conf/decode node describes by `name` and options. Options of the engine are
    ignored.

    Raises: ConfigError for an unknown name or option, and for invalid values.
    """
    given = {name: value for name, value in options.items() if name not in ENGINE_OPTIONS}
    build: Callable[[], Search] = SEARCHES.configure(given, "decode")
    return build()


def choose_search(config: Mapping[str, Any], changed: Mapping[str, Any]) -> str:
    """The name of a model's configured search; if that lacks a changed option, the name of the
    first search that has them all.

    Raises: ConfigError if the configured search belongs to a plug-in that is not installed, unless
        the changed options belong to another search.
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
    """Check that a model has the attention weights that a search needs for its coverage term.

    Raises: ConfigError if the model has no such weights.
    """
    if not isinstance(search, Beam) or not search.reads_weights:
        return
    cross = model.cross_attentions
    if not cross[0].shows_weights:
        raise ConfigError(
            f"coverage={search.coverage} needs the weights of cross-attention, and this one "
            f"has none: {cross[0].no_weights}. Use coverage=0"
        )
    if not -len(cross) <= search.coverage_layer < len(cross):
        raise ConfigError(
            f"decode.coverage_layer={search.coverage_layer} should be at least {-len(cross)} and "
            f"less than {len(cross)}: {len(cross)} layers have cross-attention"
        )
