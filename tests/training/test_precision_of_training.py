"""Which precision `trainer.precision=auto` is, what is said of it, and what a run keeps."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.tiny_runs import demo_run, plan_of, tiny_overrides, train_tiny

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.training import trainer as module
from seq2seq.training.config.options import TrainerOptions
from seq2seq.training.trainer import check_same_precision, choose_precision, find_cpu_bfloat16

# Lines of /proc/cpuinfo, each of a machine's.
SAPPHIRE_RAPIDS = "flags\t\t: fpu avx2 avx512f avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8\n"
ZEN_4 = "model name\t: AMD EPYC 9R14\nflags\t\t: fpu avx2 avx512f avx512_bf16 vpclmulqdq\n"
ZEN_3 = "model name\t: bf16 of a name\nflags\t\t: fpu avx avx2 fma f16c\nbugs\t\t: avx512_bf16\n"
CASCADE_LAKE = "flags\t\t: fpu avx2 avx512f avx512_vnni\nvmx flags\t: amx_bf16\n"
NEOVERSE_V1 = "processor\t: 0\nFeatures\t: fp asimd sve svebf16 i8mm bf16 dgh rng\n"
NEOVERSE_N1 = "processor\t: 0\nFeatures\t: fp asimd fphp asimdhp lrcpc dcpop asimddp\n"
NEW, OLD = SAPPHIRE_RAPIDS, ZEN_3


@pytest.fixture
def processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes this machine one without GPUs whose /proc/cpuinfo holds a text."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(module, "CPU_INFO", tmp_path / "cpuinfo")
    return lambda text: (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")


def chosen(base: Path, *typed: str) -> str:
    """The precision of a run with these options."""
    plan = plan_of(base, *tiny_overrides(base), *typed)
    return choose_precision(plan.trainer, plan.resume).precision


def precision_in(folder: Path) -> str:
    """What the checkpoint of a run says of its precision."""
    return str(checkpoint.read(folder / "last.ckpt").config["update"]["precision"])


@pytest.mark.parametrize(
    ("cpu_info", "found", "words"),
    [
        (SAPPHIRE_RAPIDS, True, "this processor has amx_bf16"),
        (ZEN_4, True, "this processor has avx512_bf16"),
        (NEOVERSE_V1, True, "this processor has bf16"),
        *((each, False, "no instructions") for each in (ZEN_3, CASCADE_LAKE, NEOVERSE_N1)),
        ("", False, "does not say"),
        ("processor\t: 0\nno colon\n", False, "does not say"),
    ],
)
def test_the_flags_of_a_processor_decide(cpu_info: str, found: bool, words: str) -> None:
    answer, reason = find_cpu_bfloat16(cpu_info)
    assert answer == found and words in reason


def test_a_system_without_cpu_info_trains_in_float32(base: Path, processor: Any) -> None:
    assert chosen(base, "trainer.precision=auto") == "32-true"


@pytest.mark.parametrize(("is_native", "expected"), [(True, "bf16-mixed"), (False, "32-true")])
@pytest.mark.parametrize(("accelerator", "asked"), [("auto", True), ("gpu", True), ("cpu", False)])
def test_a_gpu_is_asked_where_it_is_trained_on(
    base: Path,
    processor: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_native: bool,
    expected: str,
    accelerator: str,
    asked: bool,
) -> None:
    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return is_native or including_emulation

    processor(OLD)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_bf16_supported)
    typed = "trainer.precision=auto", f"trainer.accelerator={accelerator}"
    assert chosen(base, *typed) == (expected if asked else "32-true")


@pytest.mark.slow
def test_a_resumed_run_keeps_its_precision_and_a_new_one_from_its_weights_chooses(
    base: Path, processor: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "trainer.precision=auto", "schedule.steps=2"
    processor(NEW)
    first = train_tiny(base, *options, "trainer.max_steps=1")
    assert precision_in(first) == "bf16-mixed"
    assert "precision: bf16-mixed (this processor has amx_bf16)" in capsys.readouterr().out
    processor(OLD)
    path = first / "last.ckpt"
    resumed = train_tiny(base, *options, "trainer.max_steps=2", f"resume={path}")
    out, err = capsys.readouterr()
    assert precision_in(resumed) == "bf16-mixed"
    assert "precision: bf16-mixed (as in the run that is resumed)\n" in out
    assert f"init={path}" in err  # which can be typed, unlike another precision
    assert chosen(base, "trainer.precision=auto", f"init={path}") == "32-true"


def test_a_run_begun_in_float32_goes_on_in_it_elsewhere(base: Path, processor: Any) -> None:
    processor(NEW)
    path = demo_run(base) / "last.ckpt"
    for resume, expected in ((path, "32-true"), ("null", "bf16-mixed")):
        assert chosen(base, "trainer.precision=auto", f"resume={resume}") == expected


def test_a_checkpoint_that_does_not_say_its_precision_leaves_it_to_the_machine(
    base: Path, processor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processor(NEW)
    (tmp_path / "last.ckpt").touch()
    monkeypatch.setattr(checkpoint, "read", lambda path: SimpleNamespace(config={}))
    typed = "trainer.precision=auto", f"resume={tmp_path / 'last.ckpt'}"
    assert chosen(base, *typed) == "bf16-mixed"


@pytest.mark.parametrize(
    ("cpu_info", "typed", "warned"),
    [
        (OLD, "bf16-mixed", True),
        (OLD, "16-mixed", True),
        ("", "bf16-mixed", True),
        (OLD, "32-true", False),
        (OLD, "auto", False),
        (NEW, "bf16-mixed", False),
    ],
)
def test_what_is_emulated_is_warned_of_in_one_line(
    base: Path,
    processor: Any,
    capsys: pytest.CaptureFixture[str],
    *,
    cpu_info: str,
    typed: str,
    warned: bool,
) -> None:
    processor(cpu_info)
    assert chosen(base, f"trainer.precision={typed}") == ("32-true" if typed == "auto" else typed)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 and out.startswith("precision: ")
    assert len(err.splitlines()) == warned
    if warned:
        assert err.startswith(f"warning: trainer.precision={typed} is emulated")
        assert "trainer.precision=auto" in err


def test_only_the_first_process_of_a_run_says_it(
    base: Path, processor: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(OLD)
    monkeypatch.setenv("LOCAL_RANK", "1")
    chosen(base, "trainer.precision=bf16-mixed")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("cpu_info", "said"), [(OLD, "32-true"), (NEW, "bf16-mixed")], ids=["old", "new"]
)
def test_a_dry_run_says_the_precision_and_tries_it(
    base: Path,
    processor: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cpu_info: str,
    said: str,
) -> None:
    tried = []

    def stop(options: TrainerOptions, *_: Any, **__: Any) -> None:
        tried.append(options.precision)
        raise SystemExit

    monkeypatch.setattr("seq2seq.training.dry_run.build_trainer", stop)
    processor(cpu_info)
    with pytest.raises(SystemExit):
        train_tiny(base, "dry_run=true", "trainer.precision=auto")
    assert tried == [said] and f"precision: {said} (this processor" in capsys.readouterr().out


@pytest.mark.parametrize(("mine", "differs"), [("32-true", False), ("bf16-mixed", True)])
def test_processes_that_would_compute_in_different_precisions_are_all_refused(
    mine: str, differs: bool
) -> None:
    strategy = SimpleNamespace(
        broadcast=lambda _: "32-true",  # of the first process
        reduce_boolean_decision=lambda decision, all: decision or differs,
    )
    trainer: Any = SimpleNamespace(strategy=strategy)
    if differs:
        for precision in (mine, "32-true"):
            with pytest.raises(ConfigError, match="type trainer.precision=32-true"):
                check_same_precision(trainer, precision)
    else:
        check_same_precision(trainer, mine)
