"""`translate --document`: whole texts, in which only the sentences change."""

import argparse
import io
import sys
import warnings
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, cast

from seq2seq.cli.lines import decode_leniently
from seq2seq.cli.options import option_name
from seq2seq.cli.requirements import rank_by_risk
from seq2seq.documents.document import Document
from seq2seq.documents.html_markup import read_html
from seq2seq.documents.sentences import LIBRARY_ADVICE, lacks_library
from seq2seq.environment import delay_interrupts
from seq2seq.errors import ConfigError, DataError
from seq2seq.text_stream import BLOCK, Readable, TextBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2seq.decoding import Search
    from seq2seq.translation.request import Translation, TranslationRequest
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translator import Translator

LONGEST = 2**24  # bytes, of a document in memory
APART = (
    "the model's attention has no weights that link words, so tags inside sentences cut them: each "
    "text between two tags is translated for itself"
)
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
    from seq2seq.translation.documents import join_translations, requests_of
    from seq2seq.translation.problems import warn_of_problems

    source, target = (translator.config["data"][side] for side in ("source", "target"))
    given = arguments.texts or [read_document(arguments)]
    choice = translator.find_choice(arguments.path) if arguments.html else None
    if arguments.html and choice is None:
        warnings.warn(APART, stacklevel=2)
    read = read_html if arguments.html else None
    documents = [Document.of(text, source, read=read, whole=choice is not None) for text in given]
    if lacks_library(source):
        warnings.warn(LIBRARY_ADVICE, stacklevel=2)
    copies = arguments.keep is not None
    requests = [
        request for document in documents for request in requests_of(document, copies=copies)
    ]
    for number, request in enumerate(requests, start=1):
        request.place = f"sentence {number}"
    for request in warn_of_problems(texts.translate(requests)):
        if arguments.mbr:
            rank_by_risk(request.result.translations, arguments)
    best = iter(align_linked(translator, requests))
    with ExitStack() as stack:
        output = sys.stdout
        if arguments.output:
            opened = arguments.output.open("w", encoding="utf-8", newline="\n")
            output = stack.enter_context(opened)
        for document in documents:
            with delay_interrupts():
                translations = [next(best) for _ in document.sentences]
                output.write(join_translations(document, translations, choice, target))
                output.write("\n" if arguments.texts else "")
    return int(any(request.error for request in requests))


def align_linked(
    translator: "Translator", requests: "Sequence[TranslationRequest]"
) -> "list[Translation]":
    """The best translation of each sentence, or itself; aligned where words are to be linked."""
    from seq2seq.translation.request import Translation

    best = [(*each.result.translations, Translation(each.text, 0.0))[0] for each in requests]
    linked = [number for number, request in enumerate(requests) if request.links]
    pairs = [(requests[number].text, best[number].text) for number in linked]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is too long to be aligned keeps the order of words
        for number, alignment in zip(
            linked, translator.alignments(pairs, units="tokens") if pairs else (), strict=True
        ):
            best[number] = best[number]._replace(alignment=alignment)
    return best


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
