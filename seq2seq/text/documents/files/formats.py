"""File formats that can be translated, by file name suffix."""

import gc
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import PurePath

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.encodings import HTML, PLAIN, XML, EncodedText, MarkupFormat
from seq2seq.text.documents.files.office import PACKAGES, TYPES, open_package, open_text
from seq2seq.text.documents.files.pages import open_book, open_html
from seq2seq.text.documents.files.po import CATALOG, open_catalog
from seq2seq.text.documents.files.subtitles import open_subtitles
from seq2seq.text.documents.files.toolkit import KINDS, open_store
from seq2seq.text.documents.files.values import PATTERNS, open_values
from seq2seq.text.documents.files.xliff import open_xliff

LONGEST = 2**24  # bytes; files are kept in memory


def open_plain(text: str, cut: Cutter) -> Contents:
    return Contents([cut(text)], lambda texts: texts[0].encode())


def open_markdown(text: str, cut: Cutter) -> Contents:
    # Imported only here, since most files do not need the parser.
    from seq2seq.text.documents.files.markdown import open_page

    return open_page(text, cut)


# For each suffix, the function that opens the file, and the format by which its text is decoded. An
# archive (None) is opened as bytes, since each file in it has its own encoding.
FORMATS: dict[str, tuple[Callable[..., Contents], MarkupFormat | None]] = {
    ".txt": (open_plain, PLAIN),
    ".md": (open_markdown, PLAIN),
    ".markdown": (open_markdown, PLAIN),
    ".html": (open_html, HTML),
    ".htm": (open_html, HTML),
    **{suffix: (partial(open_package, suffix=suffix), None) for suffix in PACKAGES},
    **{suffix: (partial(open_text, suffix=suffix), None) for suffix in TYPES},
    ".epub": (open_book, None),
    ".srt": (open_subtitles, PLAIN),
    ".vtt": (open_subtitles, PLAIN),
    ".po": (open_catalog, CATALOG),
    ".xliff": (open_xliff, XML),
    ".xlf": (open_xliff, XML),
    **{suffix: (partial(open_values, suffix=suffix), PLAIN) for suffix in PATTERNS},
    **{suffix: (partial(open_store, suffix=suffix), kind) for suffix, kind in KINDS.items()},
}


# How to convert files of formats that are not read.
CONVERSIONS = {
    ".pdf": "Open it in Word and save it as .docx, or type: pdftotext FILE.pdf FILE.md",
    **dict.fromkeys((".doc", ".rtf", ".ott"), "Type: soffice --convert-to docx FILE"),
    **dict.fromkeys((".xls", ".ods"), "Type: soffice --convert-to xlsx FILE"),
    **dict.fromkeys((".ppt", ".otp"), "Type: soffice --convert-to pptx FILE"),
}


def readable_suffixes() -> list[str]:
    """The suffixes of the formats that can be read with the packages that are installed."""
    has_toolkit = importlib.util.find_spec("translate") is not None
    return [suffix for suffix in FORMATS if has_toolkit or suffix not in KINDS]


def advise(name: str) -> str:
    """A message about a file of a format that cannot be read, with advice."""
    advice = CONVERSIONS.get(PurePath(name).suffix.lower(), "Convert it")
    known = ", ".join(suffix[1:] for suffix in readable_suffixes())
    return f"{name}: its format should be one of {known}. {advice}"


def format_of_file(name: str) -> str:
    """The suffix of a file name if it belongs to a known format, else an empty string."""
    suffix = PurePath(name).suffix.lower()
    return suffix if suffix in FORMATS else ""


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the garbage collector, which would scan the parsed file again and again."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


@without_collector()
def open_file(name: str, data: bytes, cut: Cutter) -> Contents:
    """The contents of a file.

    Raises: DataError if the format is unknown, or the file is damaged or larger than 16 MiB.
    """
    suffix = format_of_file(name)
    if not suffix:
        raise DataError(advise(name))
    if len(data) > LONGEST:
        raise DataError(
            f"{name} has {len(data):,} bytes; at most {LONGEST:,} are read: cut it into parts"
        )
    opener, format = FORMATS[suffix]
    try:
        file = EncodedText.read(data, format) if format else None
        contents = opener(file.text if file else data, cut)
    except DataError as error:
        raise DataError(f"{name} cannot be read as {suffix}: {error}") from None

    @without_collector()
    def write(translated: Sequence[str]) -> bytes:
        try:
            new = contents.write(translated)
            return file.encode(new.decode()) if file else new
        except DataError as error:
            raise DataError(f"{name} cannot be written: {error}") from None

    return Contents(contents.documents, write, contents.problems)
