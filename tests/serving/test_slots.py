"""A service whose sentences have slots, as on a GPU, answers like one with pages."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
pytest.importorskip("prometheus_client")

from helpers.services import loaded_client
from helpers.tiny_runs import save_model

from seq2seq.decoding import Engine
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Service
from seq2seq.serving.storage import Storage

TEXTS = ["a b", "b", "c a b c", "b b a", "a"] * 3


def answers(folder: Path, cache: str) -> tuple[list[Any], Engine]:
    """The answers of a service to clients who ask at once, and its engine."""
    # torch decodes bfloat16: the native decoder has steps of its own.
    engine = {"cache": cache, "precision": "bfloat16"}
    build = partial(ModelWorker, "m", folder / "model.ckpt", "cpu", {"beam_size": 3}, engine)
    service = Service({"m": build}, storage=Storage(folder / cache))
    with loaded_client(service) as client, ThreadPoolExecutor(5) as pool:
        asked = [{"text": text, "beam_size": 1 + i % 3} for i, text in enumerate(TEXTS)]
        answered = list(pool.map(lambda body: client.post("/v1/translate", json=body), asked))
        sentences = service.models["m"].sentences
    assert isinstance(sentences, Engine)
    assert all(answer.status_code == 200 for answer in answered)
    return [answer.json()["text"] for answer in answered], sentences


def test_a_service_with_slots_answers_like_one_with_pages(tmp_path: Path) -> None:
    save_model(tmp_path / "model.ckpt")
    paged, _ = answers(tmp_path, "paged")
    static, engine = answers(tmp_path, "static")
    assert static == paged
    assert engine.slots is not None and engine._slot_batches and not engine.busy
