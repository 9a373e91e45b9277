"""Documents take time and memory in proportion to their length, or are refused while they are read.

This file is also a program: it reads and joins two documents, and prints what they took.
"""

import json
import resource
import subprocess
import sys
import time

import pytest

from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import Document
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.markup import Reader
from seq2seq.text.documents.xml_markup import XMLReader
from seq2seq.translation.documents import requests_of

SENTENCE = "Der Hund läuft über die Wiese und bellt laut. "
# What documents consist of, and how they are read.
UNITS: dict[str, tuple[str, Reader | None]] = {
    "one line": (SENTENCE, None),
    "one word": ("x", None),
    "numbers": ("1\n", None),
    "soft hyphens": ("Gar\u00adten ", None),
    "tags": (f"<p>{SENTENCE}<b>Er</b> bellt <i>laut</i> &amp; <img> lange.</p>\n", read_html),
    "no tags": ("< a & b > c ", read_html),
    "XML": (f"<p>{SENTENCE}<b>Er</b> bellt <i>laut</i> &amp; <x/> lange.</p>\n", XMLReader()),
}
REFUSED: dict[str, tuple[str, Reader | None]] = {
    "sentences": ("Ein Hund.\n", None),
    "opened": ("<b>", read_html),
    "closed": ("</b>", read_html),
    "in what is kept": ("<svg><g/>", read_html),
    "comments": ("<!---->", read_html),
    "elements": ("<g/>", XMLReader()),
    "instructions": ("<?p?>", XMLReader()),
}
MEGABYTE = 2**20


def read_and_join(kind: str, length: int) -> tuple[float, int, int]:
    """CPU seconds and bytes of memory that a document of about this length took, and its length."""
    unit, read = UNITS[kind]
    text = unit * (length // len(unit.encode()))
    text = f"<d>{text}</d>" if kind == "XML" else text
    before, began = used_memory(), time.process_time()
    document = Document.of(text, "de", read=read)
    requests = list(requests_of([document]))
    document.join([f"{request.text} x" for request in requests])
    seconds = time.process_time() - began
    return seconds, used_memory() - before, len(text.encode())


def used_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("kind", UNITS)
def test_time_and_memory_grow_with_the_length(kind: str) -> None:
    command = [sys.executable, __file__, kind]
    small, large = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert large[0] < 4.5 * small[0] + 1
    assert all(taken < 100 * MEGABYTE + 60 * length for _, taken, length in (small, large))


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_too_many_parts_is_refused_while_it_is_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.text.documents.markup.MAX_ELEMENTS", 20_000)
    unit, read = REFUSED[kind]
    with pytest.raises(DataError, match="more than 20,000 .*: cut it into several"):
        Document.of(unit * 40_009, "de", read=read)
    few = unit * 9
    document = Document.of(few, "de", read=read and read_html)
    assert document.join(document.sentences) == few


if __name__ == "__main__":
    lengths = MEGABYTE // 8, MEGABYTE // 2
    print(json.dumps([read_and_join(sys.argv[1], length) for length in lengths]))
