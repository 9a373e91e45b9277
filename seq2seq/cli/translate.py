"""Translate the texts given, or stdin line by line to stdout.

One line is written per line read. It is empty for an empty line, and for one that cannot be
translated, which also sets the exit code to 1. Messages go to stderr.

    seq2seq translate PATH < source.txt > out.txt
    seq2seq translate PATH "Ein Hund." --prefix "One" --nbest 3     line, score and text
    seq2seq translate PATH "Ein Hund." --json      {"text": ..., "score": ..., "tokens": [...], ...}
    seq2seq translate PATH --json-input            {"text": ..., "must": [["house", "houses"]], ...}
    seq2seq translate PATH --document < page.txt   sentence by sentence, with all between them kept
    seq2seq translate PATH --document a.docx -o b.docx    also txt, md, html, srt, vtt, ...
    seq2seq translate PATH --files IN --output-dir OUT --shard 1/8    all files of a folder; resumes
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from seq2seq.base.errors import ConfigError
from seq2seq.base.text_stream import Readable
from seq2seq.cli import status
from seq2seq.cli.documents import check_documents, keep_placeholders, translate_documents
from seq2seq.cli.files import STDIN, InputPath, check_input, check_written, inputs_of, warn_of_files
from seq2seq.cli.lines import InputLines, as_utf8, format_of, write_line
from seq2seq.cli.options import (
    add_decoding,
    add_ensemble,
    add_model,
    choose_shortlist,
    decoding_arguments,
    open_models,
    positive,
)
from seq2seq.cli.ray_cluster import translate_on_ray
from seq2seq.cli.requirements import (
    COPY_NUMBERS,
    add_requirements,
    check_beams,
    check_requirements,
    put_best_first,
    request_of,
    rules_of,
)
from seq2seq.cli.sharded import add_files, check_files, merge, translate_files

if TYPE_CHECKING:
    from seq2seq.decoding.engine import Engine
    from seq2seq.decoding.workers import Workers
    from seq2seq.translation.request import TranslationRequest
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translation.translator import Translator

HELP = "translate texts, or stdin to stdout"


def add_arguments(command: ArgumentParser) -> None:
    add_model(command)
    add = command.add_argument
    add("texts", nargs="*", metavar="TEXT", help="texts to translate; none: read lines from stdin")
    instead = "read lines from FILE instead of stdin"
    add("-i", "--input", type=InputPath, metavar="FILE", help=instead)
    add("-o", "--output", type=Path, metavar="FILE", help="write to FILE instead of stdout")
    add("--nbest", type=positive, metavar="N", help="print N translations, with their scores")
    add("--json", action="store_true", help="print JSON lines: score, confidence, pieces")
    add("--prefix", default="", metavar="TEXT", help="what every translation must begin with")
    entries = 'read JSON lines: "text"; "prefix", "must" and "must_not" of its translation'
    add("--json-input", action="store_true", help=entries)
    add("--document", action="store_true", help="translate the sentences of whole texts, or FILE")
    add("--html", action="store_true", help="for --document: what is between the tags of HTML")
    fuzzy = "for --document FILE.po: mark the messages that are filled as fuzzy"
    add("--fuzzy", action="store_true", help=fuzzy)
    add_files(command)
    add("--max-source", type=positive, metavar="N", help="split lines of over N pieces")
    add("--quiet", action="store_true", help="show no progress")
    add_requirements(command)
    add("--copy-numbers", action="store_true", help=COPY_NUMBERS)
    add_ensemble(command)
    add_decoding(command)


def run(arguments: Namespace) -> int:
    search, options = decoding_options(arguments)
    if arguments.merge:
        return merge(arguments)
    path = Path(arguments.path)
    options["shortlist"] = arguments.shortlist = choose_shortlist(path, arguments.shortlist)
    if arguments.ray:
        return translate_on_ray(arguments, partial(open_engine, search=search, options=options))
    translator, engine, texts = open_engine(arguments, search, options)
    if arguments.document:
        code = translate_documents(arguments, translator, texts)
    elif arguments.files:
        code = translate_files(arguments, translator, texts)
    else:
        code = translate_lines(arguments, translator, texts)
    if arguments.stats:
        status.print_stats(engine)
    return code


def open_engine(
    arguments: Namespace, search: dict[str, Any], options: dict[str, Any]
) -> "tuple[Translator, Engine | Workers, TextEngine]":
    """The model, an engine for it, and one for texts; arguments as `decoding_options` returns."""
    translator = open_models(arguments.path, arguments)
    chosen = translator.search(**search)
    check_beams(arguments, chosen)
    if arguments.document and arguments.keep is None:
        keep_placeholders(arguments, chosen)
    rules = rules_of(arguments, translator, chosen)
    engine = translator.engine(chosen, **options)
    return translator, engine, translator.text_engine(engine, arguments.max_source, rules)


def translate_lines(arguments: Namespace, translator: "Translator", texts: "TextEngine") -> int:
    """Write the translation of each line as soon as it is there. Returns: the exit code."""
    from seq2seq.translation.problems import warn_of_problems

    with ExitStack() as stack:
        lines = None
        if arguments.input:
            file = stack.enter_context(arguments.input.open("rb"))
            lines = InputLines(file, str(arguments.input))
        elif not arguments.texts:
            lines = InputLines(cast(Readable, sys.stdin.buffer))
        requests = (
            request_of(text, f"line {line_no}", arguments)
            for line_no, text in enumerate(lines or arguments.texts, start=1)
        )
        ended = texts.translate(requests, ready=lines.ready if lines else lambda: True)
        # Where each line asks for something of its own, the others are translated all the same.
        ended = stack.enter_context(closing(warn_of_problems(ended, lenient=arguments.json_input)))
        output = sys.stdout
        if arguments.output:
            opened = arguments.output.open("w", encoding="utf-8", newline="\n")
            output = stack.enter_context(opened)
        # No progress where the translations themselves appear on a terminal.
        if lines and not (arguments.quiet or sys.stderr is None or output.isatty()):
            ended = stack.enter_context(closing(status.with_progress(ended, lines)))
        return write_results(ended, output, arguments, translator)


def write_results(
    ended: "Iterable[TranslationRequest]",
    output: TextIO,
    arguments: Namespace,
    translator: "Translator",
) -> int:
    """Write results one by one. Returns: the exit code."""
    formatted = format_of(arguments, translator.target)
    failed = False
    for line_no, request in enumerate(ended, start=1):
        failed = failed or request.is_flawed
        put_best_first(request.result.translations, arguments)
        for line in formatted(line_no, request):
            write_line(line, output)
    return int(failed)


def decoding_options(arguments: Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of the search and of the engine. Raises: ConfigError for a mistake."""
    search, engine = decoding_arguments(arguments)
    check_files(arguments)
    check_documents(arguments)
    check_requirements(arguments)
    if search.get("name") == "sample":
        search["samples"] = max(arguments.mbr or 0, arguments.nbest or 0) or None
    if arguments.input:
        if arguments.texts:
            raise ConfigError("give texts or --input, not both")
        check_input(arguments.input)
    elif not (arguments.texts or arguments.file or arguments.files or sys.stdin):  # after `<&-`
        raise ConfigError("there is nothing to translate: standard input is closed: add -i FILE")
    arguments.texts = [as_utf8(text, f"text {n}") for n, text in enumerate(arguments.texts, 1)]
    if arguments.prefix:
        arguments.prefix = as_utf8(arguments.prefix, "--prefix")
    if arguments.texts:
        mend = f"To translate its content: seq2seq translate {arguments.path} -i FILE"
        warn_of_files(arguments.texts, mend)
    stdin = [] if arguments.input or arguments.texts or arguments.file else [STDIN]
    check_written(arguments.output, *inputs_of(arguments), *stdin)
    return search, engine
