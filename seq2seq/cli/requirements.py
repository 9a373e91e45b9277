"""Requirements of translations: their options, and the requests and rules that say them."""

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.text_stream import without_marks
from seq2seq.cli.files import InputPath
from seq2seq.cli.lines import LONGEST_INPUT_LINE
from seq2seq.cli.options import Option, add_options, positive
from seq2seq.text.documents.placeholders import PLACEHOLDERS, is_language
from seq2seq.text.languages import is_spaceless

if TYPE_CHECKING:
    from seq2seq.decoding import Search
    from seq2seq.decoding.constraints.request import Rules
    from seq2seq.translation.request import Translation, TranslationRequest
    from seq2seq.translation.translator import Translator

KEEP = "copy what matches as it is; placeholders: {name}, %%s, addresses, tags and the like"
COPY_NUMBERS = "copy lines that are no language: numbers, dates, codes, addresses, placeholders"
OPTIONS = {
    "glossary": Option(InputPath, "FILE", "terms and their translations, tab-separated"),
    "keep": Option(str, "REGEX", KEEP),
    "mbr": Option(positive, "N", "choose among N by minimum Bayes risk"),
}
TOO_LONG = f"has {LONGEST_INPUT_LINE:,} bytes or more and is not translated: cut it into sentences"


def add_requirements(command: ArgumentParser) -> None:
    """The options of `rules_of` and `rank_by_risk`."""
    group = command.add_argument_group("requirements")
    add_options(group, OPTIONS)
    ignore_case = "find terms of the glossary in any case"
    group.add_argument("--ignore-case", action="store_true", help=ignore_case)


def check_requirements(arguments: Namespace) -> None:
    """Raises: ConfigError for an option that needs another."""
    if arguments.keep is not None and not arguments.keep.strip():
        raise ConfigError("--keep should be a regular expression, or placeholders: it is blank")
    if arguments.ignore_case and not arguments.glossary:
        raise ConfigError("--ignore-case is for the terms of a --glossary: add one")


def check_beams(arguments: Namespace, search: "Search") -> None:
    """Raises: ConfigError for a search of fewer beams than are to be chosen from or printed."""
    for name in ("nbest", "mbr"):
        if (number := getattr(arguments, name, None) or 0) > search.beams:
            raise ConfigError(f"--{name} {number} needs as many beams: add --beam-size {number}")
    if getattr(arguments, "nearest", None) and search.beams == 1:
        raise ConfigError("--nearest chooses among several: add --beam-size 8")


def rules_of(arguments: Namespace, translator: "Translator", search: "Search") -> "Rules | None":
    """The requirements of all translations; None = none.

    Raises: ConfigError for an invalid pattern, and for a search that cannot find what must be
        there; DataError for a damaged glossary.
    """
    from seq2seq.decoding import check_required
    from seq2seq.decoding.constraints.glossary import Glossary
    from seq2seq.decoding.constraints.placeholders import Placeholders
    from seq2seq.decoding.constraints.request import Rules

    if not (arguments.glossary or arguments.keep):
        return None
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


def request_of(line: str | None, place: str, arguments: Namespace) -> "TranslationRequest":
    """The request of a line of the input, which is JSON if the arguments say so.

    Args:
        line: None = it is too long to be read: the request has failed already.
    """
    from seq2seq.decoding.constraints.request import parse_request
    from seq2seq.translation.request import Problem, TranslationRequest

    if line is None:
        request = TranslationRequest("", place=place)
        request.fail(DataError(TOO_LONG), Problem("unreadable", TOO_LONG))
        return request
    if arguments.json_input:
        line = without_marks(line)
        try:
            entry = parse_request(line) if line.strip() else {"text": ""}
            if entry.get("prefix", "") == "":
                entry["prefix"] = arguments.prefix
            request = TranslationRequest(**entry, place=place)
        except DataError as error:
            request = TranslationRequest("", place=place)
            request.refuse(error)
            return request
    else:
        request = TranslationRequest(line, arguments.prefix, place=place)
    asks = request.prefix or request.must or request.must_not or not request.text.strip()
    if arguments.copy_numbers and not asks and not is_language(request.text):
        request.copy()
    return request


def put_best_first(
    translations: "list[Translation]", arguments: Namespace, reference: str | None = None
) -> None:
    """Of the translations that contain as much of what they must as the best, put one first: for
    --mbr N, that of N with the highest expected chrF; with a reference, the nearest to it.
    """
    if len(translations) < 2 or (arguments.mbr is None and reference is None):
        return
    from seq2seq.metrics.mbr import minimum_bayes_risk
    from seq2seq.metrics.sentence_quality import nearest_to

    least = translations[0].unsatisfied
    places = [i for i, t in enumerate(translations[: arguments.mbr]) if t.unsatisfied == least]
    texts = [translations[i].text for i in places]
    best = minimum_bayes_risk(texts).best if reference is None else nearest_to(texts, reference)
    translations.insert(0, translations.pop(places[best]))
