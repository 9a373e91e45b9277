"""Translate the given texts, or stdin line by line to stdout.

Each line that is read gives one line of output. It is empty for an empty line, and for a line that
cannot be translated, which also sets the exit code to 1. Messages go to stderr.

    seq2seq translate PATH < source.txt > out.txt
    seq2seq translate PATH "Ein Hund." --prefix "One" --nbest 3     line, score and text
    seq2seq translate PATH "Ein Hund." --json      {"text": ..., "score": ..., "tokens": [...], ...}
    seq2seq translate PATH --json-input            {"text": ..., "must": [["house", "houses"]], ...}
    seq2seq translate PATH --document < page.txt   translates sentences, keeps everything else
    seq2seq translate PATH --document a.docx -o b.docx    also pptx, odt, epub, html, srt, ...

For all files of a folder: seq2seq translate-files --help
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast

from seq2seq.base.environment import delay_interrupts
from seq2seq.base.errors import ConfigError
from seq2seq.base.text_stream import Readable
from seq2seq.cli import status
from seq2seq.cli.files import STDIN, check_input, check_written, inputs_of, warn_of_files
from seq2seq.cli.lines import InputLines, as_utf8
from seq2seq.cli.models import Opened, open_engine
from seq2seq.cli.requests import TranslateOptions, format_of, put_best_first, request_of

HELP = "translate texts, or stdin to stdout"
OFTEN = ("input", "output", "document", "beam_size", "nbest", "json", "glossary", "workers")


def run(options: TranslateOptions) -> int:
    from seq2seq.cli.documents import check_documents, translate_documents  # imports all formats

    document = check_documents(options)
    check_streams(options, document)
    given = [] if document else options.texts
    texts = [as_utf8(text, f"text {n}") for n, text in enumerate(given, 1)]
    warn_of_files(texts, f"To translate its content: seq2seq translate {options.path} -i FILE")
    opened = open_engine(options.path, options, options.nbest, keeps_placeholders=options.document)
    if options.document:
        code = translate_documents(options, opened, document or texts)
    else:
        code = translate_lines(options, opened, texts)
    opened.print_stats(options.engine)
    return code


def check_streams(options: TranslateOptions, document: Path | None) -> None:
    """Raises: ConfigError unless there is one input, and the output does not overwrite it."""
    if document is None and options.input:
        if options.texts:
            raise ConfigError("give texts or --input, not both")
        check_input(options.input)
    elif not (options.texts or document or sys.stdin):  # closed by `<&-`
        raise ConfigError("there is nothing to translate: standard input is closed: add -i FILE")
    stdin = [] if options.input or options.texts else [STDIN]
    check_written(options.output, *inputs_of(options), document, *stdin)


def translate_lines(options: TranslateOptions, opened: Opened, given: Sequence[str]) -> int:
    """Write the translation of each line as soon as it is found. Returns: the exit code."""
    from seq2seq.translation.problems import warn_of_problems

    texts = opened.text_engine(options.max_source)
    formatted = format_of(options, opened.translator.target)
    failed = False
    with ExitStack() as stack:
        lines = None
        if options.input:
            file = stack.enter_context(options.input.open("rb"))
            lines = InputLines(file, str(file.name))
        elif not given:
            lines = InputLines(cast(Readable, sys.stdin.buffer))
        requests = (
            request_of(text, f"line {line_no}", options)
            for line_no, text in enumerate(lines or given, start=1)
        )
        ended = texts.translate(requests, ready=lines.ready if lines else lambda: True)
        # With --json-input, a line that is refused does not stop the others.
        ended = stack.enter_context(closing(warn_of_problems(ended, lenient=options.json_input)))
        output = sys.stdout
        if options.output:
            output = stack.enter_context(options.output.open("w", encoding="utf-8", newline="\n"))
        # Translations that appear on a terminal show the progress themselves.
        shown = None if options.quiet or output.isatty() else lines
        ended = stack.enter_context(closing(status.with_progress(ended, shown)))
        for line_no, request in enumerate(ended, start=1):
            failed = failed or request.is_flawed
            put_best_first(request.result, options.requirements.mbr)
            text = formatted(line_no, request)
            with delay_interrupts():  # so that Ctrl-C leaves whole lines
                output.write(text)
                output.flush()  # the reader may be waiting for it
    return int(failed)
