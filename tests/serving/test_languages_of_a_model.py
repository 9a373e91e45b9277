"""A service with a model of several languages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.many_languages import save_languages

pytest.importorskip("starlette", reason="pip install 'seq2seq-attention-zoo[serve]'")
pytest.importorskip("httpx", reason="pip install httpx")

from helpers.services import demo_service, loaded_client

from seq2seq.translation.translator import Translator

CODES = ["de", "en", "zh-Hans", "fr"]
TEXT = "Ein Hund läuft. Zwei Katzen."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("languages") / "best.ckpt"
    save_languages(path)
    return path


@pytest.fixture(scope="module")
def client(model: Path) -> Iterator[Any]:
    with loaded_client(demo_service(model)) as client:
        yield client


def expected(model: Path, source: str, target: str, between: str = " ") -> str:
    translator = Translator.load(model, "cpu", languages=(source, target))
    return between.join(translator.translate(["Ein Hund läuft.", "Zwei Katzen."]))


def test_all_protocols_list_the_languages(client: Any) -> None:
    listed = client.get("/languages").json()
    assert [each["code"] for each in listed] == CODES
    assert listed[0]["targets"] == CODES[1:] and listed[1]["targets"] == ["de", "zh-Hans", "fr"]
    for side in ("source", "target"):
        codes = client.get("/v2/languages", params={"type": side}).json()
        assert [each["language"] for each in codes] == [code.upper() for code in CODES]
    (described,) = client.get("/v1/models").json()["models"]
    assert [each["language"] for each in described["languages"]] == CODES
    assert described["source"] == described["target"] == ""


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("fr", "de"), ("deu", "fra_Latn")])
def test_all_protocols_translate_between_any_two(
    client: Any, model: Path, source: str, target: str
) -> None:
    right = expected(model, source, target)
    sides = {"source": source, "target": target}
    assert client.post("/translate", json={"q": TEXT, **sides}).json()["translatedText"] == right
    answer = client.post("/v1/translate", json={"text": TEXT, **sides}).json()
    assert answer["text"] == right and [answer["source"], answer["target"]] == [
        {"deu": "de"}.get(source, source),
        {"fra_Latn": "fr"}.get(target, target),
    ]
    assert "tag" not in str(answer)
    deepl = {"text": [TEXT], "source_lang": source.upper(), "target_lang": target.upper()}
    (translation,) = client.post("/v2/translate", json=deepl).json()["translations"]
    assert translation["text"] == right


def test_texts_are_split_as_the_source_is_written(client: Any, model: Path) -> None:
    translator = Translator.load(model, "cpu", languages=("zh", "fr"))
    asked = {"q": "狗跑。猫睡。", "source": "zh", "target": "fr"}
    answer = client.post("/translate", json=asked).json()
    assert answer["translatedText"] == " ".join(translator.translate(["狗跑。", "猫睡。"]))


def test_links_and_ways_to_continue_are_those_of_the_direction(client: Any) -> None:
    asked = {"text": "Ein Hund läuft.", "source": "de", "target": "fr", "links": True}
    (sentence,) = client.post("/v1/translate", json=asked).json()["sentences"]
    assert [each["text"] for each in sentence["source_words"]] == ["Ein", "Hund", "läuft."]
    ways = client.post("/v1/alternatives", json={**asked, "count": 3, "links": False}).json()
    assert len(ways["sentences"][0]["translations"]) > 1


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        ({"source": "de"}, "'de' to 'no language' is not supported. Supported: any two of de, en"),
        ({"source": "de", "target": "es"}, "'de' to 'es' is not supported"),
        ({"source": "de", "target": "de"}, "'de' to 'de' is not supported"),
        ({"source": "xx", "target": "en"}, "'xx' to 'en' is not supported"),
    ],
)
def test_other_directions_are_refused(client: Any, sides: Any, words: str) -> None:
    answer = client.post("/v1/translate", json={"text": TEXT, **sides})
    assert answer.status_code == 400 and words in answer.json()["error"]


def test_the_source_language_is_detected(client: Any, model: Path) -> None:
    pytest.importorskip("py3langid", reason="pip install 'seq2seq-attention-zoo[detect]'")
    text = "Der kleine Hund läuft heute schnell über die Straße."
    answer = client.post("/translate", json={"q": text, "source": "auto", "target": "fr"}).json()
    right = Translator.load(model, "cpu", languages=("de", "fr")).translate([text])
    assert answer["detectedLanguage"]["language"] == "de"
    assert [answer["translatedText"]] == right
    answer = client.post("/translate", json={"q": text, "source": "auto", "target": "de"})
    assert answer.status_code == 400 and "seems to be German" in answer.json()["error"]
