"""Turn lines into requests for translations, and translations into lines."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.text_stream import without_marks
from seq2seq.cli.files import InputPath
from seq2seq.cli.lines import LONGEST_INPUT_LINE, as_utf8
from seq2seq.cli.models import SAMPLES, DecodingOptions, ModelOptions
from seq2seq.cli.options import argument, check_absent, flag, value
from seq2seq.text.documents.placeholders import is_language

if TYPE_CHECKING:
    from seq2seq.text.tokenization.tokenizer import Tokenizer
    from seq2seq.translation.request import Result, TranslationRequest

JSON_INPUT = 'read JSON lines: "text"; "prefix", "must" and "must_not" of its translation'
COPY_NUMBERS = "copy lines without words: numbers, dates, codes, addresses, placeholders"
TOO_LONG = f"has {LONGEST_INPUT_LINE:,} bytes or more and is not translated: cut it into sentences"

OF_SENTENCES = ("--nbest", "--json", "--prefix", "--json-input")

prefix = partial(as_utf8, where="--prefix")


class LineOptions(ModelOptions, DecodingOptions):
    """Options for lines: how they are read, translated and written."""

    nbest: int | None = value("print N translations, with their scores", "N", maximum=SAMPLES)
    json: bool = flag("print JSON lines: score, confidence, pieces")
    prefix: str = value("beginning of every translation", "TEXT", default="", type=prefix)
    json_input: bool = flag(JSON_INPUT)
    max_source: int | None = value("split lines of over N pieces", "N")
    copy_numbers: bool = flag(COPY_NUMBERS)
    quiet: bool = flag("show no progress")


class TranslateOptions(LineOptions):
    """The options of `seq2seq translate`."""

    texts: list[str] = argument("texts; default: the lines of stdin", "TEXT", nargs="*")
    input: InputPath | None = value("read lines from FILE instead of stdin", "FILE", "-i")
    output: Path | None = value("write to FILE instead of stdout", "FILE", "-o")
    document: bool = flag("translate the sentences of whole texts, or FILE")
    html: bool = flag("for --document: the texts are HTML")
    fuzzy: bool = flag("for --document FILE.po: mark new translations as fuzzy")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.html and not self.document:
            raise ConfigError("--html is for whole texts: add --document")
        if self.document:
            check_absent(self, OF_SENTENCES, "is for single sentences: leave it or --document out")


def request_of(line: str | None, place: str, options: LineOptions) -> "TranslationRequest":
    """The request for a line of the input, which is JSON if --json-input is given.

    Args:
        line: the line; None if it was too long to read, so that the request has failed already.
    """
    from seq2seq.decoding.constraints.request import parse_request
    from seq2seq.translation.request import Problem, TranslationRequest

    if line is None:
        request = TranslationRequest("", place=place)
        request.fail(DataError(TOO_LONG), Problem("unreadable", TOO_LONG))
        return request
    if options.json_input:
        line = without_marks(line)
        try:
            entry = parse_request(line) if line.strip() else {"text": ""}
            if entry.get("prefix", "") == "":
                entry["prefix"] = options.prefix
            request = TranslationRequest(**entry, place=place)
        except DataError as error:
            request = TranslationRequest("", place=place)
            request.refuse(error)
            return request
    else:
        request = TranslationRequest(line, options.prefix, place=place)
    asks = request.prefix or request.must or request.must_not or not request.text.strip()
    if options.copy_numbers and not asks and not is_language(request.text):
        request.copy()
    return request


def put_best_first(result: "Result", mbr: int | None, reference: str | None = None) -> None:
    """Move the best translation to the front: the one with the highest expected chrF among the
    first `mbr`, or the nearest to `reference`. It meets as many requirements as the first one.
    """
    translations = result.translations
    if len(translations) < 2 or (mbr is None and reference is None):
        return
    from seq2seq.metrics.mbr import minimum_bayes_risk
    from seq2seq.metrics.sentence_quality import nearest_to

    least = translations[0].unsatisfied
    places = [i for i, t in enumerate(translations[:mbr]) if t.unsatisfied == least]
    texts = [translations[i].text for i in places]
    best = minimum_bayes_risk(texts).best if reference is None else nearest_to(texts, reference)
    translations.insert(0, translations.pop(places[best]))


# (line number, request that has ended) -> lines, line ends included.
Format = Callable[[int, "TranslationRequest"], str]


def format_of(options: LineOptions, target: "Tokenizer") -> Format:
    """The function that formats translations as --json and --nbest say."""
    labels = target.texts() if options.json else None
    return partial(format_lines, nbest=options.nbest, labels=labels)


def format_lines(
    line_no: int, request: "TranslationRequest", *, nbest: int | None, labels: list[str] | None
) -> str:
    """The translations of a line as text: the best one, or an empty line if there is none.

    Args:
        nbest: maximum number of translations, as rows of line number, score and text.
        labels: text of each piece, by id, to write JSON instead; without a translation, unknown
            values are null.
    """
    best = request.result.translations[: nbest or 1]
    if labels is not None:
        entries = [translation.to_json(labels) for translation in best]
        if not (best or nbest):
            unknown = dict.fromkeys(("score", "confidence", "truncated", "tokens"))
            entries = [{"text": None if request.error else "", **unknown}]
        lines = [json.dumps({"line": line_no, **each}, ensure_ascii=False) for each in entries]
    elif nbest:
        lines = [f"{line_no}\t{each.score:.4f}\t{one_line(each.text)}" for each in best]
    else:
        lines = [one_line(best[0].text) if best else ""]
    return "".join(f"{line}\n" for line in lines)


def one_line(text: str) -> str:
    """A text with its line breaks replaced by spaces."""
    return text.replace("\r", " ").replace("\n", " ")
