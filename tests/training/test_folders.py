"""Two runs in one folder, one after the other."""

from pathlib import Path

import pytest
from tiny_runs import tiny_overrides, train_again, train_tiny, weights

from seq2seq.cli.files import run_of

STEPS = ("trainer.max_steps=2", "trainer.val_check_interval=2", "checkpoint.keep_last=1")


def test_a_new_run_writes_over_nothing_of_the_one_before(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.getbasetemp()
    folder = train_tiny(base, *STEPS)
    (folder / "report.html").write_text("about the first run", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    train_again(folder, *tiny_overrides(base), *STEPS, "seed=2")
    for name in ("best.ckpt", "last.ckpt", "metrics.csv", "samples.txt", "result.json"):
        aside = folder / f"{Path(name).stem}-1{Path(name).suffix}"
        assert aside.read_bytes() == before[name] and run_of(aside) == folder.resolve()
    assert (folder / "kept-1").is_dir()
    assert (folder / "report-1.html").exists() and not (folder / "report.html").exists()
    assert weights(folder).keys() == weights(folder, "last-1.ckpt").keys()
