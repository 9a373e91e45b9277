"""`trainer.precision=auto`: bfloat16 where the machine has instructions for it, else float32.

Without such instructions torch emulates bfloat16, and training takes many times longer.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import torch

from seq2seq import checkpoint
from seq2seq.environment import is_first_process
from seq2seq.errors import ConfigError
from seq2seq.training.config.options import TrainerOptions

CPU_INFO = Path("/proc/cpuinfo")
# Flags of processors that multiply in bfloat16: x86 with tiles, x86 with vectors, Arm.
FLAGS = ("amx_bf16", "avx512_bf16", "bf16")


def choose_precision(options: TrainerOptions, resume: str | None) -> TrainerOptions:
    """The options with a precision in place of `auto`; a run that is resumed keeps its own.

    The first process of a run prints the precision, and a warning if it is emulated.

    Args:
        resume: the checkpoint that the run resumes.

    Raises: CheckpointError if it cannot be read.
    """
    on_gpu = options.accelerator != "cpu" and torch.cuda.is_available()
    is_fast, reason = find_gpu_bfloat16() if on_gpu else find_cpu_bfloat16(read_cpu_info())
    precision, why, instead = options.precision, "", "trainer.precision=auto"
    if resume is not None:
        instead = f"a new run from its weights, init={resume} trainer.precision=auto"
    if precision == "auto":
        precision, why = ("bf16-mixed" if is_fast else "32-true"), f" ({reason})"
        if resume is not None and (before := precision_of_run(resume)) is not None:
            precision, why = before, " (that of the run that is resumed)"
    if is_first_process():
        print(f"precision: {precision}{why}", flush=True)
        # On a CPU, Lightning computes 16-mixed in bfloat16 too.
        is_half = precision in ("bf16-mixed", "16-mixed")
        if not is_fast and is_half and not (on_gpu and precision == "16-mixed"):
            print(
                f"warning: trainer.precision={precision} is emulated, and many times slower than "
                f"32-true: {reason}. Type {instead}",
                file=sys.stderr,
            )
    return replace(options, precision=precision)


def find_cpu_bfloat16(cpu_info: str) -> tuple[bool, str]:
    """Has a processor instructions for products in bfloat16? And the answer in words.

    torch is not asked: it says yes where they are emulated, too.

    Args:
        cpu_info: the text of /proc/cpuinfo, or "" where there is none.
    """
    lines = (line.partition(":") for line in cpu_info.splitlines())
    words = [words for name, _, words in lines if name.strip() in ("flags", "Features")]
    flags = set(" ".join(words).split())
    if not flags:
        return False, "this system does not say which instructions its processor has"
    for flag in FLAGS:
        if flag in flags:
            return True, f"this processor has {flag}"
    return False, "this processor has no instructions for bfloat16"


def read_cpu_info() -> str:
    return CPU_INFO.read_text(encoding="utf-8", errors="replace") if CPU_INFO.is_file() else ""


def find_gpu_bfloat16() -> tuple[bool, str]:
    """As `find_cpu_bfloat16`, of the GPU."""
    is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
    return is_fast, f"this GPU has {'' if is_fast else 'no '}instructions for bfloat16"


def precision_of_run(path: str) -> Any:
    """The precision of the run that wrote a checkpoint; None if it is none of a run."""
    return (checkpoint.read(path).config.get("update") or {}).get("precision")


def check_same_precision(trainer: L.Trainer, precision: str) -> None:
    """Raises: ConfigError, in all processes of a run, if their machines chose differently."""
    differs = trainer.strategy.broadcast(precision) != precision
    if trainer.strategy.reduce_boolean_decision(differs, all=False):
        raise ConfigError(
            "trainer.precision=auto is bf16-mixed on some machines of this run and 32-true on "
            "others, which lack instructions for bfloat16: type trainer.precision=32-true"
        )
