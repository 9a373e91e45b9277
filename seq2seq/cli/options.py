"""Options that several commands share."""

import argparse
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.base.environment import defer_collection, usable_cores
from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.files import InputPath

if TYPE_CHECKING:
    from seq2seq.translation.translator import Translator


def numeric(text: str) -> float:
    """Keeps 99 as 99, for messages."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ArgumentTypeError(f"{value} should be at least 1")
    if value >= 2**31:
        raise ArgumentTypeError(f"{value} is too large")
    return value


def natural_number(text: str) -> int:
    return 0 if text == "0" else positive(text)


def weight_list(text: str) -> list[float]:
    try:
        return [numeric(weight) for weight in text.split(",")]
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} should be numbers with commas: 0.7,0.3") from error


def workers(text: str) -> int | str:
    if text == "auto":
        return text
    count, cores = positive(text), usable_cores()
    if count > max(2, cores):  # two are allowed on one core, for a try
        raise ArgumentTypeError(
            f"{count} processes on {cores} core(s) would wait for each other: {cores}, or auto"
        )
    return count


class Option(NamedTuple):
    """An option of the command line: `kind` reads its value, or holds the possible ones."""

    kind: Callable[[str], object] | tuple[str, ...] | tuple[int, ...]
    metavar: str | None
    help: str
    default: object = None


# Named as in conf/decode; where one is not given, the configuration of the model says it.
BEAM = {
    "beam_size": Option(positive, "K", "number of beams; 1 is greedy"),
    "length_penalty": Option(numeric, "A", "score = log-probability / length^A"),
    "penalty_form": Option(("power", "gnmt"), None, "gnmt: ((5 + length) / 6)^A"),
    "coverage": Option(numeric, "B", "penalty on unattended source pieces"),
    "patience": Option(numeric, "P", "P * K hypotheses must finish"),
    "stopping": Option(("score", "count"), None, "end when none can still win, or P * K finished"),
    "beam_groups": Option(positive, "G", "groups of K / G beams that avoid each other's pieces"),
    "diversity_penalty": Option(numeric, "L", "for --beam-groups: cost of a piece for each beam"),
}
ANY = {
    "length_ratio": Option(numeric, "R", "maximum pieces: R * S + E for S source pieces"),
    "length_extra": Option(int, "E", "see --length-ratio"),
    "max_length": Option(positive, "N", "maximum pieces, the end included, whatever R * S + E is"),
    "min_length_ratio": Option(numeric, "R", "minimum pieces: R * S + E"),
    "min_length_extra": Option(int, "E", "see --min-length-ratio"),
    "no_repeat_ngram": Option(int, "N", "no N pieces in a row occur twice; 0: any may"),
}
SAMPLE = {
    "temperature": Option(numeric, "T", "for --sample: below 1 is less random"),
    "top_k": Option(positive, "K", "for --sample: the K best pieces only"),
    "top_p": Option(numeric, "P", "for --sample: best pieces up to probability P"),
    "epsilon": Option(numeric, "P", "for --sample: pieces of probability P or more"),
    "min_p": Option(numeric, "F", "for --sample: F times the best or more"),
    "seed": Option(int, "N", "for --sample: random seed"),
}
ENGINE = {
    "batch_size": Option(positive, "N", "maximum sentences decoded at once by each process"),
    "cache": Option(("auto", "dense", "paged"), None, "layout of the key/value cache"),
    "precision": Option(("float32", "bfloat16", "int8"), None, "precision of the arithmetic"),
    "workers": Option(workers, "N", "processes of one thread; auto: one per core, if worth it"),
    "shortlist": Option(InputPath, "FILE", "likely pieces; none: leave out that of the run"),
}
MEANS = ("probabilities", "log-probabilities")
MEAN = {
    "weights": Option(weight_list, "W,W", "of the first model and of each --with (all equal)"),
    "mean": Option(MEANS, None, "what is averaged, for each next piece (probabilities)"),
}
REQUIREMENTS = ("glossary", "ignore_case", "keep", "mbr")
ENSEMBLE = ("with", *MEAN)


def add_options(
    group: argparse._ActionsContainer, options: Mapping[str, Option], **more: Any
) -> None:
    """Add options to a command, or to a group of its options; `more` is for `add_argument`."""
    for name, (kind, metavar, text, default) in options.items():
        values: dict[str, Any] = {"type": kind, "metavar": metavar}
        if isinstance(kind, tuple):
            values = {"type": type(kind[0]), "choices": kind}
        group.add_argument(option_name(name), help=text, **{"default": default, **values, **more})


def add_model(command: ArgumentParser, **more: Any) -> None:
    """The model, and options of all that reads one; `more` is for `add_argument`."""
    path = "a checkpoint, or the folder of a run"
    command.add_argument("path", type=InputPath, metavar="PATH", help=path, **more)
    add_device(command)


def add_device(command: ArgumentParser) -> None:
    """The device, and the tag of a corpus."""
    command.add_argument("--device", default="auto", help="cpu, cuda or auto (%(default)s)")
    command.add_argument("--tag", help="translate like the training corpus with this tag")


def add_ensemble(command: ArgumentParser) -> None:
    group = command.add_argument_group("ensemble")
    others = "a model with the same pieces, joined with the first; may be repeated"
    group.add_argument("--with", type=InputPath, action="append", metavar="PATH", help=others)
    add_options(group, MEAN)


def add_decoding(command: ArgumentParser) -> None:
    group = command.add_argument_group("search")
    add_options(group, {**BEAM, **ANY})
    group.add_argument("--sample", action="store_true", help="sample, do not search for the best")
    add_options(group, SAMPLE)
    group = command.add_argument_group("engine")
    add_options(group, ENGINE)
    group.add_argument("--stats", action="store_true", help="print engine statistics to stderr")


def decoding_arguments(arguments: Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `Translator.search` and of `Translator.engine`, before torch is imported.

    Raises: ConfigError for options that exclude each other, and for --workers on a GPU.
    """
    given = {name: getattr(arguments, name) for name in (*ANY, *BEAM, *SAMPLE)}
    given = {name: value for name, value in given.items() if value is not None}
    beam, sample = ([option_name(n) for n in names if n in given] for names in (BEAM, SAMPLE))
    drawn = ["--sample"] * arguments.sample + sample
    if beam and drawn:
        raise ConfigError(
            f"{beam[0]} belongs to a search for the best, {drawn[0]} to random draws: leave one out"
        )
    if drawn or (arguments.mbr and not beam):
        given = {"name": "sample", "samples": arguments.mbr, **given}
    several = isinstance(arguments.workers, int) and arguments.workers > 1
    if several and arguments.device.startswith("cuda"):
        raise ConfigError("--workers are processes on CPU cores: leave it out, or add --device cpu")
    return given, {name: getattr(arguments, name) for name in ENGINE}


def model_paths(path: str | Path, arguments: Namespace) -> list[Path]:
    """A model and those that are joined with it. Called before torch is imported.

    Raises: ConfigError for options of an ensemble without another model.
    """
    others: list[Path] = getattr(arguments, "with") or []
    given = [option_name(name) for name in ENSEMBLE if getattr(arguments, name) is not None]
    if given and not others:
        raise ConfigError(f"{given[0]} is for several models: add --with PATH, or leave it out")
    return [Path(path), *others]


def open_models(path: str | Path, arguments: Namespace) -> "Translator":
    """The model, or the ensemble, that the arguments say."""
    paths = model_paths(path, arguments)
    with defer_collection():
        from seq2seq.translation.translator import Translator  # only here: torch takes a second

        if len(paths) == 1:
            return Translator.load(path, arguments.device, arguments.tag)
        options: dict[str, Any] = {name: getattr(arguments, name) for name in MEAN}
        given = {name: value for name, value in options.items() if value is not None}
        return Translator.ensemble(paths, device=arguments.device, tag=arguments.tag, **given)


def choose_shortlist(path: Path, given: Path | None) -> Path | None:
    """The shortlist that a model is used with, for a process in any folder: that of --shortlist, or
    else the one in the folder of its run, which is then said.
    """
    from seq2seq.decoding.shortlist.file import find_shortlist

    if given is not None:
        return None if given == Path("none") else given.absolute()
    found = find_shortlist(path)
    if found is None:
        return None
    print(printable(f"using {found}; without it: --shortlist none"), file=sys.stderr)
    return found.absolute()


def options_of_models(arguments: Namespace) -> list[str]:
    """The options that were given and that only models understand."""
    tables = (REQUIREMENTS, ENSEMBLE, ANY, BEAM, SAMPLE, ENGINE)
    names = ["device", "tag", "sample", "stats", *chain.from_iterable(tables)]
    values = ((name, getattr(arguments, name)) for name in names)
    # Not `in (None, False)`, which holds of a 0 that was typed as well.
    return [option_name(n) for n, v in values if not (v is None or v is False or v == "auto")]


def list_given(arguments: Namespace, names: Iterable[str]) -> list[str]:
    """Options that were given, as they are typed, without those that a 0 turns off."""
    return [option_name(name) for name in names if getattr(arguments, name)]


def option_name(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"


def with_typed_options(message: str, arguments: Namespace) -> str:
    """A message with the options of conf/decode named as this command names them."""
    typed = {f"decode.{name}=": f"{option_name(name)} " for name in vars(arguments)}
    typed |= {"decode.samples=": "--nbest ", "decode=greedy": "--beam-size 1"}
    if hasattr(arguments, "corpora"):
        typed |= {"data.source=": "--source ", "data.target=": "--target "}
    for option, here in typed.items():
        message = message.replace(option, here)
    return message
