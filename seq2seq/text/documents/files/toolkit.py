"""Files that translate-toolkit reads and writes: .yaml, .resx, .ts, .tmx and Android's .xml.

The toolkit writes each file anew, so a file is refused unless it comes back unchanged when nothing
is translated. The toolkit's license is the GPL; it is an extra that nothing else needs.
"""

import html
import importlib
import re
from collections.abc import Sequence
from itertools import product, zip_longest
from typing import Any
from xml.etree.ElementTree import canonicalize

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import messages
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.encodings import PLAIN, XML
from seq2seq.text.documents.files.messages import Message
from seq2seq.text.documents.markup import check_count
from seq2seq.text.documents.xml_markup import PROLOG, escape_xml

ADVICE = "it needs translate-toolkit: pip install 'seq2seq-attention-zoo[formats]'"
LEFT = "texts of <string-array> and <item type=string> are not translated: translate them by hand"
ARRAYS = re.compile(r"""<string-array\b|<item\b[^<>]*\btype\s*=\s*["']string\b""")
REFERENCE = re.compile(r"[@?](?:[\w.:+]+/\S+|null|empty)")  # to another resource of Android
# Options of the writer of .yaml to try.
LAYOUTS = [
    {"width": 2**24, "map_indent": each, "sequence_indent": dash + 2, "sequence_dash_offset": dash}
    for each, dash in product((2, 4), (0, 2, 4))
]
# The toolkit's class for each suffix.
CLASSES = {
    ".yaml": "yaml.YAMLFile",
    ".yml": "yaml.YAMLFile",
    ".xml": "aresource.AndroidResourceFile",
    ".resx": "resx.RESXFile",
    ".ts": "ts2.tsfile",
    ".tmx": "tmx.tmxfile",
}
ROOTS = {".xml": "resources", ".resx": "root", ".ts": "TS", ".tmx": "tmx"}  # first elements
KINDS = {each: XML if each in ROOTS else PLAIN for each in CLASSES}
DATA = ("type", "mimetype")  # attributes of entries of .resx that are no text
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
BOOLEAN = re.compile("(?i)y|n|yes|no|on|off")  # in YAML 1.1, unless quoted
LANGUAGE = re.compile(r"""<tuv\b[^<>]*?\b(?:xml:)?lang\s*=\s*["']([^"']+)""")


def open_store(text: str, cut: Cutter, *, suffix: str) -> Contents:
    """The contents of a file that the toolkit reads.

    Raises: DataError if the toolkit is not installed, or cannot read the file or write it back.
    """
    head, body, tail = split_frame(text)
    store = read_store(body, suffix)
    left = [LEFT] if suffix == ".xml" and ARRAYS.search(body) else []
    problems = [*left]
    entries = [
        (unit, [read_form(number, source, unit, suffix) for source in sources])
        for number, unit in enumerate(store.units)
        if (sources := forms_of(unit, suffix))
    ]

    def write(translated: Sequence[str]) -> bytes:
        texts, is_changed = iter(translated), False
        problems[:] = left
        for unit, forms in entries:
            entry = [(form, messages.render_message(form, next(texts))) for form in forms]
            if problem := messages.find_problem(entry):
                problems.append(problem)
            elif any(form.written != new for form, new in entry):
                strings, is_changed = [new for _, new in entry], True
                is_plural = hasattr(unit.target, "strings")
                unit.target = type(unit.target)(strings) if is_plural else strings[0]
        if not is_changed:
            return text.encode()
        written = split_frame(bytes(store).decode())[1]
        end = "\r\n" if "\r\n" in text else "\n"
        return (head + written.replace("\n", end) + tail).encode()

    return Contents([form.text.cut(cut) for _, forms in entries for form in forms], write, problems)


def split_frame(text: str) -> tuple[str, str, str]:
    r"""The prolog of a file, its text with line ends `\n`, and the white space after it."""
    prolog = PROLOG.match(text)
    head = prolog[0] if prolog else ""
    body = text[len(head) :].strip()
    place = text.index(body, len(head))
    return text[:place], body.replace("\r\n", "\n"), text[place + len(body) :]


def read_store(body: str, suffix: str) -> Any:
    """The toolkit's store of a file, in the layout of the file. Raises: as `open_store`."""
    root = ROOTS.get(suffix, "")
    if root and not re.match(rf"(?:<!--(?s:.*?)-->\s*)*+<{root}[\s/>]", body):
        raise DataError(f"its first element should be <{root}>")
    module, name = CLASSES[suffix].split(".")
    try:
        store = getattr(importlib.import_module(f"translate.storage.{module}"), name)()
    except ImportError:
        raise DataError(ADVICE) from None
    written = ""
    try:
        store.parse(body.encode())
        check_count(len(store.units), "messages")
        prepare_store(store, body, suffix)
        for layout in LAYOUTS if module == "yaml" else [{}]:
            store.dump_args = {**getattr(store, "dump_args", {}), **layout}
            tried = split_frame(bytes(store).decode())[1]
            written = written or tried
            if canonical_form(tried, suffix) == canonical_form(body, suffix):
                return store
    except DataError:
        raise
    except Exception as error:  # of many kinds
        raise DataError(
            f"translate-toolkit cannot read it: {' '.join(str(error).split())}"
        ) from None
    pairs = enumerate(zip_longest(body.split("\n"), written.split("\n")), start=1)
    line, new = next((number, new) for number, (old, new) in pairs if old != new)
    raise DataError(
        f"translate-toolkit would change more than texts: line {line} would become "
        f"{(new or '')[:60]!r}. Write it like this first"
    )


def canonical_form(body: str, suffix: str) -> str:
    """A file for comparison. In XML, empty elements and quotation marks do not count."""
    return canonicalize(body, with_comments=True) if suffix in ROOTS else body


def prepare_store(store: Any, body: str, suffix: str) -> None:
    """Undo what the toolkit changes while it reads: numbers in .yaml become strings, and all
    entries of .resx keep their white space. Choose the languages of .tmx.

    Raises: DataError if a .tmx file does not have two languages, or if the toolkit would drop codes
        of .tmx, bytes of .ts, or anchors and tags of .yaml.
    """
    if suffix in (".yaml", ".yml"):
        root = store._original
        values = [(unit, unit._get_original_value(root)) for unit in store.units]
        for _, value in values:
            anchor = isinstance(value, str) and getattr(value, "anchor", None)
            if (anchor and anchor.value) or str(getattr(value, "tag", "")).endswith(":str"):
                raise DataError(f"{value!s:.40} has an anchor or a tag (&a, !!str): take it out")
        store.units = [
            unit
            for unit, value in values
            if isinstance(value, str) and not (type(value) is str and BOOLEAN.fullmatch(value))
        ]
    elif suffix == ".resx":
        for unit in store.units:
            if any(map(unit.xmlelement.get, DATA)):
                unit.xmlelement.attrib.pop(SPACE, None)
    elif suffix == ".ts" and any(True for _ in store.document.iter("byte", "lengthvariant")):
        raise DataError("it has <byte> or <lengthvariant>, which the toolkit drops: use .xliff")
    elif suffix == ".tmx":
        languages = dict.fromkeys(LANGUAGE.findall(body))
        source = store.document.getroot().find("header").get("srclang")
        if source not in languages or len(languages) != 2:
            raise DataError("it should have texts in two languages, one of them its srclang")
        if any(map(len, store.document.iter("seg"))):
            raise DataError("it has codes such as <bpt>, which the toolkit drops: use .xliff")
        store.setsourcelanguage(source)
        store.settargetlanguage(*(languages.keys() - {source}))


def forms_of(unit: Any, suffix: str) -> list[str]:
    """The forms of a message that need a translation: one, or several of a plural."""
    if not unit.istranslatable() or unit.isheader() or unit.isobsolete():
        return []
    if suffix == ".resx" and (any(map(unit.xmlelement.get, DATA)) or unit.getid()[:2] == ">>"):
        return []
    source, target = (getattr(each, "strings", [each]) for each in (unit.source, unit.target))
    if suffix in (".ts", ".tmx"):
        return [] if any(target) else [source[-1] for _ in target]
    forms = target if any(target) else source
    if suffix == ".xml" and any(map(REFERENCE.fullmatch, map(str, forms))):
        return []
    return forms if all(isinstance(each, str) and each for each in forms) else []


def read_form(number: int, source: str, unit: Any, suffix: str) -> Message:
    """A form of a message. Android's texts with elements are XML; escaped tags are plain text."""
    message = messages.plain_message(number, source, lambda new: [])
    is_xml = suffix == ".xml" and any(map(len, unit.xmlelement.iter("string", "item")))
    if is_xml and messages.HAS_TAGS.search(source):
        message.text.encode = lambda part: escape_xml(html.unescape(part))
    return message
