"""What translations must be like: the options, and what they ask of an engine for texts."""

import argparse
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from seq2seq.cli.files import InputPath
from seq2seq.cli.options import positive
from seq2seq.errors import ConfigError, DataError, Seq2SeqError
from seq2seq.languages import is_spaceless
from seq2seq.unpacked import without_marks

if TYPE_CHECKING:
    from seq2seq.constraints.request import Rules, TextRequest
    from seq2seq.decoding import Search
    from seq2seq.text_engine import Translation
    from seq2seq.translator import Translator


def add_requirements(command: argparse.ArgumentParser) -> None:
    """The options of `rules_of` and `best_by_risk`."""
    add = command.add_argument_group("requirements").add_argument
    add(
        "--glossary",
        type=InputPath,
        metavar="FILE",
        help="terms and their translations, tab-separated",
    )
    add("--ignore-case", action="store_true", help="find terms of the glossary in any case")
    add(
        "--keep",
        metavar="REGEX",
        help="copy what matches as it is; placeholders: {name}, %%s, addresses and tags",
    )
    add("--mbr", type=positive, metavar="N", help="choose among N by minimum Bayes risk")
    add("--utility", choices=("chrf", "bleu"), help="for --mbr: what is expected to be highest")


def check_requirements(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError for an option that needs another."""
    if arguments.utility and not arguments.mbr:
        raise ConfigError("--utility is for --mbr: add --mbr 64")
    if arguments.keep is not None and not arguments.keep.strip():
        raise ConfigError("--keep should be a regular expression, or placeholders: it is blank")
    if arguments.ignore_case and not arguments.glossary:
        raise ConfigError("--ignore-case is for the terms of a --glossary: add one")


def check_beams(arguments: argparse.Namespace, search: "Search") -> None:
    """Raises: ConfigError for a search of fewer beams than are to be chosen from or printed."""
    for name in ("nbest", "mbr"):
        if (number := getattr(arguments, name, None) or 0) > search.beams:
            raise ConfigError(f"--{name} {number} needs as many beams: add --beam-size {number}")


def rules_of(arguments: argparse.Namespace, translator: "Translator", search: "Search") -> "Rules":
    """What all translations must be like.

    Raises: ConfigError for an invalid pattern, and for a search that cannot find what must be
        there; DataError for a damaged glossary.
    """
    from seq2seq.constraints.glossary import Glossary
    from seq2seq.constraints.placeholders import PLACEHOLDERS, Placeholders
    from seq2seq.constraints.request import Rules
    from seq2seq.decoding import check_required

    if arguments.glossary or arguments.keep:
        check_required(search)
    keep = PLACEHOLDERS if arguments.keep == "placeholders" else arguments.keep
    try:
        pattern = re.compile(keep) if keep else None
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"--keep {keep!r} is not a regular expression: {error}") from error
    glossary = Glossary()
    if arguments.glossary:
        spaceless = is_spaceless(translator.config["data"]["source"])
        glossary = Glossary.read(arguments.glossary, not arguments.ignore_case, spaceless)
    return Rules(glossary, Placeholders(pattern))


def requests_of(
    lines: Iterable[str | None], check: "Callable[[TextRequest], None]"
) -> Iterator["TextRequest | None"]:
    """The requests of JSON lines; None, with a warning, for a line that `check` refuses, or that is
    none.
    """
    from seq2seq.constraints.request import TextRequest

    for line_no, line in enumerate(lines, start=1):
        try:
            if line is None:
                yield None
                continue
            line = without_marks(line)
            request = TextRequest.from_json(line) if line.strip() else TextRequest("")
            check(request)
            yield request
        except (ConfigError, DataError) as error:
            warnings.warn(f"line {line_no}: {error}", stacklevel=2)
            yield None
        except Seq2SeqError as error:  # of the pattern: no other line would be better
            raise Seq2SeqError(f"line {line_no}: {error}") from error


def best_by_risk(
    translations: "list[Translation] | None", arguments: argparse.Namespace, language: str
) -> "list[Translation] | None":
    """For --mbr N, of N translations that contain as much of what they must as the best, the one of
    the highest expected utility first.
    """
    if not (translations and arguments.mbr):
        return translations
    from seq2seq.metrics.mbr import minimum_bayes_risk

    several = [
        t for t in translations[: arguments.mbr] if t.unsatisfied == translations[0].unsatisfied
    ]
    texts = [each.text for each in several]
    best = several[minimum_bayes_risk(texts, arguments.utility or "chrf", language).best]
    return [best, *(each for each in translations if each is not best)]
