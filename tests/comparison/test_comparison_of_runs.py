"""The comparison of a sweep: the runs it reads, its warnings, tables and pictures."""

import csv
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import compare_attention
import pytest
from comparison import speed
from comparison.memory import Remembered, measure_memory
from comparison.picture import bounds
from comparison.rows import Mean, Row, markdown, size
from comparison.runs import group_runs, in_order, incomparable, read_runs
from comparison.speed import Candidate, Material, Speeds
from helpers.builders import small_model
from helpers.tiny_runs import corpus, metrics, train_command

from seq2seq.base.errors import DataError

pytestmark = pytest.mark.slow  # a sweep of four runs

SMOKE = ("trainer=smoke", "decode=greedy", "attn=mha,fixed", "seed=1,2")


@cache
def sweep(base: Path) -> Path:
    """A sweep of two presets and two seeds, as typed."""
    folder = base / "sweep of two"
    command = [o for o in train_command(base, folder, *SMOKE) if not o.startswith("hydra.run.dir")]
    command.remove("trainer=cpu")
    command.remove("decode.beam_size=3")
    ended = subprocess.run(
        [*command, f'hydra.sweep.dir="{folder}"', "-m"], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "sweep of 4 jobs" in ended.stdout
    return folder


@pytest.fixture
def swept(base: Path, tmp_path: Path) -> Path:
    """A copy of the sweep that a test may damage."""
    copy = tmp_path / "sweep"
    shutil.copytree(sweep(base), copy)
    return copy


def run_script(monkeypatch: pytest.MonkeyPatch, *typed: object) -> None:
    monkeypatch.setattr(sys, "argv", ["x", *map(str, typed)])
    compare_attention.main()


def test_a_sweep_becomes_a_table_and_a_picture(
    swept: Path, monkeypatch: pytest.MonkeyPatch, base: Path
) -> None:
    valid = corpus(base) / "valid"
    test = (valid.with_suffix(".de"), valid.with_suffix(".en"))
    run_script(monkeypatch, swept, "--no-speed", "--test", *test)
    with (swept / "comparison.csv").open(encoding="utf-8") as file:
        mha, fixed = csv.DictReader(file)
    assert (mha["attn"], mha["roles"], mha["seeds"]) == ("mha", "mha", "2")
    assert fixed["roles"] == "encoder mha, decoder mha, cross fixed"
    best = [
        json.loads((folder / "result.json").read_text(encoding="utf-8"))["value"]
        for folder in sorted(swept.glob("*-tiny-*"))
    ]
    assert float(mha["valid_bleu"]) == pytest.approx((best[0] + best[1]) / 2)
    assert float(fixed["valid_bleu"]) == pytest.approx((best[2] + best[3]) / 2)
    assert float(mha["test_bleu"]) >= 0 and not mha["training_tokens_per_second"]
    # Two layers of 32 keys and 32 values of 4 bytes; `fixed` keeps one vector of 32 a layer.
    assert float(mha["bytes_per_target_token"]) == float(mha["bytes_per_source_token"]) == 512
    assert (float(fixed["bytes_per_source_token"]), float(fixed["bytes_of_source_fixed"])) == (
        *(0, 256),
    )
    text = (swept / "comparison.md").read_text(encoding="utf-8")
    assert "| mha (2 seeds) | mha |" in text and "not comparable" not in text
    assert (swept / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert "mha (2 seeds)" in (swept / "comparison.html").read_text(encoding="utf-8")


def test_the_loss_belongs_to_the_weights_that_were_kept(swept: Path) -> None:
    runs, _ = read_runs([swept])
    for run in runs:
        bleu, loss = metrics(run.folder, "valid/bleu"), metrics(run.folder, "valid/loss")
        assert run.bleu == max(bleu)
        assert run.loss == loss[bleu.index(max(bleu))]


def test_unfinished_runs_are_named_and_left_out(swept: Path) -> None:
    (swept / "3-tiny-seed2" / "result.json").unlink()
    (swept / "2-tiny-seed1" / "best.ckpt").unlink()
    runs, skipped = read_runs([swept])
    assert [run.folder.name for run in runs] == ["0-tiny-seed1", "1-tiny-seed2"]
    assert len(skipped) == 2
    assert "2-tiny-seed1 is left out: it has no best.ckpt" in skipped[0]
    assert "3-tiny-seed2 is left out: it has no result.json" in skipped[1]


def test_a_folder_without_runs_is_refused_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="python train.py -m attn=mha,gqa hydra.sweep.dir="):
        read_runs([tmp_path])
    with pytest.raises(SystemExit, match="there is no folder"):
        read_runs([tmp_path / "nowhere"])


def test_a_run_without_metrics_is_refused(swept: Path) -> None:
    (swept / "0-tiny-seed1" / "metrics.csv").unlink()
    with pytest.raises(DataError, match="without logger=none"):
        read_runs([swept])


def test_seeds_share_a_row_and_different_budgets_give_warnings(swept: Path) -> None:
    runs, _ = read_runs([swept])
    assert [(g.name, len(g.runs)) for g in group_runs(runs)] == [("mha", 2), ("fixed", 2)]
    assert incomparable(runs) == []
    runs[1].saved.config["update"]["optimizer"]["lr"] = 1.0
    longer = [*runs[:3], runs[3]._replace(steps=9)]
    warnings = "\n".join(incomparable(longer))
    assert "update.optimizer.lr" in warnings and "steps is 4 in" in warnings and "9 in" in warnings


def test_options_typed_for_one_mechanism_only_are_in_its_name(swept: Path) -> None:
    runs, _ = read_runs([swept])
    other = runs[1]._replace(typed=[*runs[1].typed, "attn.dropout=0.1", "validation.sentences=9"])
    groups = group_runs([runs[0], other, runs[2]])
    assert [g.name for g in groups] == [
        *("mha", "mha attn.dropout=0.1 validation.sentences=9", "fixed"),
    ]
    (warning,) = incomparable([runs[0], other])
    assert warning.startswith("not comparable: validation.sentences=9 was typed for")


def test_the_reference_comes_first_and_the_best_follow(swept: Path) -> None:
    runs, _ = read_runs([swept])
    groups = group_runs([runs[0]._replace(bleu=10.0), runs[2]._replace(bleu=30.0)])
    assert [g.name for g in in_order(groups, "mha")] == ["mha", "fixed"]
    assert [g.name for g in in_order(groups, "none")] == ["fixed", "mha"]


def test_speeds_are_measured_on_the_same_batches_without_changing_the_weights(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = read_runs([swept])
    material = Material.of(runs[0].saved, batches=2, sentences=3)
    assert (len(material.batches), len(material.source)) == (2, 3)
    candidate = Candidate(runs[0].saved, material)
    assert candidate.train(0) > 0 and candidate.translate(0) > 0
    for name, weight in candidate.model.state_dict().items():
        assert weight.equal(runs[0].saved.weights[name]), name
    ticks = iter(range(1000))
    monkeypatch.setattr(speed, "perf_counter", lambda: float(next(ticks)))  # a second each
    measured = speed.speeds({"mha": runs[0].saved, "fixed": runs[2].saved}, material, rounds=2)
    tokens = sum(batch.total for batch in material.batches)
    assert measured == {name: Speeds(float(tokens), 3.0) for name in ("mha", "fixed")}


def test_the_cache_is_counted_per_token_and_as_a_fixed_part() -> None:
    # float64, 2 layers of 2 * 32 elements per token; within the length of finite positions.
    for typed in (("position=none",), ("position=learned", "data.max_length=64")):
        past, source = measure_memory(small_model("transformer", *typed), 64)
        assert past == source == Remembered(1024.0, 0.0)
    past, source = measure_memory(small_model("rnn"), 64)
    assert past.each == 0 and past.fixed > 0 and source.each > 0


def test_the_table_shows_fixed_sizes_and_deviations() -> None:
    assert size(Remembered(4096.0, 0.0)) == "4,096"
    assert size(Remembered(0.0, 66560.0)) == "0 + 66,560"
    mean = Mean.of([30.0, 32.0])
    assert mean.text(1) == mean.text(1, 0.5) == "31.0 ± 1.4"
    assert Mean.of([30.0]).text(1, 0.5) == "30.0 ± 0.5"
    nothing = Remembered(0.0, 8.0)
    rows = [
        Row(
            *(name, name, 1, Mean(30.0, None), Mean(1.0, None), None, None, 9, nothing, nothing),
            speeds,
        )
        for name, speeds in (("mha", Speeds(100, 10)), ("other", Speeds(50, 20)))
    ]
    last = markdown(rows).splitlines()[-1]
    assert (
        last == "| other | other | 30.0 | 1.000 | 9 | 50.0 | 0.50 | 20.0 | 2.00 | 0 + 8 | 0 + 8 |"
    )


def test_axes_start_at_zero_unless_nothing_would_be_seen() -> None:
    assert bounds([Mean(10.0, None), Mean(20.0, None)]) == (0, 20)
    low, high = bounds([Mean(90.0, 1.0), Mean(95.0, None)])
    assert 85 < low < 89 and high == 95
    low, high = bounds([Mean(0.0, None)])
    assert low < high
