"""A sweep goes on behind a job that failed, and ends with a line a job."""

import subprocess
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from tiny_runs import train_command

from seq2seq.training.sweep import Job, JobFailedError, run_job, summary

SHORT = ("trainer.max_steps=2", "trainer.val_check_interval=2")


def test_a_job_that_cannot_be_does_not_stop_the_jobs_behind_it(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    *command, _ = train_command(tmp_path_factory.getbasetemp(), tmp_path, *SHORT)
    command += ["model.num_heads=4,5,2", f"hydra.sweep.dir={tmp_path}", "-m"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert "num_heads=5 does not divide dim=32" in ended.stderr
    assert "Traceback" not in ended.stderr
    names = [f"{number}-tiny-seed1" for number in range(3)]
    trained = [(tmp_path / name / "best.ckpt").is_file() for name in names]
    assert trained == [True, False, True]
    lines = ended.stderr.splitlines()[-4:]
    assert lines[0] == f"error: sweep of 3 jobs, 1 of them failed: {tmp_path}"
    assert [line.split()[:2] for line in lines[1:]] == [
        [names[0], "bleu"],
        [names[1], "failed:"],
        [names[2], "bleu"],
    ]


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> DictConfig:
    """The second job of a sweep, as Hydra hands it over."""
    hydra = OmegaConf.create({"runtime": {"output_dir": "/runs/sweep/1-b"}})
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    return OmegaConf.create({"checkpoint": {"monitor": "chrf"}})


def test_an_error_that_is_a_bug_shows_where_it_is_and_frees_what_it_held(
    config: DictConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    def fit(_: object) -> None:
        raise MemoryError("3 GB wanted\nand more")

    ended: list[Job] = []
    with pytest.raises(JobFailedError) as caught:
        run_job(fit, config, ended)
    assert caught.value.__context__ is None
    assert ended == [Job(Path("/runs/sweep/1-b"), "MemoryError: 3 GB wanted", True)]
    assert "in fit" in capsys.readouterr().err


def test_the_summary_has_a_line_for_each_job(config: DictConfig) -> None:
    ended = [Job(Path("/runs/sweep/0-longer"), "no validation", False)]
    assert run_job(lambda _: 31.2, config, ended) == 31.2
    assert summary(ended).splitlines() == [
        *("sweep of 2 jobs: /runs/sweep", "  0-longer  no validation", "  1-b       chrf 31.20"),
    ]
