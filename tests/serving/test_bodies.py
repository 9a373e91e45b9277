"""Bodies of requests: read only for who may send one, and where a key may be in it."""

import asyncio
import gc
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
pytest.importorskip("uvicorn")

from helpers.services import access, client_of, running, send
from python_multipart.multipart import File, FormParser
from starlette.datastructures import Headers

from seq2seq.serving import bodies
from seq2seq.serving.bodies import PREFIX, find_key_in
from seq2seq.serving.routes import KEEPING, KEY_IN_BODY, WITH_FILE
from seq2seq.serving.service import Service
from seq2seq.serving.storage import Storage
from seq2seq.serving.validation import FORM, Limits, parse_parts

JSON, PARTS = "application/json", "multipart/form-data; boundary=xyz"
LONG = "a" * 2 * PREFIX


def multipart(*fields: tuple[str, str]) -> bytes:
    """A form in parts; the field `file` is one."""
    parts = []
    for name, value in fields:
        file = '; filename="a.txt"' if name == "file" else ""
        head = f'--xyz\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        parts.append(f"{head}{value}\r\n")
    return "".join([*parts, "--xyz--\r\n"]).encode()


def body_of(kind: str, *fields: tuple[str, str]) -> bytes:
    if kind == PARTS:
        return multipart(*fields)
    return (json.dumps(dict(fields)) if kind == JSON else urlencode(fields)).encode()


@pytest.mark.parametrize("name", ["api_key", "auth_key"])
@pytest.mark.parametrize("kind", [JSON, FORM, PARTS])
def test_a_key_is_found_in_the_beginning_of_a_body_only_when_it_is_complete(
    kind: str, name: str
) -> None:
    headers = Headers({"content-type": kind})
    key = 'Schlüssel "1"&2%3'

    def found(*fields: tuple[str, str], cut: int | None = None) -> str:
        return find_key_in(body_of(kind, *fields)[:cut], headers)

    assert found((name, key), ("q", "a")) == found(("q", "a"), (name, key)) == key
    assert found((name, key), ("q", LONG)) == key
    assert found(("q", LONG), (name, key)) == "" == found(("q", "a"))
    # The key begins in the prefix, and ends behind it.
    before = body_of(kind, ("q", "a" * PREFIX), (name, "x" * 100))
    start = before.index(b"x" * 100)
    for inside in (1, 50, 99):
        fill = "a" * (2 * PREFIX - start - inside)
        assert found(("q", fill), (name, "x" * 100), ("r", "b" * 300)) == ""
    # What a text says is no key.
    for text in (f'"{name}": "k"', f"&{name}=k", f'\\"{name}\\":\\"k\\"', f'name="{name}"'):
        assert found(("q", text)) == ""


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"\xff\xfe" * 99, b"{" * 70_000, b'{"api_key": 1}', b'{"api_key": "\\ud800"}']
    + [b'"api_key":"' * 6000, b'"api_key":' + b" " * 65_000, b"--xyz\r\n" * 9000, b"&=" * 33_000],
)
def test_rubbish_has_no_key_of_anybody(body: bytes) -> None:
    with client_of(Service({}, keys=[b"key"])) as client:
        for kind in (JSON, FORM, PARTS, "multipart/form-data", "text/plain", ""):
            for path in ("/translate", "/translate_file", "/v2/translate"):
                if path in KEEPING:
                    continue
                answer = client.post(path, content=body, headers={"content-type": kind})
                assert answer.status_code == 403 and "64 KiB" in answer.json()["error"]


@pytest.mark.parametrize("kind", [JSON, FORM, PARTS])
def test_a_key_opens_in_the_query_and_in_the_body_what_it_opens_in_a_header(
    kind: str, tmp_path: Path
) -> None:
    """503 is said to one who may ask: there is no model."""
    service = Service({}, keys=[b"k y&"], storage=Storage(tmp_path))
    with client_of(service) as client:
        fields = [("q", "a"), ("source", "de"), ("target", "en")]

        def codes(name: str, key: str) -> set[int]:
            headers = {"content-type": kind}
            content = body_of(kind, *fields)
            return {
                client.post(path, content=body, headers=headers, params=query).status_code
                for path, body, query in (
                    ("/translate", content, {name: key}),
                    ("/translate", body_of(kind, *fields, (name, key)), {}),
                    ("/translate", body_of(kind, (name, key), *fields), {name: ""}),
                )
            }

        for name in ("api_key", "auth_key"):
            assert codes(name, "k y&") == {503} and codes(name, "wrong") == {403}
            assert client.get("/v2/usage", params={name: "k y&"}).status_code == 200
            assert client.get("/v2/usage", params={name: "k y"}).status_code == 403
            answer = client.get("/v2/languages", params={name: "k y&", "type": "target"})
            assert answer.status_code == 200
        # A header takes precedence, and then the query.
        header = {"authorization": "Bearer wrong"}
        assert client.get("/v2/usage?auth_key=k+y%26", headers=header).status_code == 403
        text = urlencode([("text", "a"), ("target_lang", "en"), ("auth_key", "k y&")])
        answer = client.post("/v2/translate", content=text, headers={"content-type": FORM})
        assert answer.status_code == 503
        # Our own protocol, and DeepL's third version, are younger than keys in bodies.
        answer = client.post("/v1/translate", json={"text": "a", "api_key": "k y&"})
        assert answer.status_code == 403


@pytest.mark.parametrize("letter", ["a", "\u042f", "\U0001f600"])
@pytest.mark.parametrize("kind", [JSON, FORM, PARTS])
def test_a_key_opens_after_the_longest_text(kind: str, letter: str) -> None:
    service = Service({}, keys=["schl\u00fcssel".encode()])
    text = letter * service.limits.characters
    fields = [("q", text), ("source", "de"), ("target", "en")]
    with client_of(service) as client:
        for mark in (b"", b"\xef\xbb\xbf"):
            for key, code in (("schl\u00fcssel", 503), ("wrong", 403)):
                content = mark + body_of(kind, *fields, ("api_key", key))
                answer = client.post("/translate", content=content, headers={"content-type": kind})
                assert answer.status_code == code
                content = mark + body_of(kind, ("api_key", key), *fields)
                answer = client.post("/translate", content=content, headers={"content-type": kind})
                assert answer.status_code == code
                header = {"authorization": f"Bearer {key}".encode(), "content-type": kind.encode()}
                answer = client.post("/translate", content=body_of(kind, *fields), headers=header)
                assert answer.status_code == code


def test_a_body_has_room_for_the_longest_text_however_it_is_written() -> None:
    limits = Limits(characters=200_000)
    text = "\U0001f600" * limits.characters
    for kind in (JSON, FORM, PARTS):
        content = body_of(kind, ("q", text), ("source", "de"), ("target", "en"))
        assert Limits().body < len(content) or kind == PARTS
        assert len(content) < limits.body


def test_a_body_in_parts_leaves_nothing_behind() -> None:
    """What holds a file is not for the garbage collector, which comes late."""
    headers = Headers({"content-type": PARTS})
    gc.collect()
    gc.disable()
    try:
        for whole in (True, False):
            fields = parse_parts(headers, multipart(("q", "a"), ("file", LONG)), 1, whole)
            assert list(fields) == ["q", "file"]
            files = [each for each in gc.get_objects() if isinstance(each, File | FormParser)]
            assert not files
    finally:
        gc.enable()


def test_without_a_key_no_more_than_the_beginning_of_a_body_is_read(tmp_path: Path) -> None:
    """The rest never comes."""

    async def ask() -> None:
        async with running(access("--keys", "FILE"), keys=[b"key"]) as (server, port):
            server.service.storage = Storage(tmp_path)
            for path in KEY_IN_BODY - {"/v2/document/{document_id}"}:
                size = PREFIX + (path not in WITH_FILE) * server.service.limits.text
                for kind, beginning in (
                    (FORM, b"q=" + b"a" * size),
                    (FORM, b"api_key=wrong&q=" + b"a" * size),
                    (JSON, b'{"q": "' + b"a" * size),
                    (PARTS, multipart(("file", "a" * 2 * size), ("api_key", "key"))),
                ):
                    head = f"POST {path} HTTP/1.1\nHost: a\nContent-Length: 8000000"
                    code, answer = await send(port, f"{head}\nContent-Type: {kind}", beginning)
                    assert code == 403 and "64 KiB" in answer, (path, kind)

    asyncio.run(ask())


def test_where_nothing_is_kept_no_file_is_read() -> None:
    async def ask(keys: list[bytes] | None) -> None:
        async with running(access(*(["--keys", "FILE"] if keys else [])), keys=keys) as (_, port):
            for path in KEEPING:
                for key in ("", "\nAuthorization: Bearer key"):
                    head = f"POST {path} HTTP/1.1\nHost: localhost{key}\nContent-Length: 8000000"
                    code, answer = await send(port, f"{head}\nContent-Type: {PARTS}")
                    in_head = not keys or key or path in KEY_IN_BODY
                    assert code == (400 if in_head else 403), (path, key)
                    assert not in_head or "--keep-in FOLDER" in answer

    asyncio.run(ask(None))
    asyncio.run(ask([b"key"]))


def test_what_strangers_send_is_bounded_for_all_of_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "ROOM", (100_000, 2**27))
    small = b'{"q": "a", "api_key": "key"}'

    async def ask() -> None:
        async with running(access("--keys", "FILE"), keys=[b"key"]) as (_, port):
            head = "POST /detect HTTP/1.1\nHost: a\nContent-Length: "
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in slow:
                writer.write(f"{head}60000\n\n".replace("\n", "\r\n").encode() + b" " * 50_000)
            while True:  # until the server has read both
                code, answer = await send(port, f"{head}{len(small)}", small)
                if "retry-after: 1" in answer:
                    break
            assert code == 503 and "too many requests" in answer
            # One whose key is in the head is not among them.
            known = f"Authorization: Bearer key\nContent-Length: {len(small)}"
            code, answer = await send(port, f"POST /detect HTTP/1.1\nHost: a\n{known}", small)
            assert code == 503 and "models" in answer
            for _, writer in slow:
                writer.close()
            while "models" not in (await send(port, f"{head}{len(small)}", small))[1]:
                await asyncio.sleep(0.01)

    asyncio.run(ask())


def test_room_is_given_back_however_a_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ROOM", (200_000, 200_000))
    service = Service({}, keys=[b"key"])
    with client_of(service) as client:
        for body, code in (
            (b'{"q": "a"}', 403),
            (b"{", 403),
            (b'{"api_key": "key"', 400),
            (b'{"api_key": "key", "q": "' + b"a" * 150_000 + b'"}', 413),
            (b'{"api_key": "key", "q": "' + b"a" * 2**21 + b'"}', 503),
        ) * 5:
            assert client.post("/detect", content=body).status_code == code
        key: dict[str, Any] = {"headers": {"authorization": "Bearer key"}}
        assert client.post("/detect", json={"q": "a" * 150_000}, **key).status_code == 413
        assert "models" in client.post("/detect", json={"q": "a"}, **key).json()["error"]
