"""`translate --document`: whole texts, in which only the sentences change."""

import argparse
import io
import sys
import warnings
from contextlib import ExitStack, suppress
from itertools import chain
from typing import TYPE_CHECKING, cast

from seq2seq.cli.lines import decode_leniently
from seq2seq.cli.options import option_name
from seq2seq.cli.requirements import rank_by_risk
from seq2seq.documents.document import Document
from seq2seq.documents.sentences import LIBRARY_ADVICE, lacks_library
from seq2seq.environment import delay_interrupts
from seq2seq.errors import ConfigError, DataError
from seq2seq.text_stream import BLOCK, Readable, TextBytes

if TYPE_CHECKING:
    from seq2seq.decoding import Search
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translator import Translator

LONGEST = 2**24  # bytes, of a document in memory
OF_SENTENCES = ("nbest", "json", "json_input", "prefix")


def check_documents(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError for an option that needs another, or is of single sentences."""
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
    from seq2seq.translation.problems import warn_of_problems
    from seq2seq.translation.request import TranslationRequest

    source, target = (translator.config["data"][side] for side in ("source", "target"))
    given = arguments.texts or [read_document(arguments)]
    documents = [Document.of(text, source, html=arguments.html) for text in given]
    if lacks_library(source):
        warnings.warn(LIBRARY_ADVICE, stacklevel=2)
    sentences = chain.from_iterable(document.sentences for document in documents)
    requests = [
        TranslationRequest(sentence, place=f"sentence {number}")
        for number, sentence in enumerate(sentences, start=1)
    ]
    for request in warn_of_problems(texts.translate(requests)):
        if arguments.mbr:
            rank_by_risk(request.result.translations, arguments)
    best = (r.result.translations[0].text if r.result.translations else r.text for r in requests)
    with ExitStack() as stack:
        output = sys.stdout
        if arguments.output:
            opened = arguments.output.open("w", encoding="utf-8", newline="\n")
            output = stack.enter_context(opened)
        for document in documents:
            with delay_interrupts():
                output.write(document.join([next(best) for _ in document.sentences], target))
                output.write("\n" if arguments.texts else "")
    return int(any(request.error for request in requests))


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
