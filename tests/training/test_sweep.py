"""A sweep goes on after a job that failed, and ends with a line per job."""

import json
import subprocess
from pathlib import Path

import pytest
from helpers.tiny_runs import train_command
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from seq2seq.training.sweep import JobFailedError, Sweep, quote, run_job

SHORT = ("trainer.max_steps=2", "trainer.val_check_interval=2")


@pytest.mark.slow
def test_a_job_that_is_refused_does_not_stop_the_jobs_after_it(base: Path, tmp_path: Path) -> None:
    *command, _ = train_command(base, tmp_path, *SHORT)
    command += ["model.num_heads=4,5,2", f"hydra.sweep.dir={tmp_path}", "-m"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert "num_heads=5 does not divide dim=32" in ended.stderr
    assert "Traceback" not in ended.stderr
    names = [f"{n}-tiny-seed1" for n in range(3)]
    trained = [(tmp_path / name / "best.ckpt").is_file() for name in names]
    assert trained == [True, False, True]
    lines = ended.stderr.splitlines()[-4:]
    assert lines[0] == f"error: sweep of 3 jobs, 1 of them failed: {tmp_path}"
    assert [line.split()[:2] for line in lines[1:]] == [
        [names[0], "bleu"],
        [names[1], "failed:"],
        [names[2], "bleu"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_jobs_in_processes_of_a_launcher_are_summed_up_too(
    launcher: str, base: Path, tmp_path: Path
) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    *command, _ = train_command(base, tmp_path, *SHORT)
    command += [f"hydra/launcher={launcher}", f"hydra.sweep.dir={tmp_path}"]
    for heads, code, jobs in (
        ("4,5", 2, {"0-tiny-seed1": "bleu", "1-tiny-seed1": "failed:"}),
        ("4", 0, {"0-tiny-seed1": "bleu"}),
    ):
        ended = subprocess.run(
            [*command, f"model.num_heads={heads}", "-m"],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        told = ended.stderr if code else ended.stdout
        _, _, listed = told.partition(f"sweep of {len(jobs)} job{'s' * (len(jobs) > 1)}")
        assert dict(line.split()[:2] for line in listed.splitlines()[1:]) == jobs, told


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "code"), [(1.0, 0), (0.0, 2)])
def test_optuna_chooses_among_jobs_of_which_some_fail(
    rate: float, code: int, base: Path, tmp_path: Path
) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    *command, _ = train_command(base, tmp_path, *SHORT)
    command += ["hydra/sweeper=optuna", "hydra.sweeper.direction=maximize"]
    command += [
        "hydra.sweeper.n_trials=4",
        "hydra.sweeper.n_jobs=1",
        "hydra.sweeper.sampler.seed=1",
    ]
    command += ["model.num_heads=choice(4,5)", f"hydra.sweep.dir={tmp_path}"]
    command += [f"hydra.sweeper.max_failure_rate={rate}", "-m"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    told = ended.stderr if code else ended.stdout
    assert "of them failed" in told and "num_heads=5 does not divide dim=32" in told


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DictConfig:
    """The second job of a sweep, as Hydra hands it over."""
    (tmp_path / "1-b").mkdir()
    hydra = OmegaConf.create({"runtime": {"output_dir": str(tmp_path / "1-b")}})
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    return OmegaConf.create({"checkpoint": {"monitor": "chrf"}})


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sweep:
    """A sweep that has just begun, in the folder of an earlier one."""
    monkeypatch.setattr(Sweep, "started", None)
    for name in ("0-longer", "7-earlier"):
        write_result(tmp_path / name, 12.0)
    begun = Sweep()
    begun.on_multirun_start(OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}}))
    return begun


def write_result(folder: Path, value: float | None) -> None:
    folder.mkdir(exist_ok=True)
    result = {"monitor": "chrf", "value": value}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def fit_without_memory(_: object) -> None:
    raise MemoryError("3 GB wanted\nand more")


def test_an_error_that_is_a_bug_shows_where_it_is_and_frees_what_it_held(
    config: DictConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JobFailedError) as caught:
        run_job(fit_without_memory, config)
    assert caught.value.__context__ is None
    assert "in fit_without_memory" in capsys.readouterr().err


def test_the_summary_has_a_line_for_each_job_of_this_sweep(
    sweep: Sweep, config: DictConfig, tmp_path: Path
) -> None:
    with pytest.raises(JobFailedError):
        run_job(fit_without_memory, config)
    write_result(tmp_path / "0-longer", None)
    write_result(tmp_path / "2-c", 31.2)
    assert sweep.summary().splitlines() == [
        f"sweep of 3 jobs, 1 of them failed: {tmp_path}",
        "  1-b       failed: MemoryError: 3 GB wanted",
        "  0-longer  no validation",
        "  2-c       chrf 31.20",
    ]
    assert run_job(lambda _: 31.2, config) == 31.2
    assert "sweep of 2 jobs: " in sweep.summary()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), min_size=1))
def test_hydra_reads_a_quoted_name_as_it_is(name: str) -> None:
    (parsed,) = OverridesParser.create().parse_overrides([f"x={quote(name)}"])
    assert parsed.value() == name
