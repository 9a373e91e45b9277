"""Files that clients send: translated, kept for their client alone, and no burden for others."""

import asyncio
import hashlib
import io
import logging
import re
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")

from helpers.services import KEYS, keyed_service, later, metrics_of
from starlette.testclient import TestClient

from seq2seq.base.errors import ConfigError
from seq2seq.serving import document_process, document_turns, documents
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.service import Service
from seq2seq.serving.storage import DOCUMENTS, Storage

LINES = demo_lines("test", "de", 40)
MARKDOWN = f"# {LINES[0]}\r\n\r\n{LINES[1]} `code`\r\n"
SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PAIR = {"source": "de", "target": "en"}


@pytest.fixture(scope="module")
def service(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Service:
    return keyed_service(trained, tmp_path_factory.mktemp("kept"))


def send(client: TestClient, name: str, data: bytes | str, **fields: Any) -> Any:
    content = data.encode() if isinstance(data, str) else data
    return client.post("/translate_file", files={"file": (name, content)}, data={**PAIR, **fields})


def upload(client: TestClient, name: str, data: str, **fields: str) -> Any:
    languages = {"source_lang": "DE", "target_lang": "EN-US", **fields}
    answer = client.post("/v2/document", files={"file": (name, data.encode())}, data=languages)
    return answer.json()


def wait(client: TestClient, handle: dict[str, str]) -> Any:
    """The state of a document that is no longer being translated."""
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    while (status := client.post(path, json=key).json()).get("status") == "translating":
        time.sleep(0.02)
    return status


def test_a_file_comes_back_to_its_client_alone(client: TestClient) -> None:
    for source in ("de", "auto"):
        answer = send(client, "../a ö.md", MARKDOWN, source=source)
        url = answer.json()["translatedFileUrl"]
        assert answer.status_code == 200 and url.endswith("/a%20%C3%B6.md")
        fetched = client.get(url)
        text = fetched.content.decode()
        assert text.startswith("# ") and text.count("`code`") == 1 and LINES[1] not in text
        assert text.count("\r\n\r\n") == 1 and text.endswith("\r\n")
        assert fetched.headers["content-disposition"].startswith("attachment")
    assert client.get(url, headers=KEYS[1]).status_code == 404
    assert client.get(url, headers={"authorization": ""}).status_code == 403
    expected = client.post("/translate", json={**PAIR, "q": LINES[0]}).json()["translatedText"]
    assert text.startswith(f"# {expected}")


def test_documents_of_deepl_are_fetched_once_with_their_key(client: TestClient) -> None:
    handle = upload(client, "a.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{LINES[0]}\n")
    status = wait(client, handle)
    assert status["status"] == "done" and status["billed_characters"] == len(LINES[0])
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    assert client.post(path, json=key, headers=KEYS[1]).status_code == 404
    for suffix in ("", "/result"):
        assert client.post(path + suffix, json={"document_key": "a"}).status_code == 404
    fetched = client.post(f"{path}/result", data=key)
    assert fetched.text.startswith("1\n00:00:01,000 --> 00:00:02,000\n")
    assert client.post(f"{path}/result", json=key).status_code == 404


def test_glossaries_are_for_documents_too(client: TestClient) -> None:
    languages = {"source_lang": "de", "target_lang": "en"}
    term = LINES[0].split()[1]
    entries = {"entries": f"{term}\tzebra", "entries_format": "tsv"}
    made = client.post("/v2/glossaries", json={"name": "a", **languages, **entries}).json()
    handle = upload(client, "file", LINES[0], filename="a.txt", glossary_id=made["glossary_id"])
    assert wait(client, handle)["status"] == "done"
    key = {"document_key": handle["document_key"]}
    text = client.post(f"/v2/document/{handle['document_id']}/result", json=key).text
    assert "zebra" in text


@pytest.mark.parametrize(
    ("name", "data", "code", "message"),
    [
        ("a.docx", b"PK\x03\x04", 400, "cannot be read as .docx"),
        ("a.pdf", b"%PDF", 400, "pdftotext"),
        ("a.txt", b"\xff", 400, "not UTF-8"),
        ("", b"a", 400, ""),
        ("a.txt", b"a" * 2**23, 413, "at most 8,388,608"),
        ("a.txt", b"word. " * 400_000, 413, "characters, more than 1,000,000"),
    ],
)
def test_what_is_no_document_is_refused(
    client: TestClient, service: Service, name: str, data: bytes, code: int, message: str
) -> None:
    answer = send(client, name, data)
    assert answer.status_code == code and message in answer.json()["error"]
    assert not service.documents.count


def test_a_text_or_several_files_are_no_file(client: TestClient) -> None:
    answer = client.post("/translate_file", files={"file": (None, "a")}, data=PAIR)
    assert answer.status_code == 400 and "file name" in answer.json()["error"]
    several = [("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))]
    assert client.post("/translate_file", files=several, data=PAIR).status_code == 400
    others = {"q": ("a.txt", b"a"), "source": (None, "de"), "target": (None, "en")}
    assert client.post("/translate", files=others).status_code == 400
    assert client.post("/translate_file", json=PAIR).status_code == 415


def test_a_key_may_be_in_the_form(client: TestClient) -> None:
    stranger: dict[str, Any] = {"headers": {"authorization": ""}}
    stranger["files"] = {"file": ("a.txt", LINES[0].encode())}
    assert client.post("/translate_file", data=PAIR, **stranger).status_code == 403
    data = {**PAIR, "api_key": "first"}
    assert client.post("/translate_file", data=data, **stranger).status_code == 200


def test_a_long_document_lets_others_pass(
    client: TestClient, service: Service, busy: threading.Event
) -> None:
    long = [upload(client, "a.txt", "\n".join(LINES) * 8) for _ in range(document_turns.AT_ONCE)]
    assert "wait until one" in upload(client, "a.txt", LINES[0])["message"]
    busy.set()
    model = service.models["demo"]
    for _ in range(3):
        body = {**PAIR, "q": LINES[0]}
        assert client.post("/translate", json=body, headers=KEYS[1]).status_code == 200
        waiting = [len(request.sentences) for request in model.backlog.requests]
        assert (
            len(waiting) <= document_turns.AT_ONCE
            and max(waiting, default=0) <= document_process.PORTION
        )
    assert [wait(client, handle)["status"] for handle in long] == ["done"] * document_turns.AT_ONCE
    assert not service.documents.count


def test_what_goes_wrong_is_the_state_of_the_document(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise OSError("a secret")

    document = documents.ClientDocument
    monkeypatch.setattr(document, "translate_portions", fail)
    status = wait(client, upload(client, "a.txt", LINES[0]))
    assert status["status"] == "error" and "secret" not in status["message"]
    monkeypatch.setattr(document, "translate_portions", lambda *_: asyncio.sleep(60))
    monkeypatch.setattr(documents, "SECONDS", 0.05)
    assert "within" in wait(client, upload(client, "a.txt", LINES[0]))["message"]
    assert not service.documents.count


BOMB = "".join(f"<w:p id='{number}'/>" for number in range(250_000))


def test_a_file_of_too_much_structure_is_refused_by_name(
    client: TestClient, service: Service, caplog: Any
) -> None:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document xmlns:w='a'>{BOMB}</w:document>")
    answer = send(client, "my bomb.docx", output.getvalue())
    assert answer.status_code in (400, 413) and "my bomb.docx" in answer.json()["error"]
    assert not service.documents.count and "my bomb" not in caplog.text


def test_a_sentence_without_an_end_is_refused(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "limits", replace(service.limits, characters=20))
    assert send(client, "a.txt", "Ein Hund.\nZwei Katzen.").status_code == 200
    answer = send(client, "a.txt", "Ein Hund.\nZwei Katzen und ein Pferd.")
    assert answer.status_code == 413 and "26 characters" in answer.json()["error"]


def test_a_document_of_a_server_that_has_ended_has_an_error(
    client: TestClient, service: Service
) -> None:
    storage = service.storage
    assert storage
    key = {"document_key": "secret"}
    facts = {"name": "a.txt", "key": "secret", "characters": 1, "status": "translating"}
    for expected in ("translating", "error"):
        record = storage.create(DOCUMENTS, "first", facts, b"")
        lock = Storage(storage.folder).lock(DOCUMENTS, "first", record.id)
        if expected == "error":
            lock.close()
        path = f"/v2/document/{record.id}"
        status = client.post(path, json=key).json()
        assert status["status"] == expected
        assert expected == "translating" or "the server stopped" in status["error_message"]
        result = client.post(f"{path}/result", json=key)
        assert result.status_code == 503
        assert ("stopped" in result.json()["error"]) == (expected == "error")
        storage.delete(DOCUMENTS, "first", record.id)
        lock.close()


def test_a_document_goes_on_with_its_model_when_models_are_loaded_again(
    client: TestClient, service: Service, caplog: Any
) -> None:
    assert client.portal
    old = service.models["demo"]
    handle = upload(client, "long.txt", "\n".join(LINES) * 4)
    client.portal.call(service.load)  # ends when the old models are closed
    assert service.models["demo"] is not old and not old.holds
    assert wait(client, handle)["status"] == "done"
    with pytest.raises(HTTPError, match="send the request again"):
        old.thread.compute(len, "")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left"), "could not be saved"),
        (ConfigError("it is large"), "it is large"),
    ],
)
def test_a_translation_that_cannot_be_kept_is_an_error(
    client: TestClient,
    service: Service,
    caplog: Any,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
) -> None:
    """Also if that cannot be kept either."""
    assert service.storage
    update, largest = Storage.update, [0]

    def fail(storage: Storage, *place: Any) -> Any:
        _, data = place[-1](None)
        if len(data) > largest[0]:
            raise error
        return update(storage, *place)

    monkeypatch.setattr(Storage, "update", fail)
    for size in (0, -1):
        largest[0] = size
        status = wait(client, upload(client, "a.txt", LINES[0]))
        assert status["status"] == "error"
        assert (message if size == 0 else "could not be saved") in status["message"]
    assert "could not be saved: " in caplog.text


@pytest.mark.parametrize("source", ["AUTO", "Auto"])
def test_auto_is_auto_however_it_is_written(client: TestClient, source: str) -> None:
    french = "Je voudrais manger une pomme avec mon ami dans le jardin. Il fait beau."
    answer = send(client, "a.txt", french, source=source)
    assert answer.status_code == 400 and "French" in answer.json()["error"]
    body = {"q": LINES[0], "source": source, "target": "en"}
    assert "detectedLanguage" in client.post("/translate", json=body).json()


def test_nothing_is_kept_for_a_client_that_has_left(client: TestClient, service: Service) -> None:
    """Nor is a place taken by documents with an error, while those that are translated stay."""
    storage = service.storage
    assert storage and client.portal
    before = storage.list_records(DOCUMENTS, "first")
    handle = upload(client, "long.txt", "\n".join(LINES) * 4)
    client.portal.call(service.documents.finish, 0.0)  # cancels, as leaving does
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    assert client.post(path, json=key).status_code == 404
    assert storage.list_records(DOCUMENTS, "first") == before
    states = ["error", "error", *["done"] * (DOCUMENTS.records - 2)]
    made = [storage.create(DOCUMENTS, "second", {"status": each}, b"").id for each in states]
    for gone in (1, 2):
        made.append(storage.create(DOCUMENTS, "second", {"status": "done"}, b"").id)
        kept = {each.id for each in storage.list_records(DOCUMENTS, "second")}
        assert kept == set(made[gone:])
    answer = client.post(
        "/translate_file", files={"file": ("a.txt", b"a")}, data=PAIR, headers=KEYS[1]
    )
    assert answer.status_code == 429 and "50 documents already" in answer.json()["error"]


def test_a_server_that_stops_gives_documents_a_while(
    client: TestClient, service: Service, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in time are translated, the others end with an error that their clients see."""
    caplog.set_level(logging.INFO, logger="seq2seq.serving")
    monkeypatch.setattr(service, "draining", False)
    long = upload(client, "long.txt", "\n".join(LINES) * 20)
    short = upload(client, "short.txt", LINES[0])
    waiting, answers = later(lambda: send(client, "long.txt", "\n".join(LINES) * 20))
    while service.documents.count["first"] < 2 or wait(client, short)["status"] != "done":
        time.sleep(0.02)
    assert client.portal
    monkeypatch.setattr(service, "draining", True)
    assert client.portal.call(service.documents.finish, 0.0) >= 1
    waiting.join()
    monkeypatch.undo()
    assert answers[0].status_code in (499, 503)
    status = wait(client, long)
    assert status["status"] == "error" and status["error_message"]
    assert not service.documents.count


def test_the_load_is_shown_without_keys_and_texts(
    client: TestClient, service: Service, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, logger="seq2seq.access")
    handles = [upload(client, "a.txt", "\n".join(LINES) * 12) for _ in range(2)]
    before = metrics_of(client)
    digest = hashlib.sha256(b"first").hexdigest()[:12]
    states = [f'seq2seq_documents{{client="{digest}",state="{s}"}}' for s in ("working", "waiting")]
    assert sum(before[state] for state in states) == 2
    assert before["process_resident_memory_bytes"] > 2**20
    assert before['seq2seq_pool_queue{pool="default"}'] >= 0
    assert before["seq2seq_loop_lag_seconds"] >= 0
    for handle in handles:
        assert wait(client, handle)["status"] == "done"
    assert client.post("/translate", json={**PAIR, "q": LINES[0]}).status_code == 200
    names = [f'seq2seq_{name}_seconds_total{{model="demo"}}' for name in ("queue_wait", "decode")]
    after = metrics_of(client)
    assert sum(after[name] for name in names) > sum(before[name] for name in names)
    (line,) = [line for line in caplog.messages if " /translate " in line]
    assert re.search(rf"key={digest} documents=0\+0 queue=\d+\.\d decode=\d+\.\d$", line)
    assert re.search(r" pool=\d+ lag=\d+\.\d memory=[1-9]\d+ ", line)
    logged = caplog.text + "".join(before)
    assert "Bearer" not in logged and LINES[0] not in logged and "first" not in caplog.text
