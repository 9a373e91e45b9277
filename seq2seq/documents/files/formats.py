"""The formats of files that are translated, by the ends of their names."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath

from seq2seq.documents.files.contents import Contents, Cutter, decode_file
from seq2seq.documents.files.docx import check_docx, open_docx
from seq2seq.documents.files.encodings import (
    CATALOG_DECLARATION,
    HTML_DECLARATION,
    XML_DECLARATION,
    EncodedText,
)
from seq2seq.documents.files.markdown import open_markdown
from seq2seq.documents.files.po import check_catalog, open_catalog
from seq2seq.documents.files.subtitles import open_subtitles
from seq2seq.documents.files.xliff import check_xliff, open_xliff
from seq2seq.documents.html_markup import read_html
from seq2seq.documents.markup import Reader
from seq2seq.errors import DataError

LONGEST = 2**24  # bytes, of a file in memory


def open_text(data: bytes, cut: Cutter, read: Reader | None = None) -> Contents:
    """The contents of a file that is one text. Raises: DataError if it is no text."""
    return Contents([cut(decode_file(data), read)], lambda texts: texts[0].encode())


open_html = partial(open_text, read=read_html)
FORMATS: dict[str, Callable[[bytes, Cutter], Contents]] = {
    ".txt": open_text,
    ".md": open_markdown,
    ".markdown": open_markdown,
    ".html": open_html,
    ".htm": open_html,
    ".docx": open_docx,
    ".srt": open_subtitles,
    ".po": open_catalog,
    ".xliff": open_xliff,
    ".xlf": open_xliff,
}
# How files declare their encoding. The other formats are UTF-8, or begin with a byte order mark.
DECLARATIONS = {
    ".html": HTML_DECLARATION,
    ".htm": HTML_DECLARATION,
    ".po": CATALOG_DECLARATION,
    ".xliff": XML_DECLARATION,
    ".xlf": XML_DECLARATION,
}
# Each reads a file that was written, given what it was made from. Raises: DataError.
CHECKS: dict[str, Callable[[bytes, bytes], object]] = {
    ".html": lambda before, after: read_html(decode_file(after)),
    ".htm": lambda before, after: read_html(decode_file(after)),
    ".docx": check_docx,
    ".po": check_catalog,
    ".xliff": check_xliff,
    ".xlf": check_xliff,
}


def format_of_file(name: str) -> str:
    """The end of a name, if it is that of a format; else nothing."""
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in FORMATS else ""


def open_file(name: str, data: bytes, cut: Cutter) -> Contents:
    """The contents of a file.

    Raises: DataError if its format is not known, for more than 16 MiB, and if it is damaged.
    """
    suffix = format_of_file(name)
    if not suffix:
        raise DataError(f"{name} has none of the formats {', '.join(FORMATS)}")
    if len(data) > LONGEST:
        raise DataError(
            f"{name} has {len(data):,} bytes; at most {LONGEST:,} are translated, in memory: cut it"
        )
    try:
        # An archive holds files that have encodings of their own.
        file = None if suffix == ".docx" else EncodedText.read(data, DECLARATIONS.get(suffix))
        data = file.text.encode() if file else data
        contents = FORMATS[suffix](data, cut)
    except DataError as error:
        raise DataError(f"{name} cannot be read as {suffix}: {error}") from None
    write = partial(write_file, name, data, contents.write, file)
    return Contents(contents.documents, write, contents.problems)


def write_file(
    name: str,
    before: bytes,
    write: Callable[[Sequence[str]], bytes],
    file: EncodedText | None,
    translated: Sequence[str],
) -> bytes:
    """Make a file of translated texts, in the encoding of the one that was read.

    Raises: DataError if what was written could not be read again, so that nobody gets such a file.
    """
    after = write(translated)
    try:
        if check := CHECKS.get(format_of_file(name)):
            check(before, after)
    except DataError as error:
        raise DataError(f"{name}: its translation would be damaged: {error}") from None
    return file.encode(after.decode()) if file else after
