"""Character encodings of files: read as declared, and kept where they can hold the new text."""

import codecs
import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from seq2seq.base.errors import DataError
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.xml_markup import check_well_formed

HEAD = 2**16  # bytes, or characters, in which a declaration is looked for
# Files that begin with a byte order mark, or with XML in two bytes for each character.
UNICODE = ("utf-8", "utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
MARKS = [("\ufeff".encode(codec), codec) for codec in UNICODE]
MARKS += [("<?".encode(codec), codec) for codec in UNICODE[-2:]]
# Declarations: the group is the name of the encoding. A match without it is a comment.
XML_DECLARATION = re.compile(r"""\A\ufeff?\s*<\?xml\s[^<>]*?\bencoding\s*=\s*["']\s*([\w.:-]+)""")
HTML_DECLARATION = re.compile(
    r"""(?is)<!--.*?(?:-->|\Z)|(?:<meta\s[^<>]*?\bcharset|\A\s*<\?xml\s[^<>]*?\bencoding)"""
    r"""\s*+=\s*+["']?\s*+([\w.:-]+)"""
)
CATALOG_DECLARATION = re.compile(
    r"""(?im)^(?!\#)[^\n]*?\bContent-Type:[ \t]*+[\w/.+-]*+[ \t]*+;[ \t"\r\n]*charset=([\w.:-]+)"""
)
# The codecs by which browsers read some encodings: https://encoding.spec.whatwg.org
BROWSER_CODECS = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254"}
BROWSER_CODECS |= {"shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030"}
# Decoded as itself by every encoding in which a declaration can be read. UTF-7 and the encodings of
# domains, and of escaped characters, read a part of it as something else.
ASCII = bytes(range(128)).replace(b"\\", rb"\u0041") + b"+AGE-.xn--4ca."


class MarkupFormat(NamedTuple):
    """A format of text.

    Attributes:
        declaration: pattern of declarations of encodings, see above.
        check: function that reads a text of this format, and raises DataError if it cannot.
    """

    declaration: re.Pattern[str]
    check: Callable[[str], object]


PLAIN = MarkupFormat(re.compile(r"(?!)()"), str)  # declares nothing, and everything is such a text
HTML = MarkupFormat(HTML_DECLARATION, read_html)
XML = MarkupFormat(XML_DECLARATION, check_well_formed)


class EncodedText(NamedTuple):
    """The text of a file, and the way back to bytes.

    Attributes:
        data: bytes of the file.
        text: characters of the file, including a byte order mark.
        codec: Python's name of the encoding to write.
        label: name to declare for it; empty if the declaration is right.
        format: format of the text.
    """

    data: bytes
    text: str
    codec: str
    label: str
    format: MarkupFormat

    @classmethod
    def read(cls, data: bytes, format: MarkupFormat) -> "EncodedText":
        """Decode a file by its byte order mark, else by its declaration, else as UTF-8.

        Raises: DataError if the bytes are not text in this encoding: none are replaced, since
            everything must come back.
        """
        marked = next((codec for mark, codec in MARKS if data.startswith(mark)), "")
        head = data[:HEAD].decode(marked or "latin-1", "replace")
        declared = next(filter(None, format.declaration.findall(head)), "")
        if marked:
            text = decode_file(data, marked, f"{marked.upper()}, as its first bytes say")
            is_right = declared.lower()[:6] in ("", marked[:6])
            return cls(data, text, marked, "" if is_right else marked[:6].strip("-"), format)
        codec = find_codec(declared)
        with suppress(UnicodeDecodeError, LookupError):
            text = data.decode(BROWSER_CODECS.get(codec, codec) if format is HTML else codec)
            return cls(data, text, codec, "", format)
        name = f"{declared}, which it declares, and not UTF-8" if declared else "UTF-8"
        text = decode_file(data, "utf-8", name)
        return cls(data, text, "utf-8", declared and "UTF-8", format)

    def encode(self, text: str) -> bytes:
        """Encode a new text of the file in its encoding, or in UTF-8 if that cannot hold the text,
        and declare it. The same text gives the same bytes.

        Raises: DataError if the new text cannot be read again.
        """
        if text == self.text:
            return self.data
        try:
            self.format.check(text)
        except DataError as error:
            raise DataError(f"the translation would damage the file: {error}") from None
        try:
            return self._declare(text, self.label).encode(self.codec)
        except UnicodeEncodeError:
            return self._declare(text, "UTF-8").encode()

    def _declare(self, text: str, label: str) -> str:
        """Put another name of the encoding into the declarations; empty = leave them."""

        def change(match: re.Match[str]) -> str:
            name = match[1] or ""  # a comment has none
            return match[0].removesuffix(name) + (name and label)

        head = self.format.declaration.sub(change, text[:HEAD]) if label else text[:HEAD]
        return head + text[HEAD:]


def decode_file(data: bytes, codec: str, name: str) -> str:
    """The text of a file, with its line ends and its byte order mark.

    Args:
        codec: Python's name of its encoding.
        name: name of the encoding in messages.

    Raises: DataError that names the first byte that is not in this encoding. No byte is replaced,
        since everything must come back.
    """
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.start:,} (0x{data[error.start]:02x}) is not {name}. If the text is in "
            "another encoding: iconv -f ENCODING -t UTF-8 OLD > NEW"
        ) from None


def find_codec(label: str) -> str:
    """Python's name of a declared encoding; empty if it is unknown or cannot be true, since no
    declaration in this encoding could be read as ASCII.
    """
    with suppress(LookupError, UnicodeError):
        name = codecs.lookup(label.lower().removeprefix("x-")).name
        if ASCII.decode(name) == ASCII.decode():
            return name
    return ""
