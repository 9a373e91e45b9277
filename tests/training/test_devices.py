"""What a run learns does not depend on how its batches are shared out."""

import json
import multiprocessing
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed
from helpers.builders import (
    SMALL,
    TARGET_SIZE,
    every_other,
    presets,
    small_model,
    source_batch,
)
from helpers.compared_runs import ON_ANY_DEVICES, TWO_PROCESSES, assert_learnt_the_same
from helpers.tiny_runs import metrics, plan_of, tiny_overrides, train_command, train_tiny
from lightning.pytorch.strategies import DDPStrategy

from seq2seq.base.errors import ConfigError
from seq2seq.data.batches.batch import pair_batch
from seq2seq.training.command_score import CommandScore
from seq2seq.training.config.options import TrainerOptions
from seq2seq.training.loss import batch_loss
from seq2seq.training.module import ValidationSentence
from seq2seq.training.run import headline
from seq2seq.training.stopping import explain_lost
from seq2seq.training.sweep import check_processes, leave_process_group
from seq2seq.training.trainer import build_trainer

LOOPBACK = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def alone(base: Path) -> Path:
    """Trained by one process that takes each batch in one piece."""
    return train_tiny(base, *ON_ANY_DEVICES)


def test_batches_in_three_pieces_teach_what_whole_ones_do(alone: Path, base: Path) -> None:
    folder = train_tiny(base, *ON_ANY_DEVICES, "trainer.accumulate_grad_batches=3")
    assert_learnt_the_same(folder, alone)


@pytest.mark.slow
def test_two_processes_of_two_pieces_learn_what_one_does(
    alone: Path, base: Path, tmp_path: Path
) -> None:
    options = (*ON_ANY_DEVICES, *TWO_PROCESSES, "trainer.accumulate_grad_batches=2")
    command = train_command(base, tmp_path, *options)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "2 device(s) x 2 micro-batch(es)" in ended.stdout
    assert ended.stderr == ""
    assert_learnt_the_same(tmp_path, alone)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("trainer.compile=true",)], ids=["eager", "compiled"])
def test_two_processes_with_a_static_graph_learn_what_one_does(
    alone: Path, base: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    command = train_command(base, tmp_path, *ON_ANY_DEVICES, *TWO_PROCESSES, *more)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500, env=LOOPBACK)
    assert ended.returncode == 0, ended.stderr
    assert_learnt_the_same(tmp_path, alone)


@pytest.mark.parametrize(
    "typed",
    [
        *every_other([f"{model} attn={preset}" for preset in presets("attn") for model in SMALL]),
        *every_other([f"transformer position={name}" for name in presets("position")]),
    ],
)
def test_each_batch_uses_each_parameter_once(typed: str) -> None:
    """What a static graph relies on; without one, devices would wait for each other for ever."""
    model = small_model(*typed.split()).train()
    used: list[str] = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: used.append(name))
    expected = sorted(name for name, _ in model.named_parameters())
    for lengths, size in (((5, 3), 6), ((1,), 2), ((40, 7), 33)):
        target = torch.randint(3, TARGET_SIZE, (len(lengths), size))
        batch = pair_batch(source_batch(*lengths), target, 10, range(len(lengths)), None)
        used.clear()
        torch.autograd.backward(batch_loss(model, batch, 0.1).smoothed)
        assert sorted(used) == expected


def test_several_devices_exchange_large_buckets_and_wait_as_long_as_typed(base: Path) -> None:
    options = plan_of(base, *tiny_overrides(base), "trainer.timeout=7").trainer
    assert not isinstance(build_trainer(options, [], [], False).strategy, DDPStrategy)
    for typed in (TWO_PROCESSES, ("trainer.devices=2",)):
        options = plan_of(base, *tiny_overrides(base), *typed, "trainer.timeout=7").trainer
        strategy = build_trainer(options, [], [], static=True).strategy
        assert isinstance(strategy, DDPStrategy)
        assert strategy._timeout == timedelta(minutes=7)
        assert strategy._ddp_kwargs == {
            "gradient_as_bucket_view": True,
            "bucket_cap_mb": 64,
            "static_graph": True,
        }


@pytest.mark.parametrize(
    ("devices", "tokens", "each", "advised"),
    [(1, 512, "512", None), (2, 512, "256", "1024"), (8, 25_000, "3,125", "200000")],
)
def test_devices_with_little_work_are_advised(
    base: Path, devices: int, tokens: int, each: str, advised: str | None
) -> None:
    plan = plan_of(base, *tiny_overrides(base), f"data.max_tokens={tokens}")
    line, *advice = headline(plan, small_model("transformer"), devices).splitlines()
    assert f"over {devices} device(s) x 1 micro-batch(es), {each} a device in each |" in line
    assert [f"to data.max_tokens={advised}" in said for said in advice] == [True] * bool(advised)
    plan = plan_of(base, *tiny_overrides(base), "data.max_tokens=32768")
    assert "advice" not in headline(plan, small_model("transformer"), 8)


def run_a_command(rank: int, folder: Path, seconds: float, minutes: float) -> None:
    """What each of two processes does for a command, of which the first process says the score."""
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    trainer: Any = SimpleNamespace(world_size=2, is_global_zero=rank == 0, callbacks=[])
    code = f"import time; time.sleep({seconds}); print(5)"
    score = CommandScore(f"{sys.executable} -c '{code}'", minutes)
    module = SimpleNamespace(sentences={0: ValidationSentence("a", "b")})
    try:
        score.on_fit_start(trainer, module)
        said = str(score._run(trainer, {"hypotheses": ["a"], "references": ["a"]}))
    except RuntimeError as error:
        with pytest.raises(ConfigError) as caught:
            explain_lost(error, trainer, minutes)
        said = str(caught.value)
    (folder / f"said-{rank}").write_text(said, encoding="utf-8")
    os._exit(0)


@pytest.mark.parametrize(("minutes", "is_long_enough"), [(0.02, False), (1.0, True)])
def test_a_command_may_take_as_long_as_the_timeout(
    tmp_path: Path, minutes: float, is_long_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    start = multiprocessing.get_context("fork").Process
    both = [start(target=run_a_command, args=(i, tmp_path, 2.0, minutes)) for i in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    said = (tmp_path / "said-1").read_text(encoding="utf-8")
    assert said == "5.0" if is_long_enough else "longer than trainer.timeout=0.02 minutes" in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Timed out waiting 6000ms for recv operation", "longer than trainer.timeout=30 minutes"),
        (
            "wait timeout after 6000ms, keys: /default_pg/0",
            "longer than trainer.timeout=30 minutes",
        ),
        ("Connection closed by peer [127.0.0.1]:4242", "one ended"),
    ],
)
def test_lost_processes_are_explained(error: str, words: str) -> None:
    several: Any = SimpleNamespace(world_size=2, callbacks=[])
    with pytest.raises(ConfigError, match=words):
        explain_lost(RuntimeError(error), several, 30)
    explain_lost(RuntimeError("sizes differ"), several, 30)
    explain_lost(RuntimeError(error), SimpleNamespace(world_size=1), 30)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "code"), [(0.5, None), (2, 0)])
def test_a_run_with_a_validation_longer_than_the_timeout_ends_with_a_message(
    base: Path, tmp_path: Path, minutes: float, code: int | None
) -> None:
    mark, program = tmp_path / "tried", tmp_path / "score.py"
    program.write_text(  # quick when it is tried, slow in the validation
        f"import pathlib, time\nmark = pathlib.Path({str(mark)!r})\n"
        "time.sleep(45 if mark.exists() else 0)\nmark.touch()\nprint(1)\n",
        encoding="utf-8",
    )
    command = train_command(
        base,
        tmp_path / "run",
        *TWO_PROCESSES,
        *("trainer.max_steps=2", "schedule.steps=2", "trainer.val_check_interval=2"),
        f"trainer.timeout={minutes}",
        f"checkpoint.monitor='command:{sys.executable} {program}'",
    )
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, env=LOOPBACK)
    assert mark.exists()  # the processes had found each other
    if code is None:
        assert ended.returncode and "longer than trainer.timeout=0.5 minutes" in ended.stderr
        assert "Traceback" not in ended.stderr
    else:
        assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_torchrun_starts_a_run_in_one_folder(alone: Path, base: Path, tmp_path: Path) -> None:
    _, *command = train_command(base, tmp_path, *ON_ANY_DEVICES, *TWO_PROCESSES)
    command = [o for o in command if not o.startswith("hydra.run.dir")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    named = f"hydra.run.dir={tmp_path}/${{start:}}"
    ended = subprocess.run(
        [*torchrun, "--nproc-per-node=2", *command, named],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = tmp_path.iterdir()
    assert_learnt_the_same(folder, alone)


@pytest.mark.slow
def test_each_job_of_a_sweep_gets_separate_processes_and_a_separate_folder(
    alone: Path, base: Path, tmp_path: Path
) -> None:
    command = train_command(base, tmp_path, *ON_ANY_DEVICES, *TWO_PROCESSES, "seed=1,2", "-m")
    command[-2:] = [f"hydra.sweep.dir={tmp_path}", "-m"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    first, second = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert (first.name, second.name) == ("0-tiny-seed1", "1-tiny-seed2")
    assert_learnt_the_same(first, alone)
    for folder in (first, second):
        best = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        assert best["monitor"] == "bleu" and best["steps"] == 10
        assert best["value"] == pytest.approx(max(metrics(folder, "valid/bleu")))
        assert (best["device"], best["devices"]) == ("cpu", 2) and best["seconds"] > 0
    with pytest.raises(AssertionError):
        assert_learnt_the_same(second, alone)


@pytest.mark.parametrize("devices", [100_000, "100000"])
def test_more_processes_than_cores_are_refused(
    devices: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        ConfigError, match=r"100000 processes on .*: type trainer.devices=\d+, or fewer"
    ):
        check_processes(TrainerOptions(accelerator="cpu", devices=devices))
    for count in (1, 2, "auto"):
        check_processes(TrainerOptions(accelerator="cpu", devices=count))
    monkeypatch.setenv("LOCAL_RANK", "7")  # of those that torchrun has started
    check_processes(TrainerOptions(accelerator="cpu", devices=devices))


def test_a_run_ends_the_threads_that_talk_to_its_other_processes(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    leave_process_group()
    assert not torch.distributed.is_initialized()
    leave_process_group()  # a run of one process has none to leave


def test_the_comparison_would_see_a_lost_sentence(alone: Path, base: Path) -> None:
    """With another division of the loss, here another batch size, the weights are not the same."""
    other = train_tiny(base, *ON_ANY_DEVICES, "data.max_tokens=200")
    with pytest.raises(AssertionError):
        assert_learnt_the_same(other, alone)
