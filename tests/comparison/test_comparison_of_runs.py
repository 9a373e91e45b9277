"""The comparison of a sweep: the runs it reads, its warnings, tables and pictures."""

import csv
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from helpers.builders import small_model
from helpers.commands import Command
from helpers.tiny_runs import corpus, metrics, train_command

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.comparison import speed
from seq2seq.comparison.memory import Remembered, measure_memory
from seq2seq.comparison.rows import Mean, size
from seq2seq.comparison.runs import (
    TrainedRun,
    group_runs,
    in_order,
    list_differing_options,
    read_runs,
)
from seq2seq.comparison.speed import Material, Speeds, TimedModel

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


def with_bleu(run: TrainedRun, value: float) -> TrainedRun:
    return run._replace(best={**run.best, "valid/bleu": str(value)})


def test_a_sweep_becomes_a_table_and_a_page(swept: Path, seq2seq: Command, base: Path) -> None:
    valid = corpus(base) / "valid"
    test = (valid.with_suffix(".de"), valid.with_suffix(".en"))
    ended = seq2seq("compare", swept, "--no-speed", "--test", *test)
    assert ended.code == 0
    with (swept / "comparison.csv").open(encoding="utf-8") as file:
        mha, fixed = csv.DictReader(file)
    assert (mha["name"], mha["roles"], mha["seeds"]) == ("mha", "mha", "2")
    assert fixed["roles"] == "encoder mha, decoder mha, cross fixed"
    best = [
        json.loads((folder / "result.json").read_text(encoding="utf-8"))["value"]
        for folder in sorted(swept.glob("*-tiny-*"))
    ]
    assert float(mha["valid_value"]) == pytest.approx((best[0] + best[1]) / 2)
    assert float(fixed["valid_value"]) == pytest.approx((best[2] + best[3]) / 2)
    assert float(mha["tests_BLEU_mean_value"]) >= 0 and "speeds_training" not in mha
    apart = float(fixed["tests_BLEU_mean_value"]) - float(mha["tests_BLEU_mean_value"])
    assert float(fixed["tests_BLEU_difference_value"]) == pytest.approx(apart)
    # Two layers of 32 keys and 32 values of 4 bytes; `fixed` keeps one vector of 32 a layer.
    assert float(mha["past_each"]) == float(mha["source_each"]) == 512
    assert (float(fixed["source_each"]), float(fixed["source_fixed"])) == (0, 256)
    text = (swept / "comparison.md").read_text(encoding="utf-8")
    assert "| mha (2 seeds) |" in text and "not comparable" not in text
    first = text.partition("\n")[0].removeprefix("- ")
    assert "fixed" in first and first in ended.out.decode()
    page = (swept / "comparison.html").read_text(encoding="utf-8")
    assert f"<li>{first}</li>" in page and "mha (2 seeds)" in page


def test_each_run_is_translated_once(swept: Path, seq2seq: Command, base: Path) -> None:
    valid = corpus(base) / "valid"
    test = (valid.with_suffix(".de"), valid.with_suffix(".en"))
    command = ("compare", swept, "--no-speed", "--test", *test)
    first = seq2seq(*command)
    assert first.err.count("translating with") == 4
    (swept / "1-tiny-seed2" / "best.ckpt").write_bytes(
        (swept / "0-tiny-seed1" / "best.ckpt").read_bytes()
    )
    again = seq2seq(*command)
    assert again.err.count("translating with") == 1  # of the weights that changed
    texts = [file.read_text(encoding="utf-8") for file in (swept / "translations").iterdir()]
    assert len(texts) == 5 and all(text.count("\n") == 40 for text in texts)


def test_the_loss_belongs_to_the_weights_that_were_kept(swept: Path) -> None:
    runs, _ = read_runs([swept])
    for run in runs:
        bleu, loss = metrics(run.folder, "valid/bleu"), metrics(run.folder, "valid/loss")
        assert run.score == max(bleu)
        assert float(run.best["valid/loss"]) == loss[bleu.index(max(bleu))]


def test_unfinished_runs_are_named_and_left_out(swept: Path) -> None:
    (swept / "3-tiny-seed2" / "result.json").unlink()
    (swept / "2-tiny-seed1" / "best.ckpt").unlink()
    runs, skipped = read_runs([swept])
    assert [run.folder.name for run in runs] == ["0-tiny-seed1", "1-tiny-seed2"]
    assert len(skipped) == 2
    assert "2-tiny-seed1 is left out: it has no best.ckpt" in skipped[0]
    assert "3-tiny-seed2 is left out: it has no result.json" in skipped[1]


def test_a_folder_without_runs_is_refused_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="seq2seq train -m attn=mha,gqa hydra.sweep.dir="):
        read_runs([tmp_path])
    with pytest.raises(ConfigError, match="there is no .*nowhere: give two files of text, or"):
        read_runs([tmp_path / "nowhere"])


def test_a_run_without_metrics_is_refused(swept: Path) -> None:
    (swept / "0-tiny-seed1" / "metrics.csv").unlink()
    with pytest.raises(DataError, match="without logger=none"):
        read_runs([swept])


def test_seeds_share_a_row_and_different_budgets_give_warnings(swept: Path) -> None:
    runs, _ = read_runs([swept])
    assert [(g.name, len(g.runs)) for g in group_runs(runs)] == [("mha", 2), ("fixed", 2)]
    assert list_differing_options(runs) == []
    runs[1].saved.config["update"]["optimizer"]["lr"] = 1.0
    longer = [*runs[:3], runs[3]._replace(steps=9)]
    warnings = "\n".join(list_differing_options(longer))
    assert "update.optimizer.lr" in warnings and "steps is 4 in" in warnings and "9 in" in warnings


def test_options_typed_for_one_mechanism_only_are_in_its_name(swept: Path) -> None:
    runs, _ = read_runs([swept])
    other = runs[1]._replace(typed=[*runs[1].typed, "attn.dropout=0.1", "validation.sentences=9"])
    groups = group_runs([runs[0], other, runs[2]])
    assert [g.name for g in groups] == [
        *("mha", "mha attn.dropout=0.1 validation.sentences=9", "fixed"),
    ]
    (warning,) = list_differing_options([runs[0], other])
    assert warning.startswith("not comparable: validation.sentences is 8 in")
    assert "9 in" in warning


def test_the_reference_comes_first_and_the_best_follow(swept: Path) -> None:
    runs, _ = read_runs([swept])
    groups = group_runs([with_bleu(runs[0], 10.0), with_bleu(runs[2], 30.0)])
    assert [g.name for g in in_order(groups, "mha")] == ["mha", "fixed"]
    assert [g.name for g in in_order(groups, "none")] == ["fixed", "mha"]


def test_speeds_are_measured_on_the_same_batches_without_changing_the_weights(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = read_runs([swept])
    material = Material.of(runs[0].saved, batches=2, sentences=3)
    assert (len(material.batches), len(material.source)) == (2, 3)
    candidate = TimedModel(runs[0].saved, material)
    assert candidate.train(0) > 0 and candidate.translate(0) > 0
    for name, weight in candidate.model.state_dict().items():
        assert weight.equal(runs[0].saved.weights[name]), name
    ticks = iter(range(1000))
    monkeypatch.setattr(speed, "perf_counter", lambda: float(next(ticks)))  # a second each
    measured = speed.time_models({"mha": runs[0].saved, "fixed": runs[2].saved}, material, rounds=2)
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
