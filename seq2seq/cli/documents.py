"""`translate --document`: whole texts and files, in which only the sentences change."""

import argparse
import io
import re
import sys
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from seq2seq.cli.files import InputPath
from seq2seq.cli.lines import decode_leniently
from seq2seq.cli.options import option_name
from seq2seq.cli.requirements import put_best_first
from seq2seq.data.text import similar_names
from seq2seq.documents.files.contents import Contents, Cutter
from seq2seq.documents.files.formats import LONGEST, format_of_file, open_file
from seq2seq.documents.html_markup import read_html
from seq2seq.documents.sentences import LIBRARY_ADVICE, lacks_library
from seq2seq.durable import replacing
from seq2seq.environment import delay_interrupts
from seq2seq.errors import ConfigError, DataError
from seq2seq.progress import Tally, show_tally
from seq2seq.text_stream import BLOCK, Readable, TextBytes

if TYPE_CHECKING:
    from seq2seq.decoding import Search
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translator import Translator

APART = (
    "the model's attention has no weights that link words, so tags inside sentences cut them: each "
    "text between two tags is translated for itself"
)
NAME = re.compile(r"[^\s<>]+\.[A-Za-z]+")  # of a file, rather than a text
OF_SENTENCES = ("nbest", "json", "json_input", "prefix")


def check_documents(arguments: argparse.Namespace) -> None:
    """Take the only text for the name of a file if its end is that of a format.

    Raises: ConfigError for an option that needs another, or is of single sentences; for a file that
        does not exist.
    """
    arguments.file = None
    if arguments.document and len(arguments.texts) == 1 and format_of_file(arguments.texts[0]):
        path = InputPath(arguments.texts[0])
        if path.is_file():
            arguments.file, arguments.texts = path, []
        elif NAME.fullmatch(arguments.texts[0]):
            raise ConfigError(f"--document {path}: there is no such file. {similar_names(path)}")
    if arguments.file and arguments.html:
        raise ConfigError("--html is for texts: the end of its name says what a file is")
    if arguments.file and arguments.input:
        raise ConfigError("give --document FILE or --input, not both")
    if arguments.html and not arguments.document:
        raise ConfigError("--html is for whole texts: add --document")
    given = [option_name(name) for name in OF_SENTENCES if getattr(arguments, name)]
    if arguments.document and given:
        raise ConfigError(f"{given[0]} is for single sentences: leave it or --document out")


def keep_placeholders(arguments: argparse.Namespace, search: "Search") -> None:
    """Let a search that can do so keep the placeholders of documents."""
    from seq2seq.decoding import check_required

    with suppress(ConfigError):
        check_required(search)
        arguments.keep = "placeholders"


def translate_documents(
    arguments: argparse.Namespace, translator: "Translator", texts: "TextEngine"
) -> int:
    """Write the texts, or what the input holds, with their sentences translated.

    A sentence without a translation stays as it is. Returns: the exit code.
    """
    from seq2seq.translation.documents import add_alignments, join_translations, requests_of
    from seq2seq.translation.problems import warn_of_problems
    from seq2seq.translation.request import Translation

    source, target = (translator.config["data"][side] for side in ("source", "target"))
    has_tags = arguments.html or arguments.file
    choice = translator.find_choice(arguments.path) if has_tags else None
    if has_tags and choice is None:
        warnings.warn(APART, stacklevel=2)
    contents = read_contents(arguments, Cutter(source, choice is not None))
    if lacks_library(source):
        warnings.warn(LIBRARY_ADVICE, stacklevel=2)
    asks = {
        "copies": arguments.keep is not None,
        "checked": arguments.keep in (None, "placeholders"),
    }
    requests = [
        request for document in contents.documents for request in requests_of(document, **asks)
    ]
    for number, request in enumerate(requests, start=1):
        request.place = f"sentence {number}"
    tally = Tally("translated", "sentences", len(requests))
    with ExitStack() as stack:
        if not (arguments.quiet or arguments.texts or sys.stderr is None):
            stack.enter_context(show_tally(tally, sys.stderr))
        for request in tally.count(warn_of_problems(texts.translate(requests))):
            put_best_first(request.result.translations, arguments)
        linked = [(each, 0) for each in requests if each.links and each.result.translations]
        add_alignments(linked, translator.alignments)
    best = ((*each.result.translations, Translation(each.text, 0.0))[0] for each in requests)
    translated = [
        join_translations(document, [next(best) for _ in document.sentences], choice, target)
        for document in contents.documents
    ]
    with delay_interrupts():
        write_contents(arguments.output, contents.write(translated))
    return int(any(request.is_flawed for request in requests))


def read_contents(arguments: argparse.Namespace, cut: Cutter) -> Contents:
    """The contents of the file, the texts or the input.

    Raises: DataError if they cannot be read.
    """
    if arguments.file:
        return open_file(str(arguments.file), read_file(arguments.file), cut)
    read = read_html if arguments.html else None
    end = "\n" if arguments.texts else ""
    given = arguments.texts or [read_document(arguments)]
    return Contents(
        [cut(text, read) for text in given],
        lambda texts: "".join(text + end for text in texts).encode(),
    )


def read_file(path: Path) -> bytes:
    """The bytes of a file, not more than one that is too long has."""
    with path.open("rb") as file:
        return file.read(LONGEST + 1)


def write_contents(path: Path | None, data: bytes) -> None:
    """Write a file, whole or not at all; None = standard output."""
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    with replacing(path) as file:
        file.write(data)


def read_document(arguments: argparse.Namespace) -> str:
    """The whole input, with its line ends.

    Raises: DataError for more than 16 MiB, and for what is no text.
    """
    with ExitStack() as stack:
        stream = cast(Readable, sys.stdin.buffer)
        if arguments.input:
            stream = stack.enter_context(arguments.input.open("rb"))
        name = str(arguments.input or "standard input")
        raw = io.BufferedReader(TextBytes(stream, name), BLOCK).read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise DataError(
            f"{name} has more than {LONGEST:,} bytes, and documents are translated in memory: cut "
            "it, or translate it line by line, without --document"
        )
    return "\n".join(
        decode_leniently(line, f"line {line_no}")
        for line_no, line in enumerate(raw.split(b"\n"), start=1)
    )
