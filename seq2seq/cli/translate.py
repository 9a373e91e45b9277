"""Translate the texts given, or stdin line by line to stdout.

As many lines come out as go in; an empty line for an empty line, and for one that cannot be
translated, which also makes the exit code 1. Messages go to stderr.

    seq2seq translate PATH < source.txt > out.txt
    seq2seq translate PATH "Ein Hund." --prefix "One" --nbest 3     number, score and text
    seq2seq translate PATH "Ein Hund." --json      {"text": ..., "score": ..., "tokens": [...], ...}
"""

import argparse
import sys
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from seq2seq.cli import progress
from seq2seq.cli.files import STDIN, check_input, check_written, warn_of_files
from seq2seq.cli.lines import Format, InputLines, Readable, format_of, write_line
from seq2seq.cli.options import (
    add_engine,
    add_model,
    add_search,
    engine_options,
    positive,
    search_options,
)
from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from seq2seq.text_stream import Translation

HELP = "translate texts, or stdin to stdout"


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add = command.add_argument
    add("texts", nargs="*", metavar="TEXT", help="nothing: read lines from stdin")
    add("-i", "--input", type=Path, metavar="FILE", help="read lines from here instead of stdin")
    add("-o", "--output", type=Path, metavar="FILE", help="write here instead of to stdout")
    add("--nbest", type=positive, metavar="N", help="print so many, with their scores")
    add("--json", action="store_true", help="a JSON object a line: score, confidence, pieces")
    add("--prefix", default="", metavar="TEXT", help="what every translation must begin with")
    add("--max-source", type=positive, metavar="N", help="pieces beyond which a line is cut")
    add("--quiet", action="store_true", help="show no progress")
    add_search(command)
    add_engine(command)


def run(arguments: argparse.Namespace) -> int:
    search, options = check(arguments)
    # torch takes a second: only once the arguments are known to be right.
    from seq2seq.translator import Translator

    translator = Translator.load(arguments.path, arguments.device, arguments.tag)
    chosen = translator.search(**search)
    if arguments.nbest and arguments.nbest > chosen.beams:
        raise ConfigError(
            f"--nbest {arguments.nbest} needs as many beams: add --beam-size {arguments.nbest}"
        )
    engine = translator.engine(chosen, **options)
    with ExitStack() as stack:
        lines = None
        if arguments.input:
            lines = InputLines(
                stack.enter_context(arguments.input.open("rb")), str(arguments.input)
            )
        elif not arguments.texts:
            lines = InputLines(cast(Readable, sys.stdin.buffer))
        results = translator.stream(
            lines or arguments.texts,
            engine,
            arguments.prefix,
            max_source=arguments.max_source,
            ready=lines.ready if lines else lambda: True,
        )
        stack.enter_context(closing(results))
        output = sys.stdout
        if arguments.output:
            opened = arguments.output.open("w", encoding="utf-8", newline="\n")
            output = stack.enter_context(opened)
        if lines and not arguments.quiet and progress.wanted(output):
            results = stack.enter_context(closing(progress.shown(results, lines)))
        code = write(results, output, format_of(arguments, translator.target))
    if arguments.stats:
        print(engine.stats, file=sys.stderr)
    return code


def check(arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the search, and those of the engine. Raises: ConfigError for a mistake."""
    search, engine = search_options(arguments), engine_options(arguments)
    if search.get("name") == "sample":
        search["samples"] = arguments.nbest
    if arguments.input:
        if arguments.texts:
            raise ConfigError("give texts or --input, not both")
        check_input(arguments.input)
    elif not arguments.texts and sys.stdin is None:  # as after `<&-`
        raise ConfigError(
            "there is nothing to translate: standard input is closed. Give texts, or a file: "
            f"seq2seq translate {arguments.path} < FILE"
        )
    mend = f"To translate what it holds: seq2seq translate {arguments.path} -i FILE"
    warn_of_files(arguments.texts, mend)
    read = arguments.input or (None if arguments.texts else STDIN)
    check_written(arguments.output, Path(arguments.path), read)
    return search, engine


def write(results: Iterable["list[Translation] | None"], output: TextIO, formatted: Format) -> int:
    """Write each result as soon as it is there. Returns: the exit code."""
    failed = False
    for number, found in enumerate(results, start=1):
        failed = failed or found is None
        for line in formatted(number, found):
            write_line(line, output)
    return int(failed)
