"""Translate whole texts and files: only their sentences change (`translate --document`)."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from seq2seq.base.durable import replacing
from seq2seq.base.environment import delay_interrupts
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.progress import Tally, show_tally
from seq2seq.base.text_stream import BLOCK, Readable, TextBytes
from seq2seq.cli.files import InputPath
from seq2seq.cli.lines import decode_leniently
from seq2seq.cli.models import Opened
from seq2seq.cli.requests import TranslateOptions, put_best_first
from seq2seq.data.text.lines import similar_names
from seq2seq.text.documents.files.archives import SUFFIXES as ARCHIVES
from seq2seq.text.documents.files.contents import Cutter, join_contents
from seq2seq.text.documents.files.formats import (
    FORMATS,
    LONGEST,
    advise,
    format_of_file,
    open_file,
    open_plain,
)
from seq2seq.text.documents.files.pages import open_html
from seq2seq.text.documents.sentences import LIBRARY_ADVICE, lacks_library

APART = (
    "the model's attention has no weights that link words, so tags inside sentences cut them: each "
    "text between two tags is translated separately"
)
# Suffixes of documents that cannot be translated.
OTHER_SUFFIXES = """
    7z adoc ai arb ass azw3 bmp csv djvu doc docm dot dotx eml fb2 fodt gif ics idml indd ini
    ipynb jpeg jpg jsonl key latex log lrc mdx mhtml mobi mp3 mp4 msg numbers odg ods org ott pages
    pdf php png pot potx pps ppsx ppt ps psd pub rst rtf sbv smi ssa sub svg sxw tar tex tiff toml
    tsv ttml typ wpd wps xhtml xls xlsm zip"""
OTHERS = OTHER_SUFFIXES.split()
SAME = {".markdown": ".md", ".htm": ".html", ".xlf": ".xliff", ".yml": ".yaml"}
ENDS = "|".join(["gz", *OTHERS, *(name[1:] for name in FORMATS)])
# A file name rather than a text: a path, a word with a suffix, or words with a known suffix.
NAME = re.compile(
    rf"(?!\w+://)[^\s<>]+\.(?=\d*[A-Za-z])[A-Za-z0-9]{{1,10}}|(?:~|\.{{1,2}})?/\S*|\S+/"
    rf"|[^\r\n<>]+\.(?:{ENDS})",
    re.I,
)
# First bytes of documents that are text, but not plain text.
MARKUP = re.compile(rb"\s*(?:\{\\rtf|<\?xml|<!doctype|<html|webvtt|\d+\s+\d+:\d+:\d+)", re.I)


def check_documents(options: TranslateOptions) -> Path | None:
    """The file to translate as a document; None for texts and standard input.

    Raises: ConfigError for an option that needs another one, for a file that does not exist or has
        no known format, and for a document whose lines would be translated one by one.
    """
    document = choose_document(options) if options.document else None
    if not options.document:
        check_lines_of_text(map(Path, options.texts))
    if options.fuzzy and not (document and document.suffix.lower() == ".po"):
        raise ConfigError("--fuzzy is for --document FILE.po: leave it out")
    path, source = options.output, document or options.input
    made = document.suffix.lower() if document else ".txt"
    made = ".html" if options.html else made
    end = path.suffix.lower() if path else ""
    if path is None or (source and end == source.suffix.lower()):
        return document
    is_other = end[1:] in OTHERS or (end in FORMATS and SAME.get(end, end) != SAME.get(made, made))
    if (end in ARCHIVES and end != made) or (options.document and is_other):
        raise ConfigError(f"-o {path}: the output is {made[1:]}. Type -o {path.with_suffix(made)}")
    return document


def check_lines_of_text(files: Iterable[Path]) -> None:
    """Raises: ConfigError if a file is a document rather than lines of text."""
    for path in files:
        if end_of(path) in FORMATS.keys() - {".txt"} and os.path.isfile(path):
            raise ConfigError(f"{path} is a document, not lines of text. Type --document {path}")


def choose_document(options: TranslateOptions) -> Path | None:
    """The file among the texts, or else the input, if its name says that it is a document.

    Raises: ConfigError if there are several files, or if one is missing or of another format.
    """
    texts = options.texts
    names = [text for text in texts if os.path.lexists(text) or NAME.fullmatch(text.strip())]
    if names and (len(texts) > 1 or options.input):
        raise ConfigError(f"{names[0]} is the name of a file: give it alone")
    path = InputPath(names[0]) if names else options.input
    if path is None:
        return None
    end = end_of(path)
    if names and path.is_dir():
        raise ConfigError(f"--document {path} is a folder: give one of its files")
    if names and not path.exists():
        raise ConfigError(f"--document {path}: there is no such file. {similar_names(path)}")
    if options.html and (names or (end in FORMATS and SAME.get(end, end) != ".html")):
        raise ConfigError("--html is for texts: the name of a file says its format")
    is_file = names or (end in FORMATS.keys() - {".txt"} and not options.html)
    is_other = end[1:] in OTHERS and not options.html
    if is_other or (is_file and not format_of_file(str(path))):
        raise ConfigError(f"--document {advise(str(path))}")
    return path if is_file and path.exists() else None


def end_of(path: Path) -> str:
    """The suffix that says the format of a file, ignoring .gz."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def translate_documents(options: TranslateOptions, opened: Opened, given: Path | list[str]) -> int:
    """Translate the sentences of a document, of texts or of standard input, and write the result.

    A sentence without a translation is written unchanged.

    Args:
        given: file of the document, or the texts; empty = read --input or standard input.

    Returns: the exit code.
    """
    from seq2seq.translation.documents import add_alignments, join_translations, requests_of
    from seq2seq.translation.problems import warn_of_problems
    from seq2seq.translation.request import Translation

    texts, translator = opened.text_engine(options.max_source), opened.translator
    source, target = (translator.config["data"][side] for side in ("source", "target"))
    has_tags = options.html or isinstance(given, Path)
    choice = translator.find_choice(options.path) if has_tags else None
    if has_tags and choice is None:
        warnings.warn(APART, stacklevel=2)
    cut = Cutter(source, choice is not None, options.fuzzy)
    if isinstance(given, Path):
        with given.open("rb") as file:
            contents = open_file(str(file.name), file.read(LONGEST + 1), cut)
        parts = [contents]
    else:
        open_text, end = open_html if options.html else open_plain, b"\n" if given else b""
        parts = [open_text(text, cut) for text in given or [read_input(options)]]
        contents = join_contents(parts, lambda written: b"".join(each + end for each in written))
    if lacks_library(source):
        warnings.warn(LIBRARY_ADVICE, stacklevel=2)
    copies = opened.rules is not None and opened.rules.placeholders.pattern is not None
    checked = options.requirements.keep in (None, "placeholders")
    wishes: Any = {"copies": copies, "context": translator.context, "checked": checked}
    requests = [each for part in parts for each in requests_of(part.documents, **wishes)]
    for number, request in enumerate(requests, start=1):
        request.place = f"sentence {number}"
    tally = Tally("translated", "sentences", len(requests))
    is_read = isinstance(given, Path) or not given
    with show_tally(tally, sys.stderr if is_read and not options.quiet else None):
        ended = texts.translate(requests)
        for request in tally.count(warn_of_problems(ended)):
            put_best_first(request.result, options.requirements.mbr)
        linked = [(each, 0) for each in requests if each.links and each.result.translations]
        add_alignments(linked, translator.alignments)
    best = ((*each.result.translations, Translation(each.text, 0.0))[0] for each in requests)
    translated = [
        join_translations(document, [next(best) for _ in document.sentences], choice, target)
        for document in contents.documents
    ]
    data = contents.write(translated)
    for problem in contents.problems:
        warnings.warn(problem, stacklevel=2)
    with delay_interrupts():
        sys.stdout.flush()
        output = options.output
        with replacing(output) if output else nullcontext(sys.stdout.buffer) as file:
            file.write(data)
    return int(bool(contents.problems) or any(request.is_flawed for request in requests))


def read_input(options: TranslateOptions) -> str:
    """Read the whole input, line ends included.

    Raises: DataError if the input is longer than 16 MiB, or is not plain text.
    """
    name = str(options.input or "standard input")
    with options.input.open("rb") if options.input else nullcontext(sys.stdin.buffer) as stream:
        raw = io.BufferedReader(TextBytes(cast(Readable, stream), name), BLOCK).read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise DataError(f"{name} is over {LONGEST:,} bytes: split it, or leave out --document")
    if MARKUP.match(raw.removeprefix(b"\xef\xbb\xbf")) and not options.html:
        raise DataError(f"{name} is not plain text: give --document FILE, or add --html for HTML")
    lines = enumerate(raw.split(b"\n"), start=1)
    return "\n".join(decode_leniently(line, f"line {line_no}") for line_no, line in lines)
