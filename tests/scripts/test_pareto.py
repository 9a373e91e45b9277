"""scripts/pareto.py: quality against speed, size and latency."""

import json
import sys
from pathlib import Path

import pareto
import pytest
from helpers.tiny_runs import TINY_MODEL, demo_lines, save_model

from seq2seq.translation.translator import Translator

WIDE = ("model.dim=64", "model.ffn_dim=128")


def test_ways_are_read_as_they_are_typed() -> None:
    assert pareto.Way.parse("int8-1-shortlist") == pareto.Way("int8", 1, shortlist=True)
    assert pareto.Way.parse("float32-5") == pareto.Way("float32", 5, shortlist=False)
    for other in ("int8", "int8-x", "int4-1", "int8-1-lists"):
        with pytest.raises(ValueError, match="^int"):
            pareto.Way.parse(other)


def test_each_way_of_a_run_is_a_row_and_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a shortlist there is no way with one, and without CTranslate2 ours are alone."""
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, *WIDE)
    for side in ("de", "en"):
        lines = demo_lines("test", side, 12)
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    files = [str(tmp_path / name) for name in ("a.ckpt", "de", "en")]
    typed = ["pareto.py", *files, "--rounds", "1", "--anyway", "--output", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", typed)
    pareto.main()
    points = json.loads((tmp_path / "out" / "pareto.json").read_text())
    expected = ["float32, beam 5", "float32, greedy", "int8, greedy"]
    assert [(point["engine"], point["way"]) for point in points] == [("ours", w) for w in expected]
    assert points[2]["megabytes"] < 0.5 * points[0]["megabytes"] == 0.5 * points[1]["megabytes"]
    assert all(point["milliseconds"] > 0 and point["rates"][0] > 0 for point in points)
    assert (tmp_path / "out" / "pareto.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "pareto.md").read_text().count("| ours |") == 3


def test_a_way_translates_as_the_model_does(tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, *WIDE)
    translator, sources = Translator.load(tmp_path / "a.ckpt"), demo_lines("test", "de", 12)
    ways = [pareto.Way.parse(text) for text in ("float32-1", "int8-1", "float32-3")]
    run = pareto.Run(tmp_path / "a.ckpt", ways, sources)
    for way, (_, translate) in zip(ways, run.ours(tmp_path), strict=True):
        limits = {"length_ratio": 0.0, "length_extra": run.limit, "precision": way.precision}
        beams = {"name": "greedy"}
        if way.beams > 1:
            beams = {"name": "beam", "beam_size": 3, "length_penalty": 1.0}
        expected = translator.translate(sources, **limits, **beams)
        assert run.saved.target.decode_batch(translate(run.rows)) == expected
