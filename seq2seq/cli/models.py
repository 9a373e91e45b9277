"""Open models for commands: options of models, searches and engines."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seq2seq.base.environment import defer_collection, usable_cores
from seq2seq.base.errors import ConfigError, printable
from seq2seq.base.options import declarations
from seq2seq.cli.files import InputPath
from seq2seq.cli.options import (
    Options,
    argument,
    flag,
    numeric,
    option_name,
    positive,
    repeated,
    subset,
    value,
)
from seq2seq.decoding.options import DiverseOptions, EngineOptions, SampleOptions, SearchOptions
from seq2seq.text.documents.placeholders import PLACEHOLDERS
from seq2seq.text.languages import is_spaceless

if TYPE_CHECKING:
    from seq2seq.decoding import Engine, Search
    from seq2seq.decoding.constraints.request import Rules
    from seq2seq.decoding.workers import Workers
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translation.translator import Translator

SAMPLES = declarations(SampleOptions)["samples"].maximum
WORKERS = declarations(EngineOptions)["workers"].help
Mean = Literal["probabilities", "log-probabilities"]
BEST = "beam_size length_penalty penalty_form coverage patience stopping"
LENGTHS = "length_ratio length_extra max_length min_length_ratio min_length_extra no_repeat_ngram"
DRAWS = "temperature top_k top_p epsilon min_p seed"
KEEP = "copy matches unchanged; placeholders: {name}, %%s, addresses, tags and the like"


def weight_list(text: str) -> list[float]:
    try:
        return [numeric(weight) for weight in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{text!r} should be numbers with commas: 0.7,0.3") from error


def workers(text: str) -> int | str:
    if text == "auto":
        return text
    count, cores = positive(text), usable_cores()
    if count > max(2, cores):  # two are allowed on one core, to try it out
        raise ConfigError(f"{count} is more than the {cores} core(s) here: type {cores}, or auto")
    return count


class DeviceOptions(Options):
    """Device of a model, tag of a corpus, and languages."""

    device: str = value("cpu, cuda or auto (%(default)s)", default="auto")
    tag: str | None = value("translate like the training corpus with this tag")
    source_language: str | None = value("for a model of several languages: de, deu_Latn", "CODE")
    target_language: str | None = value("the language to translate into", "CODE")

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language; None = the model's default."""
        return self.source_language, self.target_language


class ModelOptions(DeviceOptions):
    """Options for one model."""

    path: InputPath = argument("a checkpoint, or the folder of a run", "PATH")


class EnsembleOptions(Options):
    """Models to join with the first one."""

    others: Sequence[InputPath] = repeated("a model to join; may be repeated", "PATH", "--with")
    weights: list[float] | None = value("weights of all models (equal)", "W,W", type=weight_list)
    mean: Mean | None = value("what to average for each next piece (probabilities)")

    def __post_init__(self) -> None:
        if (self.weights or self.mean) and not self.others:
            name = "--weights" if self.weights else "--mean"
            raise ConfigError(f"{name} is for several models: add --with PATH, or leave it out")

    def paths(self, first: Path) -> list[Path]:
        """Paths of all models."""
        return [first, *self.others]


class RequirementOptions(Options):
    """Requirements that all translations must meet."""

    glossary: InputPath | None = value("terms and their translations, tab-separated", "FILE")
    keep: str | None = value(KEEP, "REGEX")
    mbr: int | None = value("choose among N by minimum Bayes risk", "N", maximum=SAMPLES)
    ignore_case: bool = flag("find terms of the glossary in upper or lower case")

    def __post_init__(self) -> None:
        if self.keep is not None and not self.keep.strip():
            raise ConfigError("--keep should be a regular expression, or placeholders: it is blank")
        if self.ignore_case and not self.glossary:
            raise ConfigError("--ignore-case is for the terms of a --glossary: add one")

    def rules(self, translator: "Translator", search: "Search") -> "Rules | None":
        """The rules that these options make for all translations; None if they make no rules.

        Raises: ConfigError for an invalid pattern, and for a search that cannot find required
            words; DataError for a damaged glossary.
        """
        from seq2seq.decoding import check_required
        from seq2seq.decoding.constraints.glossary import Glossary
        from seq2seq.decoding.constraints.placeholders import Placeholders
        from seq2seq.decoding.constraints.request import Rules

        keep, file = self.keep, self.glossary
        if not (file or keep):
            return None
        check_required(search)
        keep = PLACEHOLDERS if keep == "placeholders" else keep
        try:
            pattern = re.compile(keep) if keep else None
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"--keep {keep!r} is not a regular expression: {error}") from error
        glossary = Glossary()
        if file:
            spaceless = is_spaceless(translator.config["data"]["source"])
            glossary = Glossary.read(file, not self.ignore_case, spaceless)
        return Rules(glossary, Placeholders(pattern))


class SearchFlags(Options):
    """Options of a search, named as in conf/decode; others keep their configured values."""

    best: dict[str, Any] = subset(DiverseOptions, f"{BEST} beam_groups diversity_penalty")
    lengths: dict[str, Any] = subset(SearchOptions, LENGTHS)
    sample: bool = flag("sample instead of searching for the best")
    draws: dict[str, Any] = subset(SampleOptions, DRAWS, prefix="for --sample: ")

    def __post_init__(self) -> None:
        drawn = ["sample"] * self.sample + [*self.draws]
        if self.best and drawn:
            best, draw = option_name(next(iter(self.best))), option_name(drawn[0])
            raise ConfigError(f"{best} is for beam search, {draw} for sampling: leave one out")

    def build(self, translator: "Translator", mbr: int | None, nbest: int | None) -> "Search":
        """The search for a model. It samples if only `mbr` asks for several translations."""
        given = {**self.lengths, **self.best, **self.draws}
        if self.sample or self.draws or (mbr and not self.best):
            samples = max(mbr or 0, nbest or 0) or None
            return translator.search("sample", samples=samples, **given)
        return translator.search(**given)


class EngineFlags(Options):
    """Options of an engine; others keep their configured values."""

    batch_size: int | None = value("maximum sentences decoded at once by each process", "N")
    typed: dict[str, Any] = subset(EngineOptions, "cache precision")
    workers: int | str | None = value(WORKERS, "N", type=workers)
    shortlist: InputPath | None = value("shortlist to use; none: ignore that of the run", "FILE")
    stats: bool = flag("print engine statistics to stderr")


class DecodingOptions(DeviceOptions):
    """All options that translations by a model or an ensemble depend on."""

    requirements: RequirementOptions
    ensemble: EnsembleOptions
    search: SearchFlags
    engine: EngineFlags

    def __post_init__(self) -> None:
        workers = self.engine.workers
        if self.device.startswith("cuda") and isinstance(workers, int) and workers > 1:
            raise ConfigError("--workers is for CPU cores: leave it out, or add --device cpu")


class Opened(NamedTuple):
    """A model, its search and engine, and the rules for all translations."""

    translator: "Translator"
    search: "Search"
    engine: "Engine | Workers"
    rules: "Rules | None"

    def text_engine(self, max_source: int | None) -> "TextEngine":
        return self.translator.text_engine(self.engine, max_source, self.rules)

    def print_stats(self, options: EngineFlags) -> None:
        """Print statistics of the engine, and what computes its steps, if --stats is given."""
        from seq2seq.decoding.precision import describe_backend

        if options.stats:
            backend = describe_backend(self.engine.model)
            print(f"{self.engine.stats}\ndecoding steps computed by: {backend}", file=sys.stderr)


def open_models(path: Path, options: DeviceOptions, ensemble: EnsembleOptions) -> "Translator":
    """Open a model, and join it with the others of the ensemble."""
    with defer_collection():
        from seq2seq.translation.translator import Translator  # only here: torch takes a second

        of_all: Any = {"device": options.device, "tag": options.tag, "languages": options.languages}
        if not ensemble.others:
            return Translator.load(path, **of_all)
        mean, paths = ensemble.mean or "probabilities", ensemble.paths(path)
        return Translator.ensemble(paths, weights=ensemble.weights, mean=mean, **of_all)


def open_engine(
    path: Path,
    options: DecodingOptions,
    nbest: int | None = None,
    *,
    keeps_placeholders: bool = False,
) -> Opened:
    """Open a model and make its engine.

    Args:
        nbest: number of translations that the search must find.
        keeps_placeholders: True to keep placeholders, if the search can and --keep is not given.

    Raises: ConfigError for options that do not suit the model or each other.
    """
    shortlist = choose_shortlist(path, options.engine.shortlist)
    from seq2seq.decoding import check_required  # only here: torch takes a second

    translator = open_models(path, options, options.ensemble)
    requirements = options.requirements
    search = options.search.build(translator, requirements.mbr, nbest)
    for name, number in (("nbest", nbest or 0), ("mbr", requirements.mbr or 0)):
        if number > search.beams:
            raise ConfigError(f"--{name} {number} needs as many beams: add --beam-size {number}")
    if keeps_placeholders and requirements.keep is None:
        with suppress(ConfigError):
            check_required(search)
            requirements = replace(requirements, keep="placeholders")
    rules = requirements.rules(translator, search)
    flags = options.engine
    typed = {**flags.typed, "batch_size": flags.batch_size, "workers": flags.workers}
    engine = translator.engine(search, shortlist=shortlist, **typed)
    return Opened(translator, search, engine, rules)


def choose_shortlist(path: Path, given: Path | None) -> Path | None:
    """The absolute path of the shortlist: the one given, or else that of the run, whose name is
    printed; None = no shortlist.
    """
    if given is not None:
        return None if given == Path("none") else given.absolute()
    with defer_collection():
        from seq2seq.decoding.shortlist.file import find_shortlist  # imports torch

    if found := find_shortlist(path):
        print(printable(f"using {found}; without it: --shortlist none"), file=sys.stderr)
    return found and found.absolute()
