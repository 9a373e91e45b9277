"""The page of a result."""

import json
from pathlib import Path

import pytest
import record_result
from helpers.builders import CONF
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

RESULT = {
    "BLEU": {"score": 39.24, "signature": "a|b", "interval": {"mean": 39, "half_width": 1.26}},
    "path": "x",
    "sentences": 1000,
    "sha256": "abc",
}


def finished(folder: Path, *overrides: str) -> Path:
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    result = {"seconds": 5400.0, "device": "cpu", "devices": 1, "threads": 2, "torch": "3"}
    (folder / "result.json").write_text(json.dumps(result))
    for name, text in (("data.json", "{}"), ("metrics.csv", "step\n")):
        (folder / name).write_text(text)
    return folder


def test_the_command_is_shown_as_typed_without_local_folders(tmp_path: Path) -> None:
    two = "data.train={a: {path: /home/me/one}, b: {path: /home/me/two, weight: 2}}"
    typed = "experiment=multi30k_en_de", "data.root=/home/me/tok", two
    run = finished(tmp_path, *typed, "data.valid=[/home/me/a.de,/home/me/a.en]", "logger.x=3/4")
    shown = "'data.train={a: {path: FOLDER/one}, b: {path: FOLDER/two, weight: 2}}'"
    assert record_result.training_command(run) == (
        f"OMP_NUM_THREADS=2 python train.py experiment=multi30k_en_de data.root=FOLDER/tok {shown} "
        f"'data.valid=[FOLDER/a.de,FOLDER/a.en]' logger.x=3/4 hydra.run.dir={run}"
    )
    assert record_result.experiment_of(run) == "multi30k_en_de"
    assert record_result.minutes(run) == "90 minutes"


def test_training_and_evaluation_name_one_folder(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=multi30k_en_de", f"data.root={tmp_path}")
    assert " data.root=FOLDER " in record_result.training_command(run)
    assert record_result.shorten_path(tmp_path / "test.de", run) == "FOLDER/test.de"
    assert record_result.shorten_path(Path("/elsewhere/all/refs.tsv"), run) == "FOLDER/refs.tsv"
    assert record_result.shorten_path(Path("data/demo/test.de"), run) == "data/demo/test.de"


def test_a_resumed_run_has_the_command_and_the_time_of_all_its_parts(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=zh_en", "resume=runs/x/last.ckpt")
    assert record_result.minutes(run) == "90 minutes, all parts together"
    # The same command without it comes to the same end.
    assert record_result.training_command(run).endswith(f"experiment=zh_en hydra.run.dir={run}")


def test_the_conditions_are_those_that_the_run_wrote_down(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=zh_en")
    assert record_result.machine(run).endswith(", 2 thread(s), torch 3")
    data = {"seconds": 5400.0, "device": "Accelerator X", "devices": 2, "threads": 8, "torch": "3"}
    (run / "result.json").write_text(json.dumps(data))
    assert record_result.machine(run) == "2 x Accelerator X, 8 thread(s), torch 3"
    assert record_result.training_command(run).startswith("python train.py")
    (run / "result.json").write_text('{"seconds": 5400.0}')
    with pytest.raises(record_result.Seq2SeqError, match="lacks device, devices, threads, torch"):
        record_result.machine(run)


def test_options_that_have_changed_since_the_run_are_named(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=zh_en", "data.train=x", "data.valid=y")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=record_result.overrides(run))
    OmegaConf.save(config, run / ".hydra" / "config.yaml")
    assert record_result.list_changes(run) == []
    was = config.validation.samples
    config.validation.samples = 17
    del config.loss.r_drop
    OmegaConf.save(config, run / ".hydra" / "config.yaml")
    assert record_result.list_changes(run) == [f"`validation.samples` was 17, and is {was}"]


NO_RECIPE = [(), ("model=rnn", "~logger"), ("experiment=none",), ("logger.experiment=zh_en",)]


@pytest.mark.parametrize("overrides", NO_RECIPE)
def test_a_run_without_a_recipe_is_refused(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    with pytest.raises(record_result.Seq2SeqError, match="was not trained by a recipe"):
        record_result.experiment_of(finished(tmp_path, *overrides))


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=zh_en")
    (run / "result.json").unlink()
    with pytest.raises(record_result.Seq2SeqError, match="result.json: give the folder of a fin"):
        record_result.experiment_of(run)


def test_scores_are_a_table_with_intervals_and_signatures(tmp_path: Path) -> None:
    lines = record_result.scores([record_result.Evaluated("seq2seq evaluate", RESULT)])
    assert lines[2] == "| 1 | BLEU **39.2** | ± 1.3 | `a\\|b` |"
    assert lines[-1] == "Test set 1: 1,000 sentences; sha256 of the translations `abc`."


def test_the_table_of_a_curve_has_the_columns_of_all_rows(tmp_path: Path) -> None:
    rows = [{"step": "9", "train/loss": "1"}, {"step": "9", "valid/loss": "2"}]
    record_result.write_rows(rows, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().split() == [
        "step,train/loss,valid/loss",
        "9,1,",
        "9,,2",
    ]
    record_result.draw_curves(rows, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
