"""The formats of files that are translated, by the ends of their names."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import PurePath

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import encodings
from seq2seq.text.documents.files.contents import Contents, Cutter, decode_file
from seq2seq.text.documents.files.docx import open_docx
from seq2seq.text.documents.files.markdown import open_markdown
from seq2seq.text.documents.files.po import find_messages, open_catalog
from seq2seq.text.documents.files.subtitles import open_subtitles
from seq2seq.text.documents.files.xliff import open_xliff
from seq2seq.text.documents.files.xml_tree import XML
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.markup import Reader

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
    ".vtt": open_subtitles,
    ".po": open_catalog,
    ".xliff": open_xliff,
    ".xlf": open_xliff,
}
# The formats that declare an encoding; others are in UTF-8, or begin with a byte order mark.
TEXT_FORMATS = {
    open_html: encodings.MarkupFormat(encodings.HTML_DECLARATION, read_html),
    open_catalog: encodings.MarkupFormat(encodings.CATALOG_DECLARATION, find_messages),
    open_xliff: XML,
}


def format_of_file(name: str) -> str:
    """The end of a name, if it is that of a format; else nothing."""
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in FORMATS else ""


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the collection of cycles, which would look at all of a file again and again."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


def open_file(name: str, data: bytes, cut: Cutter) -> Contents:
    """The contents of a file.

    Raises: DataError if its format is not known, for more than 16 MiB, and if it is damaged.
    """
    suffix = format_of_file(name)
    if not suffix:
        raise DataError(f"{name} has none of the formats {', '.join(FORMATS)}")
    if len(data) > LONGEST:
        raise DataError(f"{name} has {len(data):,} bytes; at most {LONGEST:,} are read: cut it")
    opener = FORMATS[suffix]
    try:
        with without_collector():
            if opener == open_docx:  # an archive, of files that have encodings of their own
                file, contents = None, open_docx(data, cut)
            else:
                file = encodings.EncodedText.read(data, TEXT_FORMATS.get(opener, encodings.PLAIN))
                contents = opener(file.text.encode(), cut)
    except DataError as error:
        raise DataError(f"{name} cannot be read as {suffix}: {error}") from None

    def write(translated: Sequence[str]) -> bytes:
        try:
            with without_collector():
                new = contents.write(translated)
                return file.encode(new.decode()) if file else new
        except DataError as error:
            raise DataError(f"{name} cannot be written: {error}") from None

    return Contents(contents.documents, write, contents.problems)
