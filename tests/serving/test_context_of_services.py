"""A service gives a model that was trained with context the sentences before each."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.many_languages import save_languages
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install 'seq2seq-attention-zoo[serve]'")
pytest.importorskip("httpx", reason="pip install httpx")

from helpers.services import demo_service, loaded_client

from seq2seq.serving.document_process import PORTION
from seq2seq.serving.storage import Storage
from seq2seq.translation.documents import request_lines
from seq2seq.translation.translator import Translator

LINES = [line for line in demo_lines("test", "de", 100) if len(line) < 45][:4]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("context") / "best.ckpt"
    save_languages(path, "target", context=1)
    return path


@pytest.fixture(scope="module")
def client(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    storage = Storage(tmp_path_factory.mktemp("storage"))
    with loaded_client(demo_service(model, storage=storage)) as client:
        yield client


@pytest.fixture(scope="module")
def right(model: Path) -> list[str]:
    translator = Translator.load(model, "cpu", languages=("de", "fr"))
    results = translator.stream(request_lines(LINES, 1), translator.engine())
    return [result.translations[0].text for result in results]


def test_sentences_of_a_text_have_those_before_them(client: Any, right: list[str]) -> None:
    asked = {"q": " ".join(LINES), "source": "de", "target": "fr"}
    assert client.post("/translate", json=asked).json()["translatedText"] == " ".join(right)


def test_texts_of_a_request_are_apart(client: Any, right: list[str]) -> None:
    asked = {"q": [" ".join(LINES[:2]), LINES[0]], "source": "de", "target": "fr"}
    translated = client.post("/translate", json=asked).json()["translatedText"]
    assert translated == [" ".join(right[:2]), right[0]]


def test_a_client_sends_the_text_before(client: Any, right: list[str]) -> None:
    """In each protocol. A model with context=1 reads its last sentence, however long it is."""
    deepl = {"text": [LINES[2]], "source_lang": "DE", "target_lang": "FR"}
    ours = {"text": LINES[2], "source": "de", "target": "fr"}
    alone = client.post("/v2/translate", json=deepl).json()["translations"][0]["text"]
    assert client.post("/v1/translate", json=ours).json()["text"] == alone != right[2]
    for before in (
        LINES[1],
        "\n".join(LINES[:2]),
        f"{LINES[0]} {LINES[1]}",
        "a\n" * 20_000 + LINES[1],
    ):
        more = {"context": before}
        assert (
            client.post("/v2/translate", json=deepl | more).json()["translations"][0]["text"]
            == right[2]
        )
        assert client.post("/v1/translate", json=ours | more).json()["text"] == right[2]
        ways = client.post("/v1/alternatives", json=ours | more).json()["sentences"][0][
            "translations"
        ]
        assert ways[0]["text"] == right[2]
    (model,) = client.get("/v1/models").json()["models"]
    assert model["context"] == 1


def test_sentences_of_a_file_have_those_before_them(client: Any, model: Path) -> None:
    """Each is a paragraph, and there are more than the service translates together."""
    lines = [*LINES * PORTION, *LINES[1:]][: PORTION + 2]
    translator = Translator.load(model, "cpu", languages=("de", "fr"))
    results = translator.stream(request_lines(lines, 1), translator.engine())
    right = [result.translations[0].text for result in results]
    languages = {"source_lang": "DE", "target_lang": "FR"}
    file = {"file": ("a.txt", "\n\n".join(lines).encode())}
    sent = client.post("/v2/document", data=languages, files=file).json()
    keys, path = {"document_key": sent["document_key"]}, f"/v2/document/{sent['document_id']}"
    for _ in range(600):
        if client.post(path, json=keys).json()["status"] == "done":
            break
        time.sleep(0.05)
    assert client.post(f"{path}/result", json=keys).text == "\n\n".join(right)
