"""Which model answers for which variant of a language."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
pytest.importorskip("prometheus_client")

import torch
from helpers.services import loaded_client
from helpers.tiny_runs import save_model
from starlette.testclient import TestClient

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.serving.languages import detect, english_name
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Service
from seq2seq.serving.storage import Storage

MODELS = {  # by name: data.source and data.target
    "portugal": ("eng_Latn", "pt_PT"),
    "brazil": ("en", "pt-BR"),
    "simplified": ("zho_Hans", "eng_Latn"),
    "british": ("de", "en_GB"),
    "norwegian": ("no", "de"),
    "letters": ("letters", "phones"),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("variants")
    save_model(folder / "model.ckpt")
    builders = {}
    for name, (source, target) in MODELS.items():
        saved = torch.load(folder / "model.ckpt", weights_only=True)
        saved[checkpoint.ENTRY]["config"]["data"] |= {"source": source, "target": target}
        torch.save(saved, folder / f"{name}.ckpt")
        path = folder / f"{name}.ckpt"
        builders[name] = lambda name=name, path=path: ModelWorker(name, path, "cpu", {}, {})
    pytest.importorskip("py3langid", reason="pip install -e '.[detect]'")
    service = Service(builders, storage=Storage(folder / "kept"))
    with loaded_client(service) as client:
        yield client


def translate(client: TestClient, source: str, target: str, text: str = "a") -> Any:
    return client.post("/v1/translate", json={"text": text, "source": source, "target": target})


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("en", "pt-BR", "brazil"),
        ("EN", "pb", "brazil"),
        ("eng", "pt_br", "brazil"),
        ("en-GB", "pt-PT", "portugal"),
        ("eng_Latn", "por", "portugal"),  # the first
        ("en", "pt-AO", "portugal"),
        ("zh", "en", "simplified"),
        ("zh-CN", "EN-US", "simplified"),
        ("cmn_Hans", "eng", "simplified"),
        ("DE", "EN-US", "british"),
        ("nb", "deu", "norwegian"),
        ("nor", "de-AT", "norwegian"),
        ("Letters", "phones", "letters"),
    ],
)
def test_the_same_variant_answers_first_and_then_the_language(
    client: TestClient, source: str, target: str, name: str
) -> None:
    answer = translate(client, source, target)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == name
    (model,) = [m for m in client.get("/v1/models").json()["models"] if m["name"] == name]
    assert (answer.json()["source"], answer.json()["target"]) == (model["source"], model["target"])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("zh-Hant", "en"),
        ("zh-TW", "en"),
        ("zt", "en"),
        ("zho_Hant", "en"),
        ("yue", "en"),
        ("nn", "de"),
        ("pt", "en"),
        ("en", "auto"),
        ("xx_nonsense", "en"),
        ("", "en"),
        ("en-Cyrl", "pt"),
    ],
)
def test_another_script_or_language_is_refused_with_what_there_is(
    client: TestClient, source: str, target: str
) -> None:
    answers = [
        translate(client, source, target),
        client.post("/translate", json={"q": "a", "source": source, "target": target}),
        client.post(
            "/v2/translate", json={"text": ["a"], "source_lang": source, "target_lang": target}
        ),
    ]
    for answer in answers:
        assert answer.status_code == 400
        assert "zh-Hans to en (simplified)" in answer.text and "en to pt-BR (brazil)" in answer.text


def test_what_is_listed_may_be_sent(client: TestClient) -> None:
    listed = {each["code"]: each for each in client.get("/languages").json()}
    assert list(listed) == ["en", "zh-Hans", "de", "nb", "letters"]
    assert listed["zh-Hans"]["name"] == "Chinese (simplified)"
    assert listed["en"]["targets"] == ["pt-PT", "pt-BR"]
    for source, each in listed.items():
        for target in each["targets"]:
            entry = {"q": "a", "source": source, "target": target}
            assert client.post("/translate", json=entry).status_code == 200
    sources, targets = (
        [each["language"] for each in client.get(f"/v2/languages?type={side}").json()]
        for side in ("source", "target")
    )
    assert sources == ["EN", "ZH-HANS", "DE", "NB", "LETTERS"]
    assert targets == ["PT-PT", "PT-BR", "EN", "EN-GB", "DE", "PHONES"]
    for source, target in (("ZH-HANS", "EN"), ("EN", "PT-BR"), ("DE", "EN-GB")):
        entry = {"text": ["a"], "source_lang": source, "target_lang": target}
        (answer,) = client.post("/v2/translate", json=entry).json()["translations"]
        assert answer["detected_source_language"] == source


def test_a_variant_that_answers_for_another_is_in_the_log_once(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "seq2seq.serving"):
        for _ in range(2):
            assert translate(client, "en", "pt-MZ").status_code == 200
            assert translate(client, "en", "pt-PT").status_code == 200
    lines = [each.getMessage() for each in caplog.records if "is answered" in each.getMessage()]
    assert lines == ["pt-MZ is answered by the model for pt-PT"]


def test_glossaries_are_for_languages_whatever_their_variant(client: TestClient) -> None:
    pairs = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert {"source_lang": "zh", "target_lang": "en"} in pairs
    assert {"source_lang": "en", "target_lang": "pt"} in pairs
    entry = {"name": "x", "entries": "a\tb", "entries_format": "tsv"}
    languages = {"source_lang": "EN", "target_lang": "PT-BR"}
    made = client.post("/v2/glossaries", json=entry | languages)
    assert made.status_code == 201, made.text
    assert (made.json()["source_lang"], made.json()["target_lang"]) == ("en", "pt")
    used = {"text": ["a"], "glossary_id": made.json()["glossary_id"]}
    for target in ("pt", "PT-BR", "pt_PT"):
        answer = client.post(
            "/v2/translate", json={**used, "source_lang": "EN-US", "target_lang": target}
        )
        assert answer.status_code == 200, answer.text
    refused = client.post(
        "/v2/glossaries", json=entry | {"source_lang": "ZH-HANT", "target_lang": "EN"}
    )
    assert refused.status_code == 400 and "zh-Hans to en" in refused.text


TRADITIONAL, SIMPLIFIED = (
    "我們今天去公園看花，那裡的風景很美。",
    "我们今天去公园看花，那里的风景很美。",
)

CYRILLIC = "Ово је моја кућа и волим да читам књиге сваког дана у парку поред реке."
LATIN = "Ovo je moja kuća i volim da čitam knjige svakog dana u parku pored reke. Juče smo išli."


@pytest.mark.parametrize(
    ("text", "candidates", "found"),
    [
        (TRADITIONAL, ["zh-Hans"], "zh-Hant"),
        (SIMPLIFIED, ["zh-Hant"], "zh-Hans"),
        (TRADITIONAL, ["zh-Hans", "zh-TW"], "zh-TW"),
        (SIMPLIFIED, ["zh-Hant", "zh"], "zh"),
        ("中文", ["zh-Hant", "zh"], "zh-Hant"),  # both write it so: the first
        (TRADITIONAL, ["de", "en"], "zh-Hant"),
        ("Jeg vet ikke hva dette er, men det er norsk.", ["nb", "de"], "nb"),
        ("Ein Hund läuft durch den Garten.", ["de-AT", "pt-BR"], "de-AT"),
        (CYRILLIC, ["sr-Latn"], "sr"),
        (CYRILLIC, ["sr-Latn", "sr"], "sr"),
        (LATIN, ["sr", "sr-Latn"], "sr-Latn"),
        (LATIN, ["sr-Cyrl"], "sr-Latn"),
        (LATIN, ["sr"], "sr"),  # which is written so, too
        ("1, 2, 3: 4 + 5 = 9.", ["sr-Latn"], "sr-Latn"),
    ],
)
def test_a_detected_language_is_that_of_a_model_in_its_script(
    text: str, candidates: list[str], found: str
) -> None:
    pytest.importorskip("py3langid", reason="pip install -e '.[detect]'")
    assert detect(text, candidates).language == found


def test_a_text_in_the_other_script_is_not_translated(client: TestClient) -> None:
    answer = translate(client, "auto", "en", TRADITIONAL)
    assert answer.status_code == 400 and "Chinese (traditional)" in answer.text
    assert translate(client, "auto", "en", SIMPLIFIED).json()["model"] == "simplified"


def test_variants_have_names() -> None:
    names = {"zh-Hant": "Chinese (traditional)", "pt_br": "Portuguese (BR)", "deu": "German"}
    assert {code: english_name(code) for code in names} == names
    assert english_name("letters") == "letters"


def test_a_language_that_no_detector_knows_must_be_named() -> None:
    with pytest.raises(ConfigError):
        detect("a", ["letters", "phones"])
