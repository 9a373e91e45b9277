"""The configuration nodes that no model class reads: names, types and ranges."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range

FROM_CHECKPOINT = "checkpoint"  # the name of conf/tokenizer/checkpoint.yaml
INT8_AWARE = "int8-aware"  # a trainer.precision
MONITORS = ("bleu", "chrf", "exact", "ser", "loss")
COMMAND = "command:"  # before a program, as checkpoint.monitor
AUTO = "auto"  # resume= the last.ckpt of the run's folder, if it is there


def check_minimums(node: str, options: object, **minimums: float) -> None:
    """Raises: ConfigError for an option of a node that is less than its minimum."""
    for name, minimum in minimums.items():
        check_range(f"{node}.{name}", getattr(options, name), minimum)


@dataclass(frozen=True)
class RunOptions:
    """The single options of conf/train.yaml."""

    seed: int
    resume: str | None
    dry_run: bool
    run_name: str

    def __post_init__(self) -> None:
        check_range("seed", self.seed, 0, 2**32)
        if self.resume not in (None, AUTO) and not Path(str(self.resume)).is_file():
            raise ConfigError(
                f"resume={self.resume}: there is no such file; give a last.ckpt, or {AUTO} to "
                "continue from that of hydra.run.dir, if there is one"
            )


@dataclass(frozen=True)
class InitOptions:
    """`init`: see conf/train.yaml."""

    checkpoint: str | None = None
    vocabulary: Literal["same", "mapped"] = "same"

    def __post_init__(self) -> None:
        if self.checkpoint is not None and not Path(self.checkpoint).exists():
            raise ConfigError(f"init={self.checkpoint}: there is no such checkpoint or run")
        if self.checkpoint is None and self.vocabulary == "mapped":
            raise ConfigError(
                "init.vocabulary=mapped needs a model whose pieces are mapped: init=PATH"
            )


@dataclass(frozen=True)
class LossOptions:
    """`loss`: see conf/train.yaml."""

    label_smoothing: float = 0.1
    r_drop: float = 0.0
    simcut: float = 0.0
    simcut_p: float = 0.05

    def __post_init__(self) -> None:
        check_range("loss.label_smoothing", self.label_smoothing, 0, 1)
        check_range("loss.simcut_p", self.simcut_p, 0, 1)
        check_minimums("loss", self, r_drop=0, simcut=0)
        if self.r_drop and self.simcut:
            raise ConfigError(
                f"loss.r_drop={self.r_drop} and loss.simcut={self.simcut} are two losses of two "
                "passes: keep one of them, and set the other to 0"
            )
        if self.simcut and not self.simcut_p:
            raise ConfigError(
                f"loss.simcut={self.simcut} compares with a pass in which inputs are cut, but "
                "loss.simcut_p=0 cuts none: loss.simcut_p=0.05, or loss.simcut=0"
            )
        if not self.simcut and self.simcut_p != LossOptions.simcut_p:
            raise ConfigError(
                f"loss.simcut_p={self.simcut_p} has no effect without loss.simcut: loss.simcut=3"
            )


@dataclass(frozen=True)
class GuidedOptions:
    """`guided`: the links of the training text, and the head that is trained on them.

    `links` and `valid` are a file each, or {NAME: file} for some of several corpora.
    """

    links: str | dict[str, Any] | None = None
    valid: str | dict[str, Any] | None = None
    unlinked: Literal["end", "free"] = "end"
    layer: int | None = None
    head: int = 1
    weight: float = 0.5

    def __post_init__(self) -> None:
        check_minimums("guided", self, layer=1, head=1, weight=0)
        if self.weight == 0:
            raise ConfigError(
                "guided.weight=0 trains nothing: guided.weight=0.5, or guided.links=null"
            )
        if self.valid is not None and self.links is None:
            raise ConfigError(
                f"guided.valid={self.valid} measures a head that is trained on guided.links, which "
                "are not given: guided.links=FILE"
            )


@dataclass(frozen=True)
class ValidationOptions:
    """`validation`: the sentences translated for BLEU (null = all), and those that are shown."""

    sentences: int | None = None
    samples: int = 3

    def __post_init__(self) -> None:
        check_minimums("validation", self, sentences=1, samples=0)


@dataclass(frozen=True)
class CheckpointOptions:
    """`checkpoint`: the metric of the best, the end without progress, saves, and what to keep."""

    monitor: str = "bleu"
    mode: Literal["max", "min"] | None = None
    patience: int | None = None
    every: int = 500
    keep_best: int = 0
    keep_last: int = 0
    ema: float | None = None

    def __post_init__(self) -> None:
        check_minimums("checkpoint", self, patience=1, every=1, keep_best=0, keep_last=0)
        check_range("checkpoint.ema", self.ema, 0, 1)
        if self.command is not None:
            check_command(self.command)
        elif self.monitor not in MONITORS:
            raise ConfigError(
                f"checkpoint.monitor={self.monitor!r} should be one of {', '.join(MONITORS)}, or "
                f"{COMMAND}PROGRAM, which reads translations and references and prints a number"
            )
        elif self.mode is not None:
            raise ConfigError(
                f"checkpoint.mode={self.mode} is for a command's number; which {self.monitor} is "
                "better is known: checkpoint.mode=null"
            )

    @property
    def command(self) -> str | None:
        """The program that judges a validation, if one does."""
        is_command = self.monitor.startswith(COMMAND)
        return self.monitor.removeprefix(COMMAND) if is_command else None

    @property
    def label(self) -> str:
        """The word for the metric in curves, messages and names of files."""
        return self.monitor if self.command is None else "command"

    @property
    def metric(self) -> str:
        return f"valid/{self.label}"

    @property
    def direction(self) -> Literal["max", "min"]:
        return self.mode or ("min" if self.monitor in ("loss", "ser") else "max")


def check_command(command: str) -> None:
    """Raises: ConfigError for a command that no shell could read, or whose program is missing."""
    try:
        program = next(iter(shlex.split(command)), "")
    except ValueError as error:
        raise ConfigError(f"checkpoint.monitor={COMMAND}{command}: {error}") from error
    if shutil.which(program) is None:
        raise ConfigError(
            f"checkpoint.monitor={COMMAND}{command}: there is no program {program!r}. Type "
            f"one that is installed, or its path, as {COMMAND}python my/score.py"
        )


@dataclass(frozen=True)
class TrainerOptions:
    """`trainer`: arguments of lightning.Trainer, under its names; steps are weight updates. Its
    precision knows another value, see `Int8Passes`.
    """

    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: int | str | list[int] = "auto"
    num_nodes: int = 1
    strategy: Literal["auto", "ddp"] = "auto"
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed", "int8-aware"] = "auto"
    max_steps: int = 10_000
    max_epochs: int = -1
    max_time: str | None = None
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = 1.0
    val_check_interval: int = 500
    log_every_n_steps: int = 50

    def __post_init__(self) -> None:
        check_minimums(
            "trainer",
            self,
            accumulate_grad_batches=1,
            val_check_interval=1,
            log_every_n_steps=1,
            gradient_clip_val=0,
        )
        for name in ("max_steps", "max_epochs"):
            limit = getattr(self, name)
            if limit < 1 and limit != -1:
                raise ConfigError(
                    f"trainer.{name}={limit} trains nothing: give 1 or more, or -1 for no limit. "
                    "To check a run without training: dry_run=true"
                )
        if self.max_time is not None and not re.fullmatch(
            r"(?=.*[1-9])\d{1,6}:\d\d:\d\d:\d\d", self.max_time
        ):
            raise ConfigError(
                f"trainer.max_time={self.max_time} should be days:hours:minutes:seconds, for "
                "example 00:01:30:00"
            )
        if self.max_steps < 0 and self.max_epochs < 0 and self.max_time is None:
            raise ConfigError(
                "nothing ends this training: set trainer.max_steps, trainer.max_epochs or "
                "trainer.max_time=00:01:00:00 (days:hours:minutes:seconds)"
            )


@dataclass(frozen=True)
class OptimizerOptions:
    """`optimizer`: adam or adamw; lr is the peak of the schedule."""

    name: Literal["adam", "adamw"]
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def __post_init__(self) -> None:
        check_minimums("optimizer", self, lr=0, eps=0, weight_decay=0)
        for index, beta in enumerate(self.betas):
            check_range(f"optimizer.betas[{index}]", beta, 0, 1)
