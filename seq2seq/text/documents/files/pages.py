"""Pages of HTML, and books of such pages (.epub)."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from urllib.parse import unquote

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import parts
from seq2seq.text.documents.files.archives import Archive, check_type, read_archive
from seq2seq.text.documents.files.contents import Contents, Cutter, splice
from seq2seq.text.documents.files.dialects import CONTENTS
from seq2seq.text.documents.files.encodings import XHTML
from seq2seq.text.documents.files.mixed import MixedText
from seq2seq.text.documents.files.parts import AttributeText, Passage, find_nodes
from seq2seq.text.documents.html_markup import HTMLReader, part_neighbours
from seq2seq.text.documents.markup import text_of_token
from seq2seq.text.documents.placeholders import is_language

# The namespaces of the files that list the files of a book.
LISTS = re.compile(
    "urn:oasis:names:tc:opendocument:xmlns:container|http://www.idpf.org/2007/opf|"
    "http://www.w3.org/2001/04/xmlenc#"
)

# Parts of a page that are not read. The text of a CDATA section is the second group, unless it is
# inside another of these parts. In a well-formed page, all of them have an end.
UNREAD = re.compile(
    r"(?s)<!--.*?-->|<\?.*?\?>|<(script|style|svg|math)(?:\s[^<>]*)?(?<!/)>.*?</\1\s*>|"
    r"<!\[CDATA\[(.*?)\]\]>"
)


def open_html(text: str, cut: Cutter) -> Contents:
    """The contents of an HTML page: its text, and the attributes that are shown to readers.

    Tags may change their order in a translation, so attributes with the same value, which get the
    same translation, are found again by their value.
    """
    reader = HTMLReader(text)
    attributes = {text[a:b]: AttributeText(text, a, b, cut) for a, b in reader.attributes}

    def write(texts: Sequence[str]) -> bytes:
        page, *others = texts
        pairs = zip(attributes.items(), others, strict=True)
        new = {value: each.write(other) for (value, each), other in pairs}
        spans = HTMLReader(page).attributes
        changes = [(begin, end, new.get(page[begin:end], page[begin:end])) for begin, end in spans]
        return splice(page, changes).encode()

    page = cut(text, lambda _: part_neighbours(text, reader.tokens))
    return Contents([page, *(each.document for each in attributes.values())], write)


def find_runs(text: str, cut: Cutter, lost: list[str]) -> list[Passage]:
    """The passages of an XHTML page: texts between blocks, and attributes. Their tags stay nested.

    Raises: DataError if the page is not well-formed.
    """
    XHTML.check(text)
    lost += filter(is_language, (found for _, found in UNREAD.findall(text)))
    reader = HTMLReader(UNREAD.sub(hide_inside, text), is_xml=True)
    passages: list[Passage] = [AttributeText(text, *span, cut) for span in reader.attributes]
    tokens = part_neighbours(text, reader.tokens)
    for is_block, group in groupby(tokens, lambda token: token.kind == "block"):
        run = [token._replace(text=text_of_token(text, token)) for token in group]
        if not is_block:
            passages.append(MixedText(run[0].begin, run[-1].end, run, cut))
    return sorted(passages, key=lambda passage: passage.begin)


def hide_inside(match: re.Match[str]) -> str:
    """A match of `UNREAD`, where the inside of a CDATA section or an instruction, which may contain
    `>`, is blank.
    """
    is_hidden = match[0].startswith(("<![", "<?"))
    return f"{match[0][:2]}{' ' * (len(match[0]) - 3)}>" if is_hidden else match[0]


# For each type of file, how its passages are found.
FINDERS: dict[str, parts.Find] = {
    **dict.fromkeys(("application/xhtml+xml", "text/html", "text/x-oeb1-document"), find_runs),
    "application/x-dtbncx+xml": partial(parts.find_passages, CONTENTS, frozenset()),
}


def open_book(data: bytes, cut: Cutter) -> Contents:
    """The contents of an .epub file: its pages in reading order, and its table of contents.

    Raises: DataError if the data is not such a file, or is encrypted.
    """
    archive = read_archive(data)
    check_type(archive, "application/epub+zip")
    finders = {name: FINDERS[kind] for name, kind in find_pages(archive) if kind in FINDERS}
    if not finders:
        raise DataError("it is not an .epub file: its META-INF/container.xml names no pages")
    hidden = {
        unquote(each.attribute("URI"))
        for each in find_nodes(archive, "META-INF/encryption.xml", LISTS, {"w:CipherReference"})
    }
    if hidden & finders.keys():
        raise DataError("it is encrypted (DRM): only an unprotected book can be translated")
    return parts.open_parts(data, archive, finders, cut, XHTML)


def find_pages(archive: Archive) -> Iterator[tuple[str, str]]:
    """Names and types of the files of a book, those of the reading order first."""
    for root in find_nodes(archive, "META-INF/container.xml", LISTS, {"w:rootfile"}):
        package = root.attribute("full-path")
        listed = [*find_nodes(archive, package, LISTS, {"w:item", "w:itemref"})]
        items = {each.attribute("id"): each for each in listed if each.name == "w:item"}
        order = [each.attribute("idref") for each in listed if each.name == "w:itemref"]
        for key in dict.fromkeys([*filter(items.__contains__, order), *items]):
            path = parts.archive_path(posixpath.dirname(package), items[key].attribute("href"))
            if path in archive:
                yield path, items[key].attribute("media-type")
