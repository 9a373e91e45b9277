"""Servers in processes: signals, clients of other projects, and clients that misbehave."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.servers import ServerProcess, children, request_bytes
from helpers.tiny_runs import demo_lines

pytest.importorskip("uvicorn", reason="pip install -e '.[serve]'")
pytestmark = pytest.mark.serving

TEXTS = demo_lines("test", "de", 20)
LONG = " ".join(TEXTS[:5])


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers, which are ended at the latest after all tests."""
    started: list[ServerProcess] = []

    def start(*arguments: Any) -> ServerProcess:
        started.append(ServerProcess(*arguments))
        return started[-1].ready()

    yield start
    for each in started:
        each.process.kill()
        each.wait()


@pytest.fixture(scope="module")
def server(trained: Path, start: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    running = start(trained)
    yield running
    assert running.end() == 0
    assert not any(text in line for line in running.log for text in TEXTS)


def test_clients_that_misbehave_hold_nobody_up(server: ServerProcess) -> None:
    halves = [
        server.send(request_bytes(TEXTS[0])[:size]) for size in (0, 5, 50, 90) for _ in range(5)
    ]
    bombs = [
        server.send(b"GET / HTTP/1.1\r\n" + b"x: %s\r\n" % (b"y" * 1000) * 100),
        server.send(b"\x16\x03\x01 not HTTP\r\n\r\n"),
        server.send(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"),
    ]
    for bomb in bombs:
        with bomb:
            assert b" 400 " in bomb.recv(100).split(b"\r\n")[0]
    assert server.translate("ü" * 10 * 2**20)[0] == 413
    assert server.translate(TEXTS[0])[0] == 200
    for half in halves:
        with half:
            half.settimeout(60)
            content = half.recv(10_000)  # ends: the server closes it
            assert content == b"" or b" 408 " in content


def test_what_was_accepted_is_answered_after_sigterm(
    trained: Path, start: Callable[..., ServerProcess]
) -> None:
    server = start(trained, "--queue", 10**6, "--deadline", 600)
    connections = [server.send(request_bytes(text)) for text in TEXTS for _ in range(5)]
    server.wait_for(lambda: server.gauge("seq2seq_queue_pieces") > 0)
    server.process.send_signal(signal.SIGTERM)
    codes = []
    for connection in connections:
        with connection:
            content = b""
            while more := connection.recv(65_536):
                content += more
            codes.append(content[9:12])
    assert set(codes) <= {b"200", b"503"} and codes.count(b"200") > 1
    assert server.wait() == 0


def request_document(
    server: ServerProcess, path: str, lines: list[str], **fields: str
) -> http.client.HTTPConnection:
    """Send a document. Returns: the connection, on which the answer comes."""
    parts = "".join(
        f'--x\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    head = '--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    body = "\n".join(lines)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"content-type": "multipart/form-data; boundary=x"}
    form = f"{parts}{head}{body}\r\n--x--\r\n".encode()
    connection.request("POST", path, form, headers)
    return connection


def upload(server: ServerProcess, lines: list[str]) -> tuple[str, dict[str, str]]:
    """Send a document as DeepL's client does. Returns: its path, and the key to ask for it."""
    fields = {"source_lang": "DE", "target_lang": "EN-US"}
    connection = request_document(server, "/v2/document", lines, **fields)
    handle = json.loads(connection.getresponse().read())
    connection.close()
    return f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_document_of_a_server_that_ends_has_an_error_at_once(
    trained: Path, tmp_path: Path, start: Callable[..., ServerProcess], end: signal.Signals
) -> None:
    server = start(trained, "--keep-in", tmp_path / "kept", "--grace", "1")
    other = start(trained, "--keep-in", tmp_path / "kept")
    handle = upload(server, TEXTS * 500)
    assert other.ask("POST", *handle, JSON)[1]["status"] == "translating"
    server.process.send_signal(end)
    # One that is told to end has a second for it, in which it tells others what became of it.
    assert server.wait() == (-end if end == signal.SIGKILL else 0)
    status = other.ask("POST", *handle, JSON)[1]
    assert status["status"] == "error" and "the server stopped" in status["error_message"]
    again = start(trained, "--keep-in", tmp_path / "kept")
    assert again.ask("POST", *handle, JSON)[1] == status
    if end == signal.SIGTERM:
        log = "".join(server.log)
        assert "draining: 1 document in progress, which may take 1 s" in log
        assert "1 document not finished" in log
    for each in (other, again):
        assert each.end() == 0


def reads_document(server: ServerProcess) -> bool:
    """Does the server have a process that reads a document?"""
    commands = [Path(f"/proc/{each}/cmdline").read_text() for each in children(server.process.pid)]
    return any("document_process" in each for each in commands)


@pytest.mark.skipif(not Path("/proc").exists(), reason="the system does not list processes")
def test_a_client_that_leaves_ends_its_document(
    trained: Path, tmp_path: Path, start: Callable[..., ServerProcess]
) -> None:
    server = start(trained, "--keep-in", tmp_path / "kept")
    pair = {"source": "de", "target": "en"}
    connection = request_document(server, "/translate_file", TEXTS * 500, **pair)
    server.wait_for(lambda: server.gauge("seq2seq_documents"))
    server.wait_for(lambda: reads_document(server))
    connection.close()
    server.wait_for(lambda: not server.gauge("seq2seq_documents"))
    assert not reads_document(server)
    assert server.end() == 0


def test_a_document_in_time_is_finished_after_sigterm(
    trained: Path, tmp_path: Path, start: Callable[..., ServerProcess]
) -> None:
    server = start(trained, "--keep-in", tmp_path / "kept", "--grace", "600")
    other = start(trained, "--keep-in", tmp_path / "kept")
    handle = upload(server, TEXTS * 3)
    assert server.end() == 0
    assert other.ask("POST", *handle, JSON)[1]["status"] == "done"
    assert other.end() == 0


def test_sighup_loads_anew_and_a_failed_load_keeps_the_old(
    trained: Path, tmp_path: Path, start: Callable[..., ServerProcess]
) -> None:
    own = tmp_path / "model.ckpt"
    own.write_bytes((trained / "best.ckpt").read_bytes())
    server = start("--model", f"own={own}")
    expected = server.translate(TEXTS[0])
    own.write_bytes(b"damaged")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for(lambda: any("loading failed" in line for line in server.log))
    assert server.translate(TEXTS[0]) == expected
    own.write_bytes((trained / "best.ckpt").read_bytes())
    server.process.send_signal(signal.SIGHUP)
    while sum("ready: own" in line for line in server.log) < 2:
        assert server.translate(TEXTS[0]) == expected
    assert server.translate(TEXTS[0]) == expected
    server.process.kill()
    server.wait()
    again = start("--model", f"own={own}")
    assert again.translate(TEXTS[0]) == expected
    assert again.end() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere"),
        (("{path}", "--host", "0.0.0.0"), "--no-auth"),
        (("{path}", "--keys", "{empty}"), "has no keys"),
        (("{path}", "{path}"), "one name"),
        (("--model", "a={empty}"), "checkpoint"),
        ((), "seq2seq serve RUN"),
    ],
)
def test_mistakes_end_with_a_message(
    trained: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    words = [word.format(path=trained, empty=empty) for word in arguments]
    command = [sys.executable, "-m", "seq2seq", "serve", *words, "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and message in ended.stderr and "Traceback" not in ended.stderr
    assert "listening" not in ended.stderr or "checkpoint" in message
