"""Character encodings of files: read as declared, and kept if they can encode the new text."""

import codecs
import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from seq2seq.base.errors import DataError
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.xml_markup import check_well_formed

HEAD = 2**16  # bytes or characters that are searched for a declaration
# First bytes of a file that give its encoding: a byte order mark, or `<?` in UTF-16.
UNICODE = ("utf-8", "utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
MARKS = [("\ufeff".encode(codec), codec) for codec in UNICODE]
MARKS += [("<?".encode(codec), codec) for codec in UNICODE[-2:]]
# Declarations; the group matches the name of the encoding. A match without the group is a comment.
XML_DECLARATION = re.compile(r"""\A\ufeff?\s*<\?xml\s[^<>]*?\bencoding\s*=\s*["']\s*([\w.:-]+)""")
HTML_DECLARATION = re.compile(
    r"""(?is)<!--.*?(?:-->|\Z)|(?:<meta\s[^<>]*?\bcharset|\A\s*<\?xml\s[^<>]*?\bencoding)"""
    r"""\s*+=\s*+["']?\s*+([\w.:-]+)"""
)
# Entities that XHTML declares in its document type, which is not read.
ENTITY = re.compile("&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z][A-Za-z0-9]*;")
# Codecs that browsers use for some declared encodings: https://encoding.spec.whatwg.org
BROWSER_CODECS = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254"}
BROWSER_CODECS |= {"shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030"}
# Bytes that every encoding compatible with ASCII decodes to the same text. UTF-7 and the encodings
# for domain names and escaped characters decode parts of it differently.
ASCII = bytes(range(128)).replace(b"\\", rb"\u0041") + b"+AGE-.xn--4ca."


class MarkupFormat(NamedTuple):
    """A text format.

    Attributes:
        declaration: pattern for declarations of the encoding, see above.
        check: function that raises DataError if a text is not valid in this format.
    """

    declaration: re.Pattern[str]
    check: Callable[[str], object]


PLAIN = MarkupFormat(re.compile(r"(?!)()"), str)  # without declarations; any text is valid
HTML = MarkupFormat(HTML_DECLARATION, read_html)
XML = MarkupFormat(XML_DECLARATION, check_well_formed)
XHTML = MarkupFormat(XML_DECLARATION, lambda text: check_well_formed(ENTITY.sub(" ", text)))


class EncodedText(NamedTuple):
    """The text of a file, and the way back to bytes.

    Attributes:
        data: bytes of the file.
        text: characters of the file, including a byte order mark.
        codec: Python's name of the encoding to write.
        label: name to declare for this encoding; empty if the declaration is already right.
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

        Raises: DataError if the bytes are not valid in this encoding, or seem to be UTF-16. Invalid
            bytes are never replaced, since the file must be reproduced exactly.
        """
        marked = next((codec for mark, codec in MARKS if data.startswith(mark)), "")
        head = data[:HEAD].decode(marked or "latin-1", "replace")
        declared = next(filter(None, format.declaration.findall(head)), "")
        if marked:
            text = decode_file(data, marked, f"{marked.upper()}, which its first bytes indicate")
            is_right = declared.lower()[:6] in ("", marked[:6])
            return cls(data, text, marked, "" if is_right else marked[:6].strip("-"), format)
        if data.count(0) > len(data) / 3:
            advice = f"iconv -f UTF-16{'LE' if data[0] else 'BE'} -t UTF-8 OLD > NEW"
            raise DataError(f"it seems to be UTF-16 without a byte order mark: {advice}")
        codec = find_codec(declared)
        with suppress(UnicodeDecodeError, LookupError):
            text = data.decode(BROWSER_CODECS.get(codec, codec) if format is HTML else codec)
            return cls(data, text, codec, "", format)
        name = f"{declared}, which the file declares, nor UTF-8" if declared else "UTF-8"
        text = decode_file(data, "utf-8", name)
        return cls(data, text, "utf-8", declared and "UTF-8", format)

    def encode(self, text: str) -> bytes:
        """Encode a new text in the encoding of the file, or in UTF-8 if that encoding lacks
        characters, and declare it. The original text gives the original bytes.

        Raises: DataError if the new text is not valid in the format of the file.
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
        """Write `label` into the declarations; an empty label leaves them unchanged."""

        def change(match: re.Match[str]) -> str:
            name = match[1] or ""  # a comment has none
            return match[0].removesuffix(name) + (name and label)

        head = self.format.declaration.sub(change, text[:HEAD]) if label else text[:HEAD]
        return head + text[HEAD:]


def decode_file(data: bytes, codec: str, name: str) -> str:
    """The text of a file, including its line ends and its byte order mark.

    Args:
        codec: Python's name of the encoding.
        name: name of the encoding in messages.

    Raises: DataError that names the first invalid byte. Invalid bytes are never replaced, since the
        file must be reproduced exactly.
    """
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.start:,} (0x{data[error.start]:02x}) is not {name}. If the text is in "
            "another encoding: iconv -f ENCODING -t UTF-8 OLD > NEW"
        ) from None


def find_codec(label: str) -> str:
    """Python's name of a declared encoding; empty if the encoding is unknown, or cannot be right
    because the declaration itself was readable as ASCII.
    """
    with suppress(LookupError, UnicodeError):
        name = codecs.lookup(label.lower().removeprefix("x-")).name
        if ASCII.decode(name) == ASCII.decode():
            return name
    return ""
