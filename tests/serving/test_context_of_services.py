"""A service gives a model that was trained with context the sentences before each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.many_languages import save_languages
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install 'seq2seq-attention-zoo[serve]'")
pytest.importorskip("httpx", reason="pip install httpx")

from helpers.services import demo_service, loaded_client

from seq2seq.serving.document_process import PORTION, portions_of
from seq2seq.text.documents.document import Document
from seq2seq.translation.documents import request_lines
from seq2seq.translation.translator import Translator

LINES = [line for line in demo_lines("test", "de", 100) if len(line) < 45][:4]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("context") / "best.ckpt"
    save_languages(path, "target", context=1)
    return path


@pytest.fixture(scope="module")
def client(model: Path) -> Iterator[Any]:
    with loaded_client(demo_service(model)) as client:
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


def test_portions_of_a_file_go_on_after_one_another() -> None:
    sentences = [f"Satz {number}." for number in range(PORTION + 3)]
    documents = [Document.of(" ".join(sentences), "de"), Document.of("Ende. Aus.", "de")]
    sent = [each for portion in portions_of(documents, 2) for each in portion]
    assert [each["sentence"] for each in sent] == [*sentences, "Ende.", "Aus."]
    for number, each in enumerate(sent[: len(sentences)]):
        assert each["context"] == sentences[max(0, number - 2) : number]
    assert [each["context"] for each in sent[-2:]] == [[], ["Ende."]]
