"""Files are read and written in a process of their own, which takes no more than it may."""

import asyncio
import io
import json
import os
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")

from seq2seq.serving import document_process
from seq2seq.serving.document_handle import DocumentHandle
from seq2seq.serving.document_process import count_unpacked, limit_seconds
from seq2seq.serving.errors import HTTPError
from seq2seq.text.documents.files.contents import Cutter
from seq2seq.text.documents.files.formats import open_file

SPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(xml: str) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document {SPACE}>{xml}</w:document>")
    return output.getvalue()


RUN = "<w:p><w:r><w:t>{}</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r></w:p>"
FILES = {
    "a.txt": "Ein Hund läuft.\n\nÄ\t\ud83d\ude00 Zwei Katzen!\r\n".encode("utf-8", "surrogatepass"),
    "a.md": "# Ein *Hund*\n\n- läuft `so` weit\n".encode(),
    "a.html": "<p>Ein <b>Hund</b> läuft &amp; bellt.</p><p>Er <code>x</code> schläft.".encode(),
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\nEin <i>Hund</i>\n",
    "a.docx": docx(RUN.format("Ein ", "Hund") * 20),
}
FILES["a.txt"] = "Ein Hund läuft.\n\nÄ\t\U0001f600 Zwei Katzen!\r\n".encode()


def with_handle(name: str, data: bytes, use: Callable[[DocumentHandle], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with DocumentHandle(name, data) as handle:
            result = await use(handle)
        assert handle._process.returncode is not None
        return result

    return asyncio.run(run())


async def shout(handle: DocumentHandle) -> tuple[list[Any], bytes]:
    """The sentences of a file, and the file with all of them in capitals."""
    await handle.ask("open", language="de", whole=True)
    sentences, answers = [], list[Any]()
    while portion := (await handle.ask("next", translations=answers))[0]["sentences"]:
        assert len(portion) <= document_process.PORTION
        sentences += portion
        answers = [(each["sentence"].upper(), None) for each in portion]
    return sentences, (await handle.ask("write", target="en"))[1]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_and_written_as_in_this_process(name: str) -> None:
    sentences, data = with_handle(name, FILES[name], shout)
    contents = open_file(name, FILES[name], Cutter("de"))
    documents = contents.documents
    assert [each["sentence"] for each in sentences] == [
        text for document in documents for text in document.sentences
    ]
    assert [each["copied"] for each in sentences] == [
        document.copies(number) if document.elements[number] else None
        for document in documents
        for number in range(len(document.sentences))
    ]
    upper = [each.join([text.upper() for text in each.sentences], "en") for each in documents]
    assert data == contents.write(upper) != FILES[name]


def test_links_say_where_tags_go() -> None:
    async def swap(handle: DocumentHandle) -> bytes:
        await handle.ask("open", language="de", whole=True)
        await handle.ask("next", translations=[])
        spans = [(0, 3), (4, 8)], [(0, 4), (5, 8)]
        links = (*spans, [(0, 1), (1, 0)], [1, 0])
        await handle.ask("next", translations=[("Hund ein", links)])
        return (await handle.ask("write", target="en"))[1]

    assert with_handle("a.html", b"<p>Ein <b>Hund</b></p>", swap) == b"<p><b>Hund</b> ein</p>"


def test_a_sample_needs_no_language() -> None:
    async def sample(handle: DocumentHandle) -> Any:
        return (await handle.ask("sample"))[0]["sample"]

    assert with_handle("a.txt", b"One.\nTwo.", sample) == "One. Two."
    assert len(with_handle("a.txt", b"word " * 10_000, sample)) == document_process.SAMPLE


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [("a.docx", b"PK", "a.docx cannot be read as .docx"), ("b.txt", b"\xff", "b.txt cannot")],
)
def test_a_file_that_cannot_be_read_is_named(name: str, data: bytes, message: str) -> None:
    with pytest.raises(HTTPError, match=message):
        with_handle(name, data, lambda handle: handle.ask("open", language="de", whole=True))


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGXCPU, 413, "a.txt needs more than 10 seconds of computing"),
        (signal.SIGKILL, 413, "a.txt needs more memory"),
        (signal.SIGSEGV, 500, "a.txt: the process that reads it has ended"),
    ],
)
def test_a_process_that_the_system_ends_is_explained(
    number: signal.Signals, code: int, message: str, caplog: Any
) -> None:
    async def die(handle: DocumentHandle) -> None:
        await handle.ask("open", language="de", whole=True)
        handle._process.send_signal(number)
        await handle.ask("next", translations=[])

    with pytest.raises(HTTPError, match=message) as caught:
        with_handle("a.txt", b"Ein Hund.", die)
    assert caught.value.status == code and "Hund" not in caplog.text


def test_an_error_of_ours_is_logged_without_the_text(caplog: Any) -> None:
    async def fail(handle: DocumentHandle) -> None:
        await handle.ask("open", language="de", whole=True)
        await handle.ask("next", translations=[("secret",)])

    with pytest.raises(HTTPError, match="see its log") as caught:
        with_handle("a.txt", b"secret.", fail)
    assert caught.value.status == 500
    assert "ValueError" in caplog.text and "secret" not in caplog.text


def test_who_leaves_ends_the_process_while_it_reads() -> None:
    async def leave() -> DocumentHandle:
        handle = DocumentHandle("a.docx", docx("<w:p/>" * 150_000))

        async def read() -> None:
            async with handle:
                started.set()
                await handle.ask("open", language="de", whole=True)

        started = asyncio.Event()
        task = asyncio.ensure_future(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return handle

    process = asyncio.run(leave())._process
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):  # nothing of it is left
        os.kill(process.pid, 0)


def test_the_system_ends_what_computes_too_long() -> None:
    code = f"from seq2seq.serving.{document_process.__name__.rpartition('.')[2]} import *\n"
    code += f"{limit_seconds.__name__}(1)\nwhile True: pass"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode == -signal.SIGXCPU
    assert after.ru_utime - before.ru_utime < 5


# Expressions, since the process that measures makes the file itself.
UNIT = "<xliff><file><body><trans-unit><source>{}</source></trans-unit></body></file></xliff>"
BOMBS = {
    "a.docx": 'docx("<w:p/>" * 250_000)',
    "b.docx": 'docx("<w:p><w:r><w:t>a b.</w:t></w:r></w:p>" * 20_000)',
    "a.xliff": 'UNIT.format("<g/>" * 250_000).encode()',
    "a.md": 'b"- a\\n" * 20_000',
    "a.html": 'b"<p>a b" * 50_000',
    "a.srt": 'b"1\\n00:00:01,000 --> 00:00:02,000\\na b.\\n\\n" * 10_000',
    "a.txt": '"Ein Hund läuft. ".encode() * 50_000',
}
QUICK = ["b.docx", "a.html", "a.srt"]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in BOMBS if name not in QUICK]
ORDINARY = ("a.srt", "a.txt", "b.docx")  # must be translated
MEASURE = """
import asyncio, json, resource, sys
sys.path[:0] = [{tests!r}]
from seq2seq.serving.document_handle import DocumentHandle
from seq2seq.serving.document_process import count_unpacked
from test_document_process import *
name, data = {name!r}, {data}
async def run():
    async with DocumentHandle(name, data) as handle:
        await shout(handle)
message = ""
try:
    asyncio.run(run())
except Exception as error:
    message = str(error) or repr(error)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(json.dumps([count_unpacked(data), 1024 * used.ru_maxrss, seconds, message]))
"""


@pytest.mark.parametrize("name", QUICK + SLOW)
def test_a_file_takes_no_more_time_and_memory_than_it_may(name: str) -> None:
    """Translated or refused: what its process takes is bounded by its bytes."""
    tests = os.path.dirname(__file__)
    code = MEASURE.format(tests=tests, name=name, data=BOMBS[name])
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size, memory, seconds, message = json.loads(ended.stdout)
    assert memory <= 200 * 2**20 + 60 * size
    assert seconds < document_process.PARSING * (1 if message else 2)
    assert not message or (name in message and name not in ORDINARY)


def test_sizes_are_those_of_what_is_unpacked() -> None:
    assert count_unpacked(b"abc") == 3 == count_unpacked(b"PK\x03")
    assert count_unpacked(docx("x" * 10_000)) > 10_000
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(2 * document_process.LONGEST))
    assert count_unpacked(output.getvalue()) == document_process.LONGEST
