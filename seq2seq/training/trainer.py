"""Lightning's Trainer and its callbacks, built from the options of a run.

`trainer.precision=auto` is bfloat16 if the machine has instructions for it, else float32. Without
such instructions torch emulates bfloat16, and training takes many times longer.
"""

import logging
import math
import os
import platform
import sys
import warnings
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import lightning as L
import torch
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import DDPStrategy

from seq2seq import checkpoint
from seq2seq.base.environment import is_first_process
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.folder import KEPT
from seq2seq.training.callbacks import (
    FinalValidation,
    Int8Passes,
    MeanLoss,
    MovingAverage,
    NextEpoch,
    RandomState,
)
from seq2seq.training.checkpointing import (
    AtomicCheckpoints,
    BestCheckpoint,
    LastCheckpoint,
    Trainer,
)
from seq2seq.training.command_score import CommandScore
from seq2seq.training.config.options import INT8_AWARE, CheckpointOptions, TrainerOptions
from seq2seq.training.config.packing import check_packed_device
from seq2seq.training.config.plan import Plan
from seq2seq.training.reporter import ProgressBar, Reporter
from seq2seq.training.sharpness import SharpestLayer
from seq2seq.training.stopping import Patience, StopOnDivergence, StopOnSignal
from seq2seq.training.sweep import has_several_processes

CPU_INFO = Path("/proc/cpuinfo")
# Flags of processors with bfloat16 multiplication: x86 with tiles, x86 with vectors, Arm.
FLAGS = ("amx_bf16", "avx512_bf16", "bf16")
SILENCE = 60.0  # longest silence of a run without a terminal, in seconds


def build_trainer(
    options: TrainerOptions, loggers: list[Logger], callbacks: list[L.Callback], static: bool
) -> L.Trainer:
    """Build Lightning's trainer from its options.

    Two options are handled elsewhere: `max_time` by a Timer among the callbacks, which also knows
    the time afterwards, and `gradient_clip_val` by `TrainingModule`.

    Args:
        static: True if torch may rely on each batch using all parameters once.

    Raises: ConfigError if a device is missing, or if Lightning refuses an option.
    """
    silence_advice()
    arguments = asdict(options)
    for name in ("max_time", "gradient_clip_val", "compile", "packed", "timeout"):
        del arguments[name]
    arguments["val_check_interval"] *= options.accumulate_grad_batches  # in micro-batches
    if options.precision == INT8_AWARE:
        arguments["precision"] = "32-true"
    if has_several_processes(options):
        wait = timedelta(minutes=options.timeout)
        arguments["strategy"] = DDPStrategy(
            timeout=wait, static_graph=static, bucket_cap_mb=64, gradient_as_bucket_view=True
        )
    if options.accelerator == "auto":  # the same choice as in `Translator`; MPS has no float64
        arguments["accelerator"] = "gpu" if torch.cuda.is_available() else "cpu"
    try:
        trainer = Trainer(
            **arguments,
            plugins=[AtomicCheckpoints(), *slurm_environment()],
            # Lightning would load an hpc_ckpt_1.ckpt from this folder. It writes nothing to it.
            default_root_dir=os.devnull,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_model_summary=False,
            enable_progress_bar=any(isinstance(c, ProgressBar) for c in callbacks),
            enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
            logger=loggers,
            callbacks=callbacks,
        )
    except (MisconfigurationException, TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"the options of trainer do not suit this machine: {error}") from error
    if options.packed:
        check_packed_device(trainer.world_size, trainer.strategy.root_device, options.precision)
    return trainer


def slurm_environment() -> list[SLURMEnvironment]:
    """The plug-in for Slurm without automatic requeuing, if Lightning would detect Slurm.

    On SIGUSR1 Lightning would save another file and queue the job again. Here a run saves last.ckpt
    and ends (see `StopOnSignal`), and `resume=auto` continues it.
    """
    if TorchElasticEnvironment.detect() or not SLURMEnvironment.detect():
        return []
    return [SLURMEnvironment(auto_requeue=False)]


def silence_advice() -> None:
    """Silence advice from Lightning that does not apply here: the loaders shard and resume by
    themselves, and the run's folder contains Hydra's record before Lightning sees it.
    """
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    advice = (
        "does not have many workers",
        "exists and is not empty",
        "dirpath has changed",
        "LeafSpec",
        "smaller than the logging interval",
        "have no `val_dataloader`",
        "Be aware that when using `ckpt_path`",
        "was called before the ``update`` method",
        "The `srun` command is available",
        "was constructed with capturable=True",
    )
    for message in advice:
        warnings.filterwarnings("ignore", message=f".*{message}.*")


def best_checkpoint(folder: Path, options: CheckpointOptions) -> ModelCheckpoint:
    return BestCheckpoint(
        dirpath=folder,
        filename="best",
        monitor=options.metric,
        mode=options.direction,
        enable_version_counter=False,
    )


def weight_callbacks(folder: Path, options: CheckpointOptions) -> list[L.Callback]:
    """Callbacks that keep the weights of several validations, for `seq2seq average`."""
    score = f"-{options.label}{{{options.metric}:.4f}}"
    wanted = (
        ("best", options.keep_best, options.metric, options.direction, score),
        ("last", options.keep_last, "step", "max", ""),
    )
    return [
        ModelCheckpoint(
            dirpath=folder / KEPT,
            filename=f"{name}-step{{step:07d}}{suffix}",
            auto_insert_metric_name=False,
            monitor=monitor,
            mode=mode,
            save_top_k=count,
            save_weights_only=True,
            enable_version_counter=False,
        )
        for name, count, monitor, mode, suffix in wanted
        if count
    ]


def build_callbacks(plan: Plan) -> list[L.Callback]:
    """All callbacks except the one for best.ckpt, in the order in which they act on an update."""
    options, has_bar = plan.checkpoint, sys.stdout.isatty()
    metric, patience, mode = options.metric, options.patience, options.direction
    last = LastCheckpoint(plan.folder, options.every)
    callbacks = [
        RandomState(plan.run.seed),
        NextEpoch(),
        FinalValidation(),
        StopOnDivergence(plan.folder, plan.optimizer.lr),
        MovingAverage(options.ema) if options.ema is not None else None,
        MeanLoss(),
        Int8Passes() if plan.trainer.precision == INT8_AWARE else None,
        CommandScore(options.command, plan.trainer.timeout) if options.command else None,
        SharpestLayer(),
        Reporter(math.inf if has_bar else SILENCE),
        ProgressBar() if has_bar else None,
        Patience(metric, patience=patience, mode=mode) if patience else None,
        *weight_callbacks(plan.folder, options),
        StopOnSignal(last, plan.trainer.timeout),
        last,
    ]
    return [each for each in callbacks if each is not None]


def choose_precision(options: TrainerOptions, resume: str | None) -> TrainerOptions:
    """The options with the chosen precision in place of `auto`; a resumed run keeps its precision.

    The first process of a run prints the precision, and a warning if it is emulated.

    Args:
        options: options of the trainer.
        resume: checkpoint that the run resumes, if any.

    Raises: CheckpointError if the checkpoint cannot be read.
    """
    on_gpu = options.accelerator != "cpu" and torch.cuda.is_available()
    is_fast, reason = find_gpu_bfloat16() if on_gpu else find_cpu_bfloat16(read_cpu_info())
    precision, why, advice = options.precision, "", "Type trainer.precision=auto"
    if resume is not None:
        advice = f"Start a new run from its weights: init={resume} trainer.precision=auto"
    if precision == "auto":
        precision, why = ("bf16-mixed" if is_fast else "32-true"), f" ({reason})"
        update = {} if resume is None else checkpoint.read(resume).config.get("update") or {}
        if update.get("precision") is not None:
            precision, why = update["precision"], " (as in the run that is resumed)"
    if is_first_process():
        print(f"precision: {precision}{why}", flush=True)
        # On a CPU, Lightning computes 16-mixed in bfloat16 too.
        is_half = precision in ("bf16-mixed", "16-mixed")
        if not is_fast and is_half and not (on_gpu and precision == "16-mixed"):
            print(
                f"warning: trainer.precision={precision} is emulated, and many times slower than "
                f"32-true: {reason}. {advice}",
                file=sys.stderr,
            )
    return replace(options, precision=precision)


def find_cpu_bfloat16(cpu_info: str) -> tuple[bool, str]:
    """True if the processor has instructions for bfloat16 products; and the reason in words.

    torch's own answer is not used, since it is also yes if the instructions are emulated.

    Args:
        cpu_info: text of /proc/cpuinfo, or "" if there is no such file.
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
    """The text of /proc/cpuinfo; "" if there is none, or if it is of the host of an emulator."""
    text = CPU_INFO.read_text(encoding="utf-8", errors="replace") if CPU_INFO.is_file() else ""
    is_of_host = platform.machine() == "aarch64" and "Features" not in text
    return "" if is_of_host else text


def find_gpu_bfloat16() -> tuple[bool, str]:
    """True if the GPU has instructions for bfloat16; and the reason in words."""
    is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
    return is_fast, f"this GPU has {'' if is_fast else 'no '}instructions for bfloat16"


def check_same_precision(trainer: L.Trainer, precision: str) -> None:
    """Check that all machines of a run chose the same precision.

    Raises: ConfigError, in all processes, if they did not.
    """
    differs = trainer.strategy.broadcast(precision) != precision
    if trainer.strategy.reduce_boolean_decision(differs, all=False):
        raise ConfigError(
            "trainer.precision=auto is bf16-mixed on some machines of this run and 32-true on "
            "others, which lack instructions for bfloat16: type trainer.precision=32-true"
        )
