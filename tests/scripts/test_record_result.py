"""The page of a result."""

import json
from pathlib import Path

import pytest
import record_result

FOUND = {
    "BLEU": {"score": 39.24, "signature": "a|b", "interval": {"mean": 39, "half_width": 1.26}},
    "path": "x",
    "sentences": 1000,
    "sha256": "abc",
}


def finished(folder: Path, *overrides: str) -> Path:
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text(json.dumps(overrides))
    for name, text in (("data.json", "{}"), ("result.json", "{}"), ("metrics.csv", "step\n")):
        (folder / name).write_text(text)
    return folder


def test_the_command_is_what_was_typed_without_the_folders_of_a_machine(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=multi30k_en_de", "data.root=/home/me/tok", "order.seed=2")
    assert record_result.training_command(run, 2) == (
        "OMP_NUM_THREADS=2 python train.py experiment=multi30k_en_de data.root=FOLDER/tok "
        f"order.seed=2 hydra.run.dir={run}"
    )
    assert record_result.experiment_of(run) == "multi30k_en_de"
    assert record_result.fit_time(run)[0] == "wall time of the fit, validations included"


def test_the_time_of_a_resumed_run_is_not_that_of_all_of_it(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=zh_en", "resume=runs/x/last.ckpt")
    assert "since it was last resumed" in record_result.fit_time(run)[0]


@pytest.mark.parametrize("overrides", [(), ("model=rnn", "~logger"), ("experiment=none",)])
def test_a_run_of_no_recipe_is_refused(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    with pytest.raises(record_result.Seq2SeqError, match="is of no recipe"):
        record_result.experiment_of(finished(tmp_path, *overrides))


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    run = finished(tmp_path, "experiment=zh_en")
    (run / "result.json").unlink()
    with pytest.raises(record_result.Seq2SeqError, match="result.json: give the folder of a fin"):
        record_result.experiment_of(run)


def test_scores_are_a_table_with_what_they_are_worth(tmp_path: Path) -> None:
    lines = record_result.scores([record_result.Evaluated("seq2seq evaluate", FOUND)])
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
