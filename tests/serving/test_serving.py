"""The service answers in three protocols as the translator would, and refuses what it cannot do."""

import asyncio
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
pytest.importorskip("prometheus_client")

from helpers.services import client_of, demo_service, later, loadless_twin, metrics_of
from starlette.requests import Request
from starlette.testclient import TestClient

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.cli import serve
from seq2seq.cli.main import parse_arguments
from seq2seq.decoding.native import unavailable_reason
from seq2seq.serving import event_loop, languages, routes, texts, validation
from seq2seq.serving.auth import Access
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.languages import detect
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Service
from seq2seq.serving.texts import split_texts, submit_texts
from seq2seq.serving.validation import FORM, Limits
from seq2seq.translation.request import Translation
from seq2seq.translation.translator import Translator

TEXTS = demo_lines("test", "de", 6)
LIMITS = Limits(queue=200, characters=1000)
POSTS = {
    "/v1/translate": {"text": TEXTS[0]},
    "/v1/alternatives": {"text": TEXTS[0]},
    "/translate": {"q": TEXTS[0], "source": "de", "target": "en"},
    "/detect": {"q": TEXTS[0]},
    "/v2/translate": {"text": [TEXTS[0]], "target_lang": "EN-US"},
}


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, device="cpu")


@pytest.fixture(scope="module")
def service(trained: Path) -> Service:
    return demo_service(trained, LIMITS)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as client:
        assert client.portal
        assert client.get("/health/ready").status_code == 503
        assert ask(client, "/translate").status_code == 503
        client.portal.call(service.load)
        yield client
        client.portal.call(service.drain)
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200


def ask(client: TestClient, path: str, **changed: Any) -> Any:
    entry = {**POSTS[path], **changed}
    return client.post(path, json={name: v for name, v in entry.items() if v is not None})


def test_all_protocols_translate_as_the_translator_does(
    client: TestClient, translator: Translator
) -> None:
    expected = translator.translate(TEXTS)
    assert [ask(client, "/v1/translate", text=text).json()["text"] for text in TEXTS] == expected
    answer = ask(client, "/translate", q=TEXTS, source="auto").json()
    assert answer["translatedText"] == expected
    assert [each["language"] for each in answer["detectedLanguage"]] == ["de"] * len(TEXTS)
    assert ask(client, "/translate").json() == {"translatedText": expected[0]}
    answer = ask(client, "/v2/translate", text=TEXTS, source_lang="DE").json()
    assert [each["text"] for each in answer["translations"]] == expected
    form = urlencode([("text", text) for text in TEXTS] + [("target_lang", "en")])
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/v2/translate", content=form, headers=kind).json()
    assert [each["text"] for each in answer["translations"]] == expected
    form = urlencode({"q": TEXTS[0], "source": "de", "target": "en", "alternatives": "1"})
    answer = client.post("/translate", content=form, headers=kind).json()
    assert answer["translatedText"] == expected[0] and len(answer["alternatives"]) <= 1


@pytest.mark.parametrize("path", POSTS)
def test_a_byte_order_mark_before_a_body_changes_nothing(client: TestClient, path: str) -> None:
    body = json.dumps(POSTS[path]).encode()
    answers = [client.post(path, content=mark + body) for mark in (b"", b"\xef\xbb\xbf")]
    assert answers[0].json() == answers[1].json() and answers[0].status_code == 200


def test_what_is_given_several_times_is_a_list_or_refused(client: TestClient) -> None:
    def post(path: str, *fields: tuple[str, str]) -> Any:
        return client.post(path, content=urlencode(fields), headers={"content-type": FORM})

    pair = ("source", "de"), ("target", "en")
    expected = ask(client, "/translate", q=TEXTS).json()
    assert post("/translate", *(("q", text) for text in TEXTS), *pair).json() == expected
    answer = post("/translate", ("q", TEXTS[0]), *pair, ("target", "fr"))
    assert answer.status_code == 400 and "target is given 2 times" in answer.json()["error"]
    tags = ("text", "<x>Hund</x> <y>Hund</y>"), ("target_lang", "en"), ("tag_handling", "xml")
    answer = post("/v2/translate", *tags, ("ignore_tags", "x"), ("ignore_tags", "y"))
    assert answer.json()["translations"][0]["text"] == "<x>Hund</x> <y>Hund</y>"


def test_many_brackets_are_text_in_a_text_and_too_much_beside_it(client: TestClient) -> None:
    answer = ask(client, "/translate", q="[{" * 400)
    assert answer.json() == {"translatedText": "[{" * 400}
    assert ask(client, "/translate", q=[[]] * 3000).status_code == 413  # more than 50 texts
    limit = validation.MAX_BRACKETS
    with pytest.raises(HTTPError, match="brackets"):
        validation.parse_json("[" + "[]," * limit + "[]]")
    assert validation.parse_json("[" + "[]," * 9 + "[]]") == [[]] * 10


def test_what_is_done_in_threads_is_done_as_in_the_event_loop(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = {"accept": "text/event-stream"}

    def ask_all() -> list[Any]:
        last = client.post("/v1/translate", json=POSTS["/v1/translate"], headers=events)
        return [
            last.text.rpartition("data: ")[2],
            ask(client, "/v1/translate", nbest=3, links=True, glossary=[["Mann", "man"]]).json(),
            ask(client, "/v1/alternatives").json(),
            ask(client, "/translate", q=TEXTS, alternatives=2, source="auto").json(),
            ask(client, "/v2/translate", text=TEXTS, show_billed_characters=True).json(),
            ask(client, "/v1/translate", text="").json(),
            ask(client, "/v1/translate", text="a" * 1001).json(),
        ]

    def refuse(*_: Any) -> None:
        raise AssertionError("a thread")

    with monkeypatch.context() as patch:
        patch.setattr(event_loop.threads, "submit", refuse)
        expected = ask_all()
    monkeypatch.setattr(event_loop, "SMALL", -1)
    assert ask_all() == expected
    with monkeypatch.context() as patch:
        patch.setattr(event_loop.threads, "submit", refuse)
        assert ask(client, "/v1/translate").status_code == 500


def test_ours_tells_all_that_the_model_knows(client: TestClient, translator: Translator) -> None:
    (result,) = translator.stream(TEXTS[:1], translator.search())
    best = result.translations
    answer = ask(client, "/v1/translate", nbest=3, links=True).json()
    (sentence,) = answer["sentences"]
    assert [each["text"] for each in sentence["translations"]] == [t.text for t in best[:3]]
    for found, translation in zip(sentence["translations"], best, strict=False):
        assert found["score"] == pytest.approx(translation.score, abs=1e-4)
        assert found["confidence"] == pytest.approx(translation.confidence, abs=1e-4)
        pieces = "".join(piece for piece, _ in found["tokens"] if piece != "</s>")
        assert pieces.strip() == found["text"].strip()
        for word in found["words"]:
            assert found["text"][word["start"] : word["end"]] == word["text"]
        assert {j for _, j in found["links"]} <= set(range(len(found["words"])))
        assert {i for i, _ in found["links"]} <= set(range(len(sentence["source_words"])))
    assert sentence["translations"][0]["links"]


def test_alternatives_are_those_of_the_translator(
    client: TestClient, translator: Translator
) -> None:
    expected = translator.alternatives(TEXTS[0], "The ", 4)
    (sentence,) = ask(client, "/v1/alternatives", prefix="The ", count=4).json()["sentences"]
    assert [each["text"] for each in sentence["translations"]] == [t.text for t in expected]


def test_what_is_asked_of_a_translation_is_done(client: TestClient) -> None:
    answer = ask(client, "/v1/translate", prefix="We", must_not=["garden"], must=[["bicycle"]])
    (best,) = answer.json()["sentences"][0]["translations"]
    assert best["text"].startswith("We")
    assert "bicycle" in best["text"] or best["unmet"] == ["bicycle"]
    answer = ask(client, "/v1/translate", text="Das {name} schwimmt %s.")
    (best,) = answer.json()["sentences"][0]["translations"]
    assert all(each in best["text"] or each in best["unmet"] for each in ("{name}", "%s"))


def test_events_end_with_the_answer(client: TestClient) -> None:
    plain = ask(client, "/v1/translate").json()
    events = client.post(
        "/v1/translate", json=POSTS["/v1/translate"], headers={"accept": "text/event-stream"}
    )
    assert events.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in events.text.strip().split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in blocks]
    assert names == ["partial"] * (len(names) - 1) + ["done"]
    assert json.loads(blocks[-1][1].removeprefix("data: "))["text"] == plain["text"]


def test_what_is_not_text_stays_as_it_is(client: TestClient) -> None:
    for text in ("", " \n ", "\ufeff"):
        answer = ask(client, "/translate", q=[text, TEXTS[0]])
        assert answer.json()["translatedText"][0] == text
        assert ask(client, "/v1/translate", text=text, links=True).status_code == 200


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"[" * 9000, "application/json", 400),
        (b"\xef\xbb\xbf{", "application/json", 400),
        (b"{}", "application/json", 400),
        (b'{"nonsense": 1}', "application/json", 400),
        (b'{"text": "\xff"}', "application/json", 400),
        (b"%ff=%ff", "application/x-www-form-urlencoded", 400),
        (b"&".join([b"a=b"] * 300), "application/x-www-form-urlencoded", 400),
        (b"text", "multipart/form-data; boundary=x", 415),
        (b" " * (LIMITS.body + 1), "application/json", 413),
    ],
)
def test_a_body_that_is_none_is_refused(
    client: TestClient, path: str, body: bytes, kind: str, code: int
) -> None:
    answer = client.post(path, content=body, headers={"content-type": kind})
    no_form = "form" in kind and path.startswith("/v1")
    in_parts = "multipart" in kind and path in ("/translate", "/detect")
    assert answer.status_code == (415 if no_form else 400 if in_parts else code)
    assert answer.json()["error"] == answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "changed", "code", "message"),
    [
        ("/v1/translate", {"text": 1}, 400, "text should be of type string"),
        ("/v1/translate", {"text": "\ud800"}, 400, "surrogate"),
        ("/v1/translate", {"text": "a" * 1001}, 413, "at most 1,000"),
        ("/v1/translate", {"nbest": 11}, 400, "from 1 to 10"),
        ("/v1/translate", {"nbest": True}, 400, "type integer"),
        ("/v1/translate", {"nbest": 1.5}, 400, "type integer"),
        ("/v1/translate", {"nbest": 4, "beam_size": 2}, 400, "beam_size=4"),
        ("/v1/translate", {"links": "yes"}, 400, "type boolean"),
        ("/v1/translate", {"deadline": 0}, 400, "from 0.1"),
        ("/v1/translate", {"model": "other"}, 400, "Supported: de to en"),
        ("/v1/translate", {"target": "fr"}, 400, "Supported: de to en"),
        ("/v1/translate", {"must": ["a"] * 21}, 413, "at most 20"),
        ("/v1/translate", {"must": [" "]}, 400, "empty"),
        ("/v1/translate", {"must": [["a" * 200] * 6] * 2}, 413, "at most 2,000"),
        ("/v1/translate", {"must_not": ["a" * 200] * 11}, 413, "at most 2,000"),
        ("/v1/translate", {"text": " ", "prefix": "A"}, 400, "one sentence"),
        ("/v1/translate", {"prefix": "a" * 501}, 413, "at most 500"),
        ("/v1/alternatives", {"text": " "}, 400, "sentence"),
        ("/v1/alternatives", {"nbest": 2}, 400, "Supported: text"),
        ("/translate", {"q": None}, 400, "missing"),
        ("/translate", {"q": []}, 400, "empty"),
        ("/translate", {"q": ["a"] * 51}, 413, "at most 50"),
        ("/translate", {"q": ["a", 1]}, 400, "each of q"),
        ("/translate", {"source": "fr"}, 400, "Supported: de to en"),
        ("/translate", {"format": "pdf"}, 400, "text, html"),
        ("/translate", {"alternatives": 10_000}, 400, "from 0 to 10"),
        ("/v2/translate", {"target_lang": "FR"}, 400, "Supported: de to en"),
        ("/v2/translate", {"formality": "more"}, 400, "prefer_more"),
        ("/v2/translate", {"style_id": "x"}, 400, "not supported"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_can(
    client: TestClient, path: str, changed: dict[str, Any], code: int, message: str
) -> None:
    answer = client.post(path, content=json.dumps({**POSTS[path], **changed}).encode())
    if None in changed.values():
        answer = ask(client, path, **changed)
    assert answer.status_code == code
    assert message in answer.json()["error"]


def test_what_is_served_is_what_is_described(client: TestClient) -> None:
    described = yaml.safe_load(client.get("/openapi.yaml").text)
    paths = {(path, method) for path, methods in described["paths"].items() for method in methods}
    served = {(path, name.lower()) for name, each in routes.PATHS.items() for path in each}
    assert paths == served
    for path, method in paths:
        known_codes = described["paths"][path][method]["responses"]
        assert {"200", "201", "204"} & set(known_codes)
    for path in routes.PATHS["GET"]:
        assert client.get(path).status_code == (400 if "{" in path else 200)
    assert client.get("/v2/languages?type=all").status_code == 400
    for method, path in (("GET", "/nothing"), ("POST", "/v2/write/rephrase")):
        answer = client.request(method, path, content=b"x" * 1000)
        assert answer.status_code == 404
        assert path in answer.json()["message"] and "/v2/translate" in answer.json()["message"]
    assert client.get("/translate").status_code == 405


def test_all_that_is_told_of_a_translation_is_described(client: TestClient) -> None:
    described = yaml.safe_load(client.get("/openapi.yaml").text)["components"]["schemas"]
    known = described["Translation"]["properties"]
    every = Translation("a", 0.0, [EOS], (-0.1,), unsatisfied=("b",), shortlist=True)
    told = every.to_json([])
    assert {"unmet", "shortlist"} <= set(told) <= set(known)


def test_requests_beyond_the_queue_and_the_deadline_are_turned_away(
    service: Service, client: TestClient, busy: threading.Event
) -> None:
    model = service.models["demo"]
    late = ask(client, "/v1/translate", deadline=0.1)
    assert late.status_code == 504 and model.backlog.pieces == 0
    answers: list[Any] = []
    threads = [later(lambda: ask(client, "/translate", q=TEXTS), answers)[0] for _ in range(6)]
    accepted = max(1, LIMITS.queue // sum(len(ids) for ids in model.engine.codec.encode(TEXTS)))
    while len(answers) < 6 - accepted:
        time.sleep(0.01)
    assert {answer.status_code for answer in answers} == {429}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    # What is outside of the engine does not wait for it.
    assert client.get("/health/ready").status_code == 200
    metrics = metrics_of(client)
    assert metrics['seq2seq_queue_pieces{model="demo"}'] == model.backlog.pieces > 0
    assert metrics['seq2seq_queue_seconds{model="demo"}'] > 0
    assert 'seq2seq_requests_total{code="504",path="/v1/translate"}' in metrics
    busy.set()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers)[0] == 200
    assert model.backlog.pieces == 0 == model.sentences.active_rows == model.sentences.pages


def test_clients_that_leave_at_any_time_leave_nothing_behind(
    service: Service, client: TestClient
) -> None:
    model = service.models["demo"]

    async def silence() -> Any:
        await asyncio.sleep(600)

    async def leave() -> None:
        answers = []
        for turn in range(60):
            ways = turn % 5 // 4 * 2
            given = TEXTS[: turn % 3 + 1]
            texts = await split_texts(service, given, "de", "en", alternatives=ways)
            request = Request({"type": "http", "state": {"client": "one"}}, silence)
            with suppress(HTTPError):
                for sentence in (each for text in texts for each in text.sentences):
                    sentence.links = turn % 3
                answer = await submit_texts(service, request, texts, len)
                answers.append(asyncio.ensure_future(answer))
            await asyncio.sleep(0.005 * (turn % 4))
            if turn % 7:
                answers[len(answers) // 2].cancel()
        for each in answers:
            with suppress(asyncio.CancelledError):
                await each
        await model.thread.compute(len, "")  # after all that was posted before

    assert client.portal
    client.portal.call(leave)
    assert model.backlog.pieces == 0 == model.sentences.active_rows == model.sentences.pages
    assert not (model.thread._active or model.backlog.requests or model.engine.busy)
    assert not model.thread._results


def test_a_request_that_is_split_while_models_are_loaded_is_answered(
    service: Service, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "SMALL", -1)
    old, go, begun, split = service.models["demo"], threading.Event(), [], texts.split_now

    def split_later(*arguments: Any, **options: Any) -> Any:
        split_now = split(*arguments, **options)
        begun.append(split_now[0].model)
        go.wait()
        return split_now

    monkeypatch.setattr(texts, "split_now", split_later)
    thread, answers = later(lambda: ask(client, "/translate"))
    while not begun:
        time.sleep(0.01)
    assert client.portal
    loading = client.portal.start_task_soon(service.load)
    while service.models["demo"] is old:
        time.sleep(0.01)
    go.set()
    thread.join()
    loading.result()
    assert begun == [old] and answers[0].status_code == 200
    assert not old.thread._thread.is_alive()


def test_with_keys_each_protocol_wants_one_in_its_own_way(service: Service) -> None:
    with client_of(loadless_twin(service, keys=[b"first", b"second"])) as client:
        for path in (*POSTS, "/v1/models", "/v2/usage", "/v2/languages"):
            method = "POST" if path in POSTS else "GET"
            for header in (None, "Bearer ", "Bearer other", "DeepL-Auth-Key fir"):
                headers = {"authorization": header} if header else {}
                answer = client.request(method, path, json=POSTS.get(path), headers=headers)
                assert answer.status_code == 403, path
        assert ask(client, "/detect", api_key="second").status_code == 200
        key = {"authorization": "DeepL-Auth-Key first"}
        assert client.get("/v2/usage", headers=key).status_code == 200
        assert client.get("/frontend/settings").json()["keyRequired"] is True
        assert client.get("/health/live").status_code == 200


def test_pages_elsewhere_may_ask_only_if_they_are_named(service: Service) -> None:
    origin = {"origin": "https://example.org"}
    for origins, allowed in ((), None), (["https://example.org"], "https://example.org"):
        with client_of(service, Access(origins=origins)) as client:
            answer = client.get("/languages", headers=origin)
            assert answer.headers.get("access-control-allow-origin") == allowed
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]


FOREIGN = "Je ne sais pas où il est, et je ne le cherche plus."


def test_languages_are_detected_among_those_that_are_there() -> None:
    pytest.importorskip("py3langid", reason="pip install -e '.[detect]'")
    found = [detect(text, ["de", "fr"]) for text in (TEXTS[0], FOREIGN)]
    assert [each.language for each in found] == ["de", "fr"]
    assert all(0.5 < each.confidence <= 1 for each in found)
    with pytest.raises(ConfigError, match="none of"):
        detect(TEXTS[0], ["xx", "yy"])


def test_a_clear_text_in_another_language_is_no_german_and_a_short_one_may_be() -> None:
    pytest.importorskip("py3langid", reason="pip install -e '.[detect]'")
    german = demo_lines("test", "de", 100)
    fragments = [line.rsplit(" ", n)[-1] for line in german for n in (1, 2, 3)]
    assert {detect(text, ["de"]).language for text in (*german, *fragments)} == {"de"}
    assert {detect(text, ["de"]).language for text in demo_lines("test", "en", 100)} == {"en"}
    for text in ("", " ", "NASA", "ok", "12:45", "😀", "{name} %s", "https://example.com/a/b"):
        assert detect(text, ["de"]).language == "de"
    page = f"<div class='the other things of this page'><b>{TEXTS[0]}</b></div>"
    assert detect(page, ["de"], html=True) == detect(f"  {TEXTS[0]}  ", ["de"])
    # What the detector does not know may be what it is.
    assert detect(FOREIGN, ["de", "xx"]).language == "de"
    assert detect(FOREIGN, ["xx"]) == ("xx", 0.0)


def test_without_a_detector_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "load_detector", lambda: None)
    assert detect(FOREIGN, ["de", "de"]) == ("de", 0.0)
    with pytest.raises(ConfigError, match="pip install"):
        detect(FOREIGN, ["de", "fr"])


def test_a_text_in_no_served_language_is_said_to_be_so(client: TestClient) -> None:
    pytest.importorskip("py3langid", reason="pip install -e '.[detect]'")
    (found,) = ask(client, "/detect", q=FOREIGN).json()
    assert found["language"] == "fr" and found["confidence"] > 50
    for path, changed in (
        ("/translate", {"q": FOREIGN, "source": "auto"}),
        ("/translate", {"q": [FOREIGN, FOREIGN], "source": "auto"}),
        ("/v2/translate", {"text": [FOREIGN]}),
    ):
        answer = ask(client, path, **changed)
        assert answer.status_code == 400
        assert "text 1 seems to be French" in answer.json()["message"]
        assert "Supported: de" in answer.json()["message"]
    assert ask(client, "/v1/translate", text=FOREIGN).status_code == 400
    assert ask(client, "/translate", q=FOREIGN, source="de").status_code == 200
    assert ask(client, "/v2/translate", text=[FOREIGN], source_lang="DE").status_code == 200
    # Who names the model is told, and gets a translation.
    answer = ask(client, "/v1/translate", text=FOREIGN, model="demo").json()
    assert answer["detected"]["name"] == "French" and answer["source"] == "de" and answer["text"]
    assert "detected" not in ask(client, "/v1/translate", text=FOREIGN, source="de").json()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_text_in_no_served_language_is_left_as_it_is_beside_others(
    client: TestClient, place: int
) -> None:
    pytest.importorskip("py3langid", reason="pip install -e '.[detect]'")
    alone = [ask(client, "/translate", q=text).json()["translatedText"] for text in TEXTS[:2]]
    foreign = f"\n{FOREIGN}\t"
    texts, expected = ([*list[:place], foreign, *list[place:]] for list in (TEXTS[:2], alone))
    languages = ["fr" if text is foreign else "de" for text in texts]
    reason = f"text {place + 1} seems to be French"
    answer = ask(client, "/translate", q=texts, source="auto", alternatives=1).json()
    assert answer["translatedText"] == expected and answer["alternatives"][place] == []
    assert [each["language"] for each in answer["detectedLanguage"]] == languages
    assert [(each or "")[: len(reason)] for each in answer["errors"]] == [
        reason if text is foreign else "" for text in texts
    ]
    found = ask(client, "/v2/translate", text=texts, show_billed_characters=True).json()
    assert [each["text"] for each in found["translations"]] == expected
    codes = [each["detected_source_language"] for each in found["translations"]]
    assert codes == [each.upper() for each in languages]
    assert [reason in each.get("message", "") for each in found["translations"]] == [
        text is foreign for text in texts
    ]
    plain = ask(client, "/translate", q=TEXTS[:2], source="auto").json()
    assert "errors" not in plain and plain["translatedText"] == alone


def test_a_word_that_is_copied_is_told_in_every_protocol(client: TestClient) -> None:
    word = "aB3" * 200
    text = f"{TEXTS[0]}\nEin Hund läuft zu {word} hin."
    own = ask(client, "/v1/translate", text=text).json()
    (problem,) = own["problems"]
    assert problem.startswith("sentence 2 ") and word in own["text"]
    assert ask(client, "/translate", q=text).json()["errors"] == problem
    answer = ask(client, "/translate", q=[TEXTS[0], text]).json()
    assert answer["errors"] == [None, problem]
    first, second = ask(client, "/v2/translate", text=[TEXTS[0], text]).json()["translations"]
    assert "message" not in first and second["message"] == problem
    assert "problems" not in ask(client, "/v1/translate", text=TEXTS[0]).json()


def test_deepls_own_arguments_do_not_stop_a_client(client: TestClient) -> None:
    known = yaml.safe_load(client.get("/openapi.yaml").text)["x-arguments"]
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in known)
    for name in (*known, "auth_key"):
        for path, code in (("/v2/languages", 200), ("/v3/glossaries/x/entries", 400)):
            query = (
                {"type": "target"} if code == 200 else {"source_lang": "de", "target_lang": "en"}
            )
            answer = client.get(path, params={name: "1", **query})
            assert answer.status_code == code and "not supported" not in answer.text, name
    # As Weblate asks.
    for side, language in (("source", "DE"), ("target", "EN")):
        answer = client.get("/v2/languages", params={"enable_beta_languages": "1", "type": side})
        assert [each["language"] for each in answer.json()] == [language]
    assert client.get("/v2/languages?nonsense=1").status_code == 400
    # A wish for another translation is not ignored.
    form = urlencode({"text": TEXTS[0], "target_lang": "en"})
    for name, code in (("style_id", 400), ("enable_beta_languages", 200), ("context", 200)):
        kind = {"content-type": FORM}
        answer = client.post("/v2/translate", params={name: "1"}, content=form, headers=kind)
        assert answer.status_code == code, name


def test_the_server_says_what_computes(
    trained: Path,
    translator: Translator,
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
) -> None:
    (model,) = client.get("/v1/models").json()["models"]
    assert model["decoder"] == ("torch" if unavailable_reason() else "c") and model["reason"] == (
        unavailable_reason() or ""
    )
    assert model["precision"] == "float32" and model["threads"] >= 1
    assert model["beam_size"] == translator.search().beams
    lines = client.get("/metrics").text.splitlines()
    (line,) = [line for line in lines if line.startswith("seq2seq_model_info{")]
    for name in ("precision", "beam_size", "threads", "decoder"):
        assert f'{name}="{model[name]}"' in line
    assert line.endswith(" 1.0")
    monkeypatch.setenv("SEQ2SEQ_NATIVE", "0")
    build = partial(ModelWorker, "slow", trained, "cpu", {"beam_size": 1}, {"precision": "int8"})
    slow = Service({"slow": build})
    caplog.set_level(logging.INFO, logger="seq2seq.serving")
    assert client.portal
    client.portal.call(slow.load)
    assert re.search(
        r"ready: slow \(de-en\), int8, 1 beam, \d+ threads?, decoded in torch: SEQ2SEQ_NATIVE=0",
        caplog.text,
    )
    client.portal.call(slow.drain)


def test_the_command_says_what_it_loads_before_it_does(
    trained: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, logger="seq2seq.serving")
    # Without it the command ends where the slow imports begin.
    monkeypatch.setitem(sys.modules, "seq2seq.serving.model_worker", None)
    with pytest.raises(ModuleNotFoundError):
        serve.run(parse_arguments(["serve", "--model", f"own={trained}"]))
    (line,) = caplog.messages
    assert line.startswith("loading torch") and f"own from {trained}" in line


@pytest.mark.parametrize(("path", "method"), [("/v2/languages", "GET"), ("/v2/languages", "POST")])
def test_the_side_of_deepls_languages_may_be_in_a_form(
    client: TestClient, path: str, method: str
) -> None:
    def codes(query: str = "", form: bytes = b"", kind: str = FORM) -> list[str]:
        headers = {"content-type": kind} if kind else {}
        answer = client.request(method, path + query, content=form, headers=headers)
        assert answer.status_code == 200, answer.text
        return [each["language"] for each in answer.json()]

    # As deepl.DeepLClient(...).get_target_languages() sends it, and .get_source_languages().
    assert codes(form=b"type=target") == ["EN"] and codes(kind="") == ["DE"]
    assert codes(form=b"type=target", kind=f"{FORM}; charset=utf-8") == ["EN"]
    assert codes("?type=target") == ["EN"] and codes("?type=source") == ["DE"]
    assert codes(form=b'{"type": "target"}', kind="application/json") == ["EN"]
    assert codes(kind="application/json") == ["DE"]
    for form, code in ((b"type=all", 400), (b"side=target", 400), (b"a" * (LIMITS.body + 1), 413)):
        answer = client.request(method, path, content=form, headers={"content-type": FORM})
        assert answer.status_code == code and answer.json()["message"]
