"""What files cost: memory for what is in them, and time in proportion to their length."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.document_files import read, translate, word
from helpers.office_files import book, open_document, slides, workbook
from helpers.xliff import file_1, unit_1

from seq2seq.base.errors import DataError
from seq2seq.text.documents.markup import MAX_ELEMENTS

# Run alone: the memory above that of an idle process, in kilobytes, and the seconds of reading.
PROGRAM = """
import resource, sys, time
from seq2seq.text.documents.files.contents import Cutter
from seq2seq.text.documents.files.formats import open_file
data = open(sys.argv[1], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
contents = open_file(sys.argv[1], data, Cutter("de"))
seconds = time.process_time() - began
contents.write([d.join([t.upper() for t in d.sentences]) for d in contents.documents])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, seconds)
"""
BOOKMARK = "<text:bookmark-start text:name='x'/>a<text:bookmark-end text:name='x'/>"
MESSAGE = b'#, c-format\nmsgid "Der <b>Hund</b> %s"\nmsgstr ""\n\n'
UNIT = "<trans-unit><source>Ein <g id='1'>Hund</g>.</source></trans-unit>"
PARAGRAPH = "<w:p><w:r><w:t>a</w:t></w:r></w:p>"
LARGE: dict[str, tuple[int, Callable[[], bytes]]] = {
    "a.docx": (len(PARAGRAPH) * 66_000, lambda: word(PARAGRAPH * 66_000)),
    "a.xlf": (len(UNIT) * 60_000, lambda: file_1(UNIT * 60_000)),
    "a.po": (len(MESSAGE) * 90_000, lambda: MESSAGE * 90_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_memory_and_time_are_bounded_by_what_is_in_a_file(name: str, tmp_path: Path) -> None:
    size, build = LARGE[name]
    (tmp_path / name).write_bytes(build())
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / name)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    memory, seconds = map(float, ended.stdout.split())
    assert memory * 1024 < 200e6 + 60 * size
    assert seconds < 30  # 10 on a quiet machine


def test_the_tags_of_one_text_are_counted() -> None:
    with pytest.raises(DataError, match="more than 200,000 tags in one text"):
        read("a.xlf", unit_1("a" + "<g/>" * (MAX_ELEMENTS // 2 + 1)))


GROWING: dict[str, Callable[[int], bytes]] = {
    "a.po": lambda count: MESSAGE * count,
    "b.po": lambda count: MESSAGE.replace(b"\n", b"\r\n") * count,
    "c.po": lambda count: b'msgid "' + b"%0 Der Hund & <b>Kind</b> " * count + b'"\nmsgstr ""\n',
    "d.po": lambda count: b'#, c-format\nmsgid "%' + b"0" * 50 * count + b'"\nmsgstr ""\n',
    "e.po": lambda count: b'msgid ""\nmsgstr "Content-Type:' + b" " * 50 * count + b'"\n' + MESSAGE,
    "f.po": lambda count: b'msgid "\\\\' * count,
    "g.po": lambda count: b'msgid "a"\n' * count,
    "h.po": lambda count: b'"a"\n' * count,
    "a.xlf": lambda count: file_1(UNIT * count),
    "b.xlf": lambda count: file_1(f"<trans-unit a='1'{' ' * 50 * count}id='1'>{UNIT[12:]}"),
    "c.xlf": lambda count: unit_1("Ein &lt;b>Hund&lt;/b>, " * count),
    "a.docx": lambda count: word(PARAGRAPH * count),
    "b.docx": lambda count: word(f"<w:p>{PARAGRAPH[5:-6] * count}</w:p>"),
    "c.docx": lambda count: word(f"<w:p><w:r {' ' * 50 * count}>{PARAGRAPH[10:]}"),
    "a.odt": lambda count: open_document("<text:p>A <text:span>b</text:span></text:p>" * count),
    "b.odt": lambda count: open_document(f"<text:p>{BOOKMARK * count}</text:p>"),
    "a.xlsx": lambda count: workbook("<si><t>Ein Hund</t></si>" * count),
    "a.pptx": lambda count: slides(f"<a:p><a:r><a:t>{'a' + chr(9) * count}</a:t></a:r></a:p>"),
    "a.epub": lambda count: book("<p>Ein <b>Hund</b> <img alt='x y'/></p>" * count),
    "b.epub": lambda count: book(f"{'<b>' * count}x{'</b>' * count}"),
    "c.html": lambda count: b"<img alt='Ein Hund'>" * count,
    "a.json": lambda count: b'["Ein Hund"' + b',"a b"' * count + b"]",
    "a.strings": lambda count: b"a" * 50 * count,
    "b.strings": lambda count: b"/* " * count,
    "a.properties": lambda count: b"a = Ein Hund \\\n" * count,
    "a.html": lambda count: b"<p>Ein <b>Hund</b> " * count,
    "b.html": lambda count: b"<!--" * 10 * count + b"<meta charset=" + b" " * 50 * count,
}


@pytest.mark.parametrize("name", GROWING)
def test_four_times_as_much_takes_four_times_as_long(name: str) -> None:
    """A quadratic step would take 64 times as long for 8 times as much."""

    def seconds(count: int) -> float:
        data = GROWING[name](count)
        began = time.process_time()
        with suppress(DataError):  # of what is no catalog
            translate(name, data)
        return time.process_time() - began

    seconds(10)
    assert seconds(2000) < 24 * seconds(250) + 0.5
