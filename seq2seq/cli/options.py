"""Options that several commands share."""

import argparse
import re
from typing import Any

from seq2seq.environment import usable_cores
from seq2seq.errors import ConfigError

ANY = ("length_ratio", "length_extra", "max_length", "min_length_ratio", "min_length_extra")
BEAM = ("beam_size", "length_penalty", "penalty_form", "coverage", "patience", "stopping")
SAMPLE = ("temperature", "top_k", "top_p", "seed")
ENGINE = ("batch_size", "cache", "precision", "workers")


def add_model(command: argparse.ArgumentParser, nargs: str | None = None) -> None:
    command.add_argument(
        "path", nargs=nargs, metavar="PATH", help="a checkpoint, or the folder of a run"
    )
    add_device(command)


def add_device(command: argparse.ArgumentParser) -> None:
    """Where a model computes, and for which of its corpora."""
    command.add_argument("--device", default="auto", help="cpu, cuda or auto (%(default)s)")
    command.add_argument("--tag", help="of the training corpus whose translations are wanted")


def add_search(command: argparse.ArgumentParser) -> None:
    """Options called as in conf/decode; what is not given is as the model was configured."""
    group = command.add_argument_group("search")
    add = group.add_argument
    add("--beam-size", type=positive, metavar="K", help="hypotheses kept; 1 is greedy")
    add("--length-penalty", type=number, metavar="A", help="score = log-probability / length^A")
    add("--penalty-form", choices=("power", "gnmt"), help="gnmt: ((5 + length) / 6)^A")
    add("--coverage", type=number, metavar="B", help="weight of source pieces not looked at")
    add("--patience", type=number, metavar="P", help="P * K hypotheses must finish")
    add(
        "--stopping",
        choices=("score", "count"),
        help="score: when no open hypothesis can still win; count: when P * K have finished",
    )
    add("--length-ratio", type=number, metavar="R", help="most pieces: R * S + E, S of the source")
    add("--length-extra", type=int, metavar="E", help="see --length-ratio")
    add(
        "--max-length",
        type=positive,
        metavar="N",
        help="most pieces of any translation, its end included, whatever R * S + E allows",
    )
    add("--min-length-ratio", type=number, metavar="R", help="fewest pieces: R * S + E")
    add("--min-length-extra", type=int, metavar="E", help="see --min-length-ratio")
    add("--sample", action="store_true", help="draw at random instead of searching the best")
    add("--temperature", type=number, metavar="T", help="of --sample: below 1, fewer surprises")
    add("--top-k", type=positive, metavar="K", help="of --sample: among the K best pieces only")
    add("--top-p", type=number, metavar="P", help="of --sample: among the best of probability P")
    add("--seed", type=int, metavar="N", help="of --sample: another one draws others")


def add_engine(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("engine")
    add = group.add_argument
    add(
        "--batch-size",
        type=positive,
        metavar="N",
        help="sentences decoded at once, at most, by each process: fewer take less memory",
    )
    add("--cache", choices=("auto", "dense", "paged"), help="how what was seen is kept")
    add("--precision", choices=("float32", "bfloat16", "int8"), help="of the arithmetic")
    add(
        "--workers",
        type=workers,
        metavar="N",
        help="processes, a thread each; auto: one on each CPU core, none for a few sentences",
    )
    add("--stats", action="store_true", help="at the end, what the engine did, on stderr")


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `Translator.search` takes. Asked before torch is imported.

    Raises: ConfigError for options that mean nothing together.
    """
    given = {name: getattr(arguments, name) for name in (*ANY, *BEAM, *SAMPLE)}
    given = {name: value for name, value in given.items() if value is not None}
    beam, sample = ([typed(n) for n in names if n in given] for names in (BEAM, SAMPLE))
    drawn = ["--sample"] * arguments.sample + sample
    if beam and drawn:
        raise ConfigError(
            f"{beam[0]} belongs to a search for the best, {drawn[0]} draws at random: leave one out"
        )
    return {"name": "sample", **given} if drawn else given


def engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `Translator.engine` takes. Raises: ConfigError, as `search_options`."""
    several = isinstance(arguments.workers, int) and arguments.workers > 1
    if several and arguments.device.startswith("cuda"):
        raise ConfigError(
            "--workers are processes on CPU cores; a GPU takes one: leave it out, or add "
            "--device cpu"
        )
    return {name: getattr(arguments, name) for name in ENGINE}


def of_models(arguments: argparse.Namespace) -> list[str]:
    """The options of `add_device`, `add_search` and `add_engine` that were given."""
    names = ("device", "tag", *ANY, *BEAM, "sample", *SAMPLE, *ENGINE, "stats")
    values = ((name, getattr(arguments, name)) for name in names)
    # Not `in (None, False)`, which holds of a 0 that was typed as well.
    return [typed(n) for n, v in values if not (v is None or v is False or v == "auto")]


def typed(name: str) -> str:
    """An option as one types it."""
    return f"--{name.replace('_', '-')}"


def as_typed(message: str, arguments: argparse.Namespace) -> str:
    """A message in which options of conf/decode are called as this command calls them."""

    def own(found: re.Match[str]) -> str:
        name = "nbest" if found[1] == "samples" else found[1]
        return f"{typed(name)} " if hasattr(arguments, name) else found[0]

    if hasattr(arguments, "beam_size"):
        message = message.replace("decode=greedy", "--beam-size 1")
    return re.sub(r"\bdecode\.(\w+)=", own, message)


def number(text: str) -> float:
    """As it was typed: 99 stays 99 in a message."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} should be at least 1")
    if value >= 2**31:
        raise argparse.ArgumentTypeError(f"{value} is too large")
    return value


def workers(text: str) -> int | str:
    if text == "auto":
        return text
    count, cores = positive(text), usable_cores()
    if count > max(2, cores):  # two may be tried on one core
        raise argparse.ArgumentTypeError(
            f"{count} processes on {cores} core(s) would wait for each other: {cores}, or auto"
        )
    return count
