"""Names, types and ranges of the options that no model class reads."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seq2seq.base.errors import ConfigError
from seq2seq.base.options import REQUIRED, option

FROM_CHECKPOINT = "checkpoint"  # the name of conf/tokenizer/checkpoint.yaml
INT8_AWARE = "int8-aware"  # a trainer.precision
MONITORS = ("bleu", "chrf", "exact", "ser", "loss")
COMMAND = "command:"  # start of a checkpoint.monitor that names a program
AUTO = "auto"  # a value of `resume`: the last.ckpt in the run's folder, if there is one


@dataclass(frozen=True)
class RunOptions:
    """The options on the top level of conf/train.yaml."""

    seed: int = option(
        REQUIRED, "seed of weights, dropout and the order of batches", minimum=0, below=2**32
    )
    resume: str | None = option(
        REQUIRED,
        "last.ckpt to continue from; auto: the one in hydra.run.dir, if any; null: a new run",
    )
    dry_run: bool = option(REQUIRED, "true: try the largest batches, print memory and speed, stop")
    run_name: str = option(REQUIRED, "name of the run, used in the name of its folder")

    def __post_init__(self) -> None:
        if self.resume not in (None, AUTO) and not Path(str(self.resume)).is_file():
            raise ConfigError(
                f"resume={self.resume}: there is no such file; type the path of a last.ckpt, or "
                f"{AUTO} for the one in hydra.run.dir, if any"
            )


@dataclass(frozen=True)
class InitOptions:
    """Options of `init`: the weights that a new run starts from."""

    checkpoint: str | None = option(
        None, "checkpoint or run to take the weights from; short: init=PATH; null: new weights"
    )
    vocabulary: Literal["same", "mapped"] = option(
        "same",
        "same | mapped: new pieces start as the mean of the old pieces that spell them",
    )

    def __post_init__(self) -> None:
        if self.checkpoint is not None and not Path(self.checkpoint).exists():
            raise ConfigError(f"init={self.checkpoint}: there is no such checkpoint or run")
        if self.checkpoint is None and self.vocabulary == "mapped":
            raise ConfigError(
                "init.vocabulary=mapped needs a model to start from: type init=PATH as well"
            )


@dataclass(frozen=True)
class LossOptions:
    """Options of `loss`: label smoothing, R-Drop and SimCut."""

    label_smoothing: float = option(
        0.1, "probability spread evenly over the vocabulary; 0: none", minimum=0, below=1
    )
    r_drop: float = option(
        0.0,
        "weight alpha of R-Drop, which compares two dropout passes; 5 is usual; 0: none",
        minimum=0,
    )
    simcut: float = option(
        0.0,
        "weight alpha of SimCut, which compares a pass with inputs cut; 3 is usual; 0: none",
        minimum=0,
    )
    simcut_p: float = option(
        0.05, "probability that SimCut hides an input, on either side", minimum=0, below=1
    )

    def __post_init__(self) -> None:
        if self.r_drop and self.simcut:
            raise ConfigError(
                f"loss.r_drop={self.r_drop} and loss.simcut={self.simcut} cannot be combined: keep "
                "one of them, and set the other to 0"
            )
        if self.simcut and not self.simcut_p:
            raise ConfigError(
                f"loss.simcut={self.simcut} compares with a pass in which inputs are cut, but "
                "loss.simcut_p=0 cuts none: type loss.simcut_p=0.05, or loss.simcut=0"
            )
        if not self.simcut and self.simcut_p != LossOptions.simcut_p:
            raise ConfigError(
                f"loss.simcut_p={self.simcut_p} needs loss.simcut above 0: type loss.simcut=3"
            )


@dataclass(frozen=True)
class GuidedOptions:
    """Options of `guided`: the head of cross-attention that is trained on given links."""

    links: str | dict[str, Any] | None = option(
        None,
        "file of links i-j for data.train, or {NAME: file} for several corpora; null: none",
    )
    valid: str | dict[str, Any] | None = option(
        None, "the same for data.valid, to log valid/align_loss; null: none"
    )
    unlinked: Literal["end", "free"] = option(
        "end", "end | free: words without links attend to the source's end, or anywhere"
    )
    layer: int | None = option(
        None, "decoder layer, from 1; null: the last but one, or the last of two", minimum=1
    )
    head: int = option(1, "head of that layer, from 1", minimum=1)
    weight: float = option(0.5, "weight of the alignment loss (translation loss: 1)", minimum=0)

    def __post_init__(self) -> None:
        if self.weight == 0:
            raise ConfigError(
                "guided.weight=0 trains nothing: type guided.weight=0.5, or guided.links=null"
            )
        if self.valid is not None and self.links is None:
            raise ConfigError(
                f"guided.valid={self.valid} measures a head that is trained on guided.links, but "
                "there are none: type guided.links=FILE as well"
            )


@dataclass(frozen=True)
class ValidationOptions:
    """Options of `validation`: the sentences that are translated to validate the model."""

    sentences: int | None = option(
        500, "sentences translated for BLEU (the loss is always that of all); null: all", minimum=1
    )
    samples: int = option(3, "translations shown at each validation", minimum=0)


@dataclass(frozen=True)
class CheckpointOptions:
    """Options of `checkpoint`: the choice of the best model, early stopping, and what is saved."""

    monitor: str = option(
        "bleu",
        "choice of best.ckpt: bleu | chrf | exact | ser | loss | command:PROGRAM",
    )
    mode: Literal["max", "min"] | None = option(
        None, "max | min: whether a larger or a smaller number of a command is better; null: max"
    )
    patience: int | None = option(
        None, "validations without improvement after which training ends; null: no limit", minimum=1
    )
    every: int = option(
        500, "updates between saves of last.ckpt, from which a run can resume exactly", minimum=1
    )
    keep_best: int = option(
        0, "number of best validations whose weights to keep, for `seq2seq average`", minimum=0
    )
    keep_last: int = option(0, "number of last validations to keep, likewise", minimum=0)
    ema: float | None = option(
        None,
        "decay of averaged weights, which are validated and saved, such as 0.999; null: none",
        minimum=0,
        below=1,
    )

    def __post_init__(self) -> None:
        if self.command is not None:
            check_command(self.command)
        elif self.monitor not in MONITORS:
            raise ConfigError(
                f"checkpoint.monitor={self.monitor!r} should be one of {', '.join(MONITORS)}, or "
                f"{COMMAND}PROGRAM, which reads translations and references and prints a number"
            )
        elif self.mode is not None:
            raise ConfigError(
                f"checkpoint.mode={self.mode} is only for the number of a command, not for "
                f"{self.monitor}: type checkpoint.mode=null"
            )

    @property
    def command(self) -> str | None:
        """The program that scores a validation; None if `monitor` is not a command."""
        is_command = self.monitor.startswith(COMMAND)
        return self.monitor.removeprefix(COMMAND) if is_command else None

    @property
    def label(self) -> str:
        """The name of the metric in curves, messages and file names."""
        return self.monitor if self.command is None else "command"

    @property
    def metric(self) -> str:
        return f"valid/{self.label}"

    @property
    def direction(self) -> Literal["max", "min"]:
        return self.mode or ("min" if self.monitor in ("loss", "ser") else "max")


def check_command(command: str) -> None:
    """Check that a command can be run.

    Raises: ConfigError if a shell could not parse it, or if its program is missing.
    """
    try:
        program = next(iter(shlex.split(command)), "")
    except ValueError as error:
        raise ConfigError(f"checkpoint.monitor={COMMAND}{command}: {error}") from error
    if shutil.which(program) is None:
        raise ConfigError(
            f"checkpoint.monitor={COMMAND}{command}: there is no program {program!r}. Type the "
            f"name or path of an installed program, for example {COMMAND}python my/score.py"
        )


@dataclass(frozen=True)
class TrainerOptions:
    """Options of `trainer`: arguments of lightning.Trainer under the same names. Steps are weight
    updates, and the precision has one more value, `int8-aware` (see `Int8Passes`). `packed` is ours
    (see `PackedUpdate`).
    """

    accelerator: Literal["auto", "cpu", "gpu"] = option("auto", "auto | cpu | gpu")
    devices: int | str | list[int] = option("auto", "auto, or the number of devices")
    num_nodes: int = option(1, "machines")
    strategy: Literal["auto", "ddp"] = option("auto", "auto | ddp: gradients summed over devices")
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed", "int8-aware"] = option(
        "auto",
        "auto | 32-true | bf16-mixed | 16-mixed | int8-aware (32-true with 8-bit rounding); auto: "
        "bf16-mixed where the hardware has instructions for it, else 32-true",
    )
    max_steps: int = option(10_000, "updates; -1: no limit")
    max_epochs: int = option(-1, "passes over the corpus; -1: no limit")
    max_time: str | None = option(
        None, "training time DD:HH:MM:SS, including resumed parts; null: no limit"
    )
    accumulate_grad_batches: int = option(
        1, "micro-batches per update; data.max_tokens is their sum", minimum=1
    )
    gradient_clip_val: float | None = option(
        1.0, "maximum norm of the gradient; null: no limit", minimum=0
    )
    val_check_interval: int = option(
        500, "updates between two validations; the last update is validated too", minimum=1
    )
    log_every_n_steps: int = option(50, "updates between two lines of metrics.csv", minimum=1)
    compile: Literal["auto", True, False] = option(
        "auto", "auto | true | false: compile the layers of a Transformer; auto: on GPUs"
    )
    packed: bool = option(
        False,
        "true: batches without padding between sentences, all of one size; see docs/training.md",
    )
    timeout: float = option(
        30.0, "minutes that a process waits for the others, as for a command", minimum=0.1
    )

    def __post_init__(self) -> None:
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
    """Options of `optimizer`: Adam or AdamW."""

    name: Literal["adam", "adamw"]
    lr: float = option(REQUIRED, "peak of the schedule", minimum=0)
    betas: tuple[float, float] = option(
        REQUIRED, "decay of the running means of gradients and of their squares", minimum=0, below=1
    )
    eps: float = option(REQUIRED, "added to the root of the mean square gradient", minimum=0)
    weight_decay: float = option(
        REQUIRED, "adam: L2 penalty; adamw: share of a weight subtracted, times lr", minimum=0
    )
