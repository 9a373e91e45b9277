"""The command for GPUs, run on a CPU with tiny sizes."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import gpu
import pytest
import torch
from gpu_bench.rows import FAILED, LEFT_OUT, OK, Row, to_page

SLOW = {"memory": "a profiler starts in seconds", "devices": "trains in other processes"}
PAGE = gpu.ROOT / "docs" / "results" / "gpu.md"


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of its own plain Transformer
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in gpu.PARTS]
)
def test_every_part_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    torch.manual_seed(1)
    rows = list(importlib.import_module(f"gpu_bench.{name}").run(torch.device("cpu"), True))
    assert rows and all(row.verdict in ("", OK, LEFT_OUT) for row in rows), rows
    assert all(Row(*json.loads(row.to_json())) == row for row in rows)


def child(code: str) -> list[str]:
    return [sys.executable, "-c", f"from gpu_bench.rows import Row, judge\n{code}"]


@pytest.mark.slow
def test_a_part_that_fails_or_hangs_becomes_a_row_after_its_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(gpu.ROOT / "scripts"))
    one = "print('noise'); print(Row('speed', '1 | 2').to_json(), flush=True)\n"
    done = Row("speed", "1 | 2")
    assert gpu.run_part(child(one), 60) == [done]
    first, failure = gpu.run_part(child(f"{one}raise MemoryError('too large')"), 60)
    assert first == done and failure.verdict == FAILED
    assert failure.result == "ended with code 1: MemoryError: too large"
    hanging = f"{one}import subprocess\nsubprocess.run(['sleep', '1000'])"
    first, failure = gpu.run_part(child(hanging), 5)
    assert first == done and failure == Row("this part", "stopped after 5 s", FAILED)


def test_the_page_has_command_conditions_and_a_table_for_each_part() -> None:
    parts = {"a": ("Title", [Row("speed", "1 | 2"), Row("bits", "3 of 4", FAILED)])}
    lines = to_page("python scripts/gpu.py", ["a device"], parts).splitlines()
    assert lines[2] == "- a device" and "python scripts/gpu.py" in lines
    start = lines.index("## Title")
    assert lines[start + 4 : start + 6] == ["| speed | 1 / 2 |  |", "| bits | 3 of 4 | FAILED |"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_page_is_not_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = PAGE.read_bytes()
    asked: list[list[str]] = []

    def run_part(command: list[str], limit: float, interpreted: bool = False) -> list[Row]:
        asked.append(command[2:])
        assert interpreted
        return [Row("kernel", "wrong", FAILED)] if len(asked) > 1 else [Row("kernel", "ok", OK)]

    monkeypatch.setattr(gpu, "run_part", run_part)
    assert gpu.main([]) == 0 and gpu.main([]) == 1
    assert asked[0] == ["--part", "kernels", "--device", "cpu", "--tiny"]
    assert capsys.readouterr().out.startswith("There is no GPU here")
    assert PAGE.read_bytes() == before


def test_missing_packages_and_an_old_torch_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None if name == "tokenizers" else name)
    assert gpu.main([]) == 2
    assert "packages are missing: pip install tokenizers" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(gpu, "version", lambda name: "2.9.1+cu128")
    assert gpu.main([]) == 2
    assert "torch 2.11 or newer is needed, not 2.9.1+cu128" in capsys.readouterr().err


@pytest.mark.slow
def test_the_parts_do_not_import_hydra(tmp_path: Path) -> None:
    """A machine that is rented for minutes has torch, and little more."""
    names = [f"gpu_bench.{name}" for name in gpu.PARTS]
    code = f"import sys, importlib\nfor name in {names}: importlib.import_module(name)\n"
    code += "print({'hydra', 'omegaconf', 'lightning', 'matplotlib', 'sacrebleu'} & {*sys.modules})"
    folder = gpu.ROOT / "scripts"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{folder}:{gpu.ROOT}"},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip() == "set()", ended.stderr


def test_the_page_claims_figures_of_a_named_device_only() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "No figure has been measured on a GPU yet" in text or "(name, driver, memory)" in text
