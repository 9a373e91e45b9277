"""Long texts, slow links, errors in odd places, loads that fail: others go on, and are told."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
pytest.importorskip("prometheus_client")

from helpers.services import client_of, demo_service, later, loadless_twin
from starlette.testclient import TestClient

from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.serving import routes
from seq2seq.serving.model_worker import MAX_PADDED, ModelWorker
from seq2seq.serving.queue import Speed
from seq2seq.serving.service import Service
from seq2seq.serving.validation import Limits

TEXTS = demo_lines("test", "de", 20)
BOOK = " ".join(TEXTS * 20)  # 400 sentences
LIMITS = Limits(queue=1536, characters=40_000)


@pytest.fixture(scope="module")
def service(trained: Path) -> Service:
    return demo_service(trained, LIMITS)


@pytest.fixture
def model(service: Service, client: TestClient) -> ModelWorker:
    """The model, whose speed is not known: no deadline is too short."""
    model = service.models["demo"]
    model.queue.speed = Speed(time.monotonic)
    return model


def ask(client: TestClient, **entry: Any) -> Any:
    return client.post("/v1/translate", json={"text": TEXTS[0], **entry})


def wait_for(condition: Callable[[], Any]) -> None:
    for _ in range(30_000):
        if condition():
            return
        time.sleep(0.002)
    raise AssertionError("waited in vain")


@pytest.mark.parametrize("whole", [True, False])
def test_a_book_is_translated_while_others_are_and_holds_nobody_up(
    client: TestClient,
    model: ModelWorker,
    busy: threading.Event,
    whole: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """400 sentences, or one sentence of as many parts, in any protocol's way."""
    text = BOOK if not whole else BOOK.replace(".", "").replace("?", "").replace("!", "")
    assert sum(map(len, model.engine.codec.encode([text]))) > LIMITS.queue
    order: list[str] = []

    def long() -> Any:
        answer = ask(client, text=text, split=not whole, deadline=600)
        order.append("long")
        return answer

    other, others = later(lambda: ask(client, text=TEXTS[1]))
    wait_for(lambda: model.backlog.pieces)
    (host,) = model.backlog.pieces_by_client()
    # The book is of another client, who is not refused although somebody else waits.
    monkeypatch.setattr(routes, "authorize", lambda *_: "reader")
    reading, read = later(long)
    wait_for(lambda: len(model.backlog.requests) == 2)
    monkeypatch.undo()
    assert model.backlog.pieces_by_client().keys() == {host, "reader"}
    busy.set()
    wait_for(lambda: others)
    for place in range(3):
        assert ask(client, text=TEXTS[2 + place]).status_code == 200
        order.append("short")
    for thread in (reading, other):
        thread.join()
    assert order == ["short"] * 3 + ["long"]
    assert read[0].status_code == others[0].status_code == 200
    if not whole:
        answers = read[0].json()["sentences"]  # where sentences end depends on sentencex
        sources = [each["source"] for each in answers]
        assert " ".join(sources) == text
        alone = {each: ask(client, text=each, split=False).json() for each in set(sources)}
        expected = [alone[each]["sentences"][0]["translations"][0] for each in sources]
        best = [each["translations"][0] for each in answers]
        assert [each["text"] for each in best] == [each["text"] for each in expected]
        # torch, unlike the native decoder, rounds otherwise in a batch with others.
        scores = [each["score"] for each in expected]
        assert [each["score"] for each in best] == pytest.approx(scores, rel=1e-4)
    assert model.backlog.pieces == 0 == model.sentences.active_rows == model.sentences.pages


def test_what_cannot_be_done_in_time_is_refused_before_the_work(
    client: TestClient, model: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = model.queue.speed
    beams = model.search.beams
    monkeypatch.setattr(speed, "pieces_per_second", lambda: 10.0 * beams)  # ten pieces a second
    steps = model.sentences.stats.steps
    late = ask(client, text=BOOK)
    assert late.status_code == 429 and model.sentences.stats.steps == steps
    pieces = sum(map(len, model.engine.codec.encode(TEXTS))) * 20
    assert f"about {pieces / 10:.0f} seconds" in late.json()["error"]
    assert "smaller parts" in late.json()["error"]
    assert abs(int(late.headers["retry-after"]) - (pieces / 10 - 30)) <= 1
    assert ask(client, deadline=0.9).status_code == 200  # alone, and small


def test_links_are_made_between_steps_counted_and_ended(
    client: TestClient, model: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    alignments = model.translator.alignments
    sizes: list[int] = []
    held, steps = threading.Event(), []

    def watched(pairs: Any, **options: Any) -> Any:
        padded = max(len(ids) for pair in pairs for ids in model.engine.codec.encode(pair)) * len(
            pairs
        )
        sizes.append(padded if len(pairs) > 1 else 0)
        steps.append(model.sentences.stats.steps)
        held.wait(0.05)
        return alignments(pairs, **options)

    monkeypatch.setattr(model.translator, "alignments", watched)
    text = " ".join(TEXTS * 2)
    linking, linked = later(lambda: ask(client, text=text, nbest=2, links=True))
    wait_for(lambda: sizes)
    pieces = sum(map(len, model.engine.codec.encode(TEXTS))) * 2
    assert pieces < model.backlog.pieces < pieces * 4  # what is not linked yet still counts
    assert ask(client).status_code == 200 and not linked  # the next one need not wait
    held.set()
    linking.join()
    assert linked[0].status_code == 200 and model.backlog.pieces == 0
    # The target's pieces are counted as generated; encoded again, they can be a few more.
    assert len(sizes) > 5 and max(sizes) <= 2 * MAX_PADDED
    assert len(set(steps)) > 1
    monkeypatch.setattr(model.translator, "alignments", alignments)
    again = ask(client, text=text, nbest=2, links=True).json()
    assert linked[0].json() == again
    assert all(t["words"] for s in again["sentences"] for t in s["translations"])

    def slow(pairs: Any, **options: Any) -> Any:
        sizes.append(1)
        time.sleep(0.1)
        return alignments(pairs)

    sizes.clear()
    monkeypatch.setattr(model.translator, "alignments", slow)
    late = ask(client, text=text, nbest=2, links=True, deadline=0.5)
    assert late.status_code == 504 and model.backlog.pieces == 0
    count = len(sizes)
    assert ask(client).status_code == 200
    assert len(sizes) <= count + 1


def test_an_error_of_a_call_or_a_slice_belongs_to_its_request(
    client: TestClient, model: ModelWorker, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"cannot do {TEXTS[0]}")

    for owner, name in (
        (model.sentences, "_step"),
        (model.engine, "submit"),
        (model.translator, "alignments"),
    ):
        caplog.clear()
        monkeypatch.setattr(owner, name, fail)
        answer = ask(client, links=True)
        assert answer.status_code == 500 and "log" in answer.json()["error"], name
        assert "RuntimeError" in caplog.text and TEXTS[0] not in caplog.text
        monkeypatch.undo()
        assert ask(client, links=True).status_code == 200
        assert model.backlog.pieces == 0 == model.sentences.active_rows == model.sentences.pages

    # Dropping what nobody waits for can fail, too.
    caplog.clear()
    failed = threading.Event()

    def cancel(*_: Any) -> None:
        if not failed.is_set():
            failed.set()
            fail()

    monkeypatch.setattr(model.engine, "cancel", cancel)
    assert ask(client, text=BOOK, deadline=0.1).status_code == 504
    assert failed.wait(60)
    monkeypatch.undo()
    assert ask(client).status_code == 200
    assert "RuntimeError" in caplog.text and TEXTS[0] not in caplog.text
    assert client.get("/health/ready").status_code == 200


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, MemoryError])
def test_an_engine_that_has_ended_is_seen_and_a_load_replaces_it(
    client: TestClient,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
    kind: type[BaseException],
) -> None:
    model = service.models["demo"]

    def fail(*_: Any) -> None:
        raise kind

    monkeypatch.setattr(model.engine, "advance", fail)
    if kind is MemoryError:  # of the handler, too
        monkeypatch.setattr(model.thread, "_fail", fail)
    answers = [later(lambda: ask(client)) for _ in range(3)]
    for thread, _ in answers:
        thread.join()
    assert {answer.status_code for _, (answer,) in answers} == {503}
    assert "'demo' has stopped" in answers[0][1][0].json()["error"]
    assert model.backlog.pieces == 0 and not model.thread._thread.is_alive()
    ready = client.get("/health/ready")
    assert ready.status_code == 503 and "'demo'" in ready.json()["error"]
    assert ask(client).status_code == 503
    assert client.get("/health/live").status_code == 200
    assert 'seq2seq_alive{model="demo"} 0.0' in client.get("/metrics").text
    assert kind.__name__ in caplog.text
    assert client.portal
    client.portal.call(service.load)
    assert client.get("/health/ready").status_code == 200 == ask(client).status_code
    assert 'seq2seq_alive{model="demo"} 1.0' in client.get("/metrics").text


def test_an_engine_that_ends_while_words_are_linked_is_told(
    client: TestClient, service: Service, model: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(model.translator, "alignments", fail)
    answer = ask(client, links=True)
    assert answer.status_code == 503 and "'demo' has stopped" in answer.json()["error"]
    assert model.backlog.pieces == 0
    assert client.portal
    client.portal.call(service.load)
    assert ask(client, links=True).status_code == 200


def test_a_book_is_seen_while_it_is_translated(client: TestClient, model: ModelWorker) -> None:
    headers = {"accept": "text/event-stream"}
    entry = {"text": BOOK, "deadline": 600}
    events = client.post("/v1/translate", json=entry, headers=headers).text.split("\n\n")
    names = [event.partition("\n")[0] for event in events[:-1]]
    assert names[0] == "event: partial" and names[-1] == "event: done"


def test_a_load_that_fails_closes_what_it_has_built(
    client: TestClient, service: Service, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[ModelWorker] = []
    closed: list[Any] = []

    def build() -> ModelWorker:
        built.append(ModelWorker("demo", trained, "cpu", {}, {}))
        engine: Any = built[-1].sentences
        engine.close = lambda: closed.append(engine)
        return built[-1]

    def fail(*_: Any) -> ModelWorker:
        raise ConfigError("damaged")

    before = dict(service.models)
    monkeypatch.setattr(service, "builders", {"demo": build, "other": build, "broken": fail})
    assert client.portal
    with pytest.raises(Seq2SeqError, match="damaged"):
        client.portal.call(service.load)
    assert len(built) == 2 and closed == [model.sentences for model in built]
    assert service.models == before and ask(client).status_code == 200
    # One that fails halfway closes its own.
    from seq2seq.decoding.engine import Engine

    monkeypatch.setattr(Engine, "close", lambda engine: closed.append(engine))
    monkeypatch.setattr(ModelWorker, "_warm_up", fail)
    with pytest.raises(Seq2SeqError, match="damaged"):
        ModelWorker("demo", trained, "cpu", {}, {})
    assert len(closed) == 3


def test_a_load_reads_the_keys_again_and_keeps_them_if_it_cannot(
    client: TestClient, service: Service, tmp_path: Path, caplog: Any
) -> None:
    from seq2seq.serving.auth import read_keys

    file = tmp_path / "keys"
    file.write_bytes(b"first\r\n\n\t second  third\n")
    assert read_keys(file) == [b"first", b"second", b"third"]
    guarded = loadless_twin(service, keys=read_keys(file), keys_file=file)

    def codes(*keys: str) -> list[int]:
        headers = [{"authorization": f"Bearer {key}"} for key in keys]
        client = client_of(guarded)
        return [client.get("/v1/models", headers=each).status_code for each in headers]

    def load() -> None:
        with pytest.raises(Seq2SeqError):
            client.portal.call(guarded.load)  # type: ignore[union-attr]

    def fail() -> ModelWorker:
        raise ConfigError("damaged")

    guarded.builders = {"broken": fail}  # keys count even if no model can be loaded
    assert codes("first", "other") == [200, 403]
    file.write_bytes(b"\xef\xbb\xbfother\n")
    load()
    assert codes("first", "other") == [403, 200]
    for change in (lambda: file.write_bytes(b" \n"), file.unlink, file.mkdir):
        caplog.clear()
        change()  # type: ignore[operator]
        load()
        assert codes("first", "other", "") == [403, 200, 403]
        assert "cannot read the keys again" in caplog.text
