"""What users see while a run trains."""

import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.tiny_runs import plan_of, train_tiny

from seq2seq.training import reporter
from seq2seq.training.reporter import Reporter
from seq2seq.training.trainer import build_callbacks


def test_without_a_terminal_a_line_says_how_far_a_run_has_come(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minute is made to pass with every look at the clock."""
    clock = itertools.count(step=60.0)
    monkeypatch.setattr(reporter, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    limits = "trainer.max_steps=-1", "trainer.max_epochs=2", "trainer.val_check_interval=9"
    train_tiny(base, *limits, "schedule=inverse_sqrt", "validation.sentences=5")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    updates = [line for line in lines if " left" in line]
    pattern = r"step \d+  epoch [12]  train loss \d\.\d+  [\d,]+ tokens/s  about [\d:]+ left"
    assert all(re.fullmatch(pattern, line) for line in updates)
    steps = [int(line.split()[1]) for line in updates]
    assert steps == list(range(1, len(steps) + 1))
    assert updates[-1].endswith(" about 0:00:00 left")
    assert any(re.search(r"  validation batch 1 of \d+$", line) for line in lines)


@pytest.mark.parametrize(("terminal", "rank", "said"), [(0, 0, 1), (1, 0, 0), (0, 1, 0)])
def test_where_there_is_a_bar_or_another_process_no_such_line_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: int, rank: int, said: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: bool(terminal), raising=False)
    built = build_callbacks(plan_of(tmp_path, "data=demo", "run_name=tiny"))
    (report,) = (each for each in built if isinstance(each, Reporter))
    process: Any = SimpleNamespace(is_global_zero=rank == 0)
    assert not report.is_silent(process)
    report.last_line_at -= 61
    assert report.is_silent(process) == bool(said)


def test_speed_counts_the_target_tokens_of_all_devices_once() -> None:
    """Three micro-batches of global batches of 600 tokens, two to an update, are 900 tokens."""
    report = Reporter()
    logged: dict[str, float] = {}
    module: Any = SimpleNamespace(log=lambda name, value, **_: logged.update({name: value}))
    running: Any = SimpleNamespace(accumulate_grad_batches=2, log_every_n_steps=1, global_step=1)
    batch: Any = SimpleNamespace(total=600)
    for index in (1, 3, 5):
        running.fit_loop = SimpleNamespace(batch_idx=index)
        report.on_train_batch_end(running, module, None, batch, index)
    assert report.tokens == 900
    assert logged["train/tokens_per_second"] == pytest.approx(900 / report.seconds)
