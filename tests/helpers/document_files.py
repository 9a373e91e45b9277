"""Document files, written by hand, and their translation sentence by sentence."""

import io
import zipfile
from collections.abc import Callable

from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.formats import open_file

MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def read(name: str, data: bytes, whole: bool = True) -> Contents:
    return open_file(name, data, Cutter("en", whole))


def translate(
    name: str, data: bytes, by: Callable[[str], str] = str.upper, whole: bool = True
) -> bytes:
    """The file with each sentence translated."""
    contents = read(name, data, whole)
    documents = contents.documents
    return contents.write([each.join([by(text) for text in each.sentences]) for each in documents])


def zip_of(*entries: tuple[str, bytes | str]) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return output.getvalue()


def word(body: str, *others: tuple[str, bytes | str]) -> bytes:
    """A document of Word."""
    xml = f'<?xml version="1.0"?><w:document xmlns:w="{MAIN}"><w:body>{body}</w:body></w:document>'
    return zip_of(("[Content_Types].xml", "<x/>"), ("word/document.xml", xml), *others)


def main_xml(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return file.read("word/document.xml").decode()


def run(text: str, properties: str = "") -> str:
    properties = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


CATALOG = r"""# Translators.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"

#: a.c:1
#, c-format
msgctxt "menu"
msgid "Hello \"you\"\n"
msgstr ""

#, fuzzy
msgid "Half done"
msgstr ""

#, fuzzy
#~ msgid "Obsolete"
#~ msgstr ""

msgid "Done"
msgstr "Fertig"

msgid ""
"Two lines\n"
"of text."
msgstr ""
""

msgid "One file"
msgid_plural "Many files"
msgstr[0] ""
msgstr[1] ""

msgid "One tree"
msgid_plural "Many trees"
msgstr[0] "Ein Baum"
msgstr[1] ""
"""
