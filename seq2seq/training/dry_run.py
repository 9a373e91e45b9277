"""A check before a long run: the memory of the largest batch, and the time of an update."""

import math
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import EvalBatches
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.prepare import Prepared
from seq2seq.training.build import build_module, restore
from seq2seq.training.command_score import run_score_command, trial_of
from seq2seq.training.config.options import INT8_AWARE, TrainerOptions
from seq2seq.training.config.plan import Plan
from seq2seq.training.loaders import train_loader
from seq2seq.training.trainer import build_trainer

ROUNDS = 2  # the first is a warm-up
SHAPES = 12  # number of batches to try besides the largest
# Measured bounds on the memory of a CPU run, relative to its dry run. A run has tensors of more
# shapes, which fragment memory; in 16 bits, oneDNN also compiles a kernel for each shape.
FULL, HALF = (1.0, 1.45), (1.15, 1.65)
GROWTH = {"32-true": FULL, INT8_AWARE: FULL, "bf16-mixed": HALF, "16-mixed": HALF}
GB = 2**30


def dry_run(plan: Plan, prepared: Prepared) -> None:
    """Train and validate briefly as one device of the run would; print memory use and speed.

    The batches are those of the first epoch, including the largest. No model is written.

    Raises: ConfigError if memory does not suffice (the message says what to make smaller), or if
        torchrun started this process.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ConfigError(
            f"dry_run=true tries one device, so start it without torchrun: {training_command()} ..."
        )
    module = build_module(plan, prepared)
    plan = module.plan
    restore(plan.resume, module, prepared.tokenizers)
    if plan.checkpoint.command is not None:
        run_score_command(plan.checkpoint.command, trial_of(module.sentences))
    world = build_trainer(plan.trainer, [], [], static=False).world_size
    steps = plan.trainer.accumulate_grad_batches
    loader = train_loader(plan, prepared, world=world)
    epoch, rows = list(loader.batches(0)), loader.rows(0)
    largest = largest_batches(loader.lengths(0), epoch)
    batches = [*largest, *sample_batches(epoch)]
    pieces = [loader.piece(rows, batch, step, 0) for batch in batches for step in range(steps)]
    valid = valid_batches(prepared.valid, plan.data.max_tokens, world)
    timer = UpdateTimer()
    alone = replace(
        plan.trainer,
        devices=1,
        num_nodes=1,
        strategy="auto",
        max_steps=ROUNDS * len(batches),
        max_epochs=-1,
        val_check_interval=ROUNDS * len(batches),
    )
    trainer = build_trainer(alone, [], [timer], static=False)
    tried = pieces[: steps * len(largest) : steps]
    shape = " and ".join(f"{b.source.shape[0]} x {b.source.shape[1]}" for b in tried)
    try:
        with limit_memory():
            trainer.fit(module, loader_of(pieces), loader_of(valid))
    except (MemoryError, RuntimeError) as error:
        # torch raises a RuntimeError if the machine or a GPU runs out of memory.
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        half = max(plan.data.max_length, plan.data.max_tokens // 2)
        raise ConfigError(
            f"the largest batch ({shape} source pieces) does not fit into memory: take "
            f"data.max_tokens={half}, or keep the batch size and split it: "
            f"trainer.accumulate_grad_batches={2 * steps}"
        ) from error
    print(f"dry run on the largest batches, {shape} source pieces, on one of {world} device(s)")
    tokens = sum(prepared.train.count_tokens(batch) for batch in epoch)
    growth = 1.0 if loader.variants is None else loader.variants.growth[1]
    print(describe_cost(plan.trainer, timer, tokens * growth / world))


def largest_batches(lengths: Sequence[np.ndarray], batches: list[np.ndarray]) -> list[np.ndarray]:
    """The batch with the most cells and the one with the longest row; one batch may be both.

    Args:
        lengths: length of each row of the epoch, for each side.
        batches: row numbers of each batch.
    """
    longest = [tuple(int(side[rows].max()) + 1 for side in lengths) for rows in batches]
    cells = [len(rows) * sum(sides) for rows, sides in zip(batches, longest, strict=True)]
    chosen = {int(np.argmax(cells)), int(np.argmax([max(sides) for sides in longest]))}
    return [batches[i] for i in sorted(chosen)]


def sample_batches(epoch: list[np.ndarray]) -> list[np.ndarray]:
    """A sample of an epoch's batches, from the one with the most rows to the one with the fewest.

    Tensors of many shapes fragment memory: with the largest batches alone, a dry run would need
    less memory than the real run.
    """
    ordered = sorted(epoch, key=len, reverse=True)
    return [ordered[i] for i in np.linspace(0, len(ordered) - 1, SHAPES).astype(int)]


def valid_batches(corpus: Corpus, max_tokens: int, world: int) -> list[Batch]:
    """The first device's validation batches with the most rows and with the longest rows."""
    batches = list(EvalBatches(corpus, max_tokens=max_tokens, world=world))
    return [max(batches, key=lambda batch: len(batch.source)), batches[-1]]


def loader_of(batches: list[Batch]) -> DataLoader[Batch]:
    return DataLoader(cast(Dataset[Batch], batches), batch_size=None)


class UpdateTimer(L.Callback):
    """Counts the seconds and target tokens of all updates after the first round."""

    def __init__(self) -> None:
        self.tokens = self.seconds = 0.0
        self.started_at = math.inf

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.started_at = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Batch, *_: Any
    ) -> None:
        now = time.perf_counter()
        if trainer.current_epoch > 0:
            self.tokens += batch.tokens
            self.seconds += now - self.started_at
        self.started_at = now


def describe_cost(options: TrainerOptions, timer: UpdateTimer, tokens: float) -> str:
    """Lines with the memory, the speed, and the time for an epoch of `tokens` target tokens per
    device.
    """
    if torch.cuda.is_available() and options.accelerator != "cpu":
        used, total = torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()[1]
        peak = f"{used / GB:.2f}"
    else:
        unit = 1 if sys.platform == "darwin" else 1024  # bytes
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        total = used + (available_memory() or 0)
        low, high = (growth * used / GB for growth in GROWTH[options.precision])
        peak = f"{low:.2f} to {high:.2f}"
    speed = timer.tokens / timer.seconds
    return (
        f"memory   {peak} GB at the peak, of {total / GB:.1f} GB\n"
        f"speed    {speed:,.0f} target tokens/s per device\n"
        f"epoch    about {tokens / speed / 60:,.1f} minutes without validation"
    )


@contextmanager
def limit_memory() -> Iterator[None]:
    """Make allocations beyond the machine's memory fail, instead of killing the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if (available := available_memory()) is not None:
        # Available memory plus the private writable memory that this process already has.
        bound = available + (read_bytes(Path("/proc/self/status"), "VmData:") or 0)
        limits = [limit for limit in (bound, soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def available_memory() -> int | None:
    """Bytes that new allocations may take; None if the system does not report it."""
    return read_bytes(Path("/proc/meminfo"), "MemAvailable:")


def read_bytes(path: Path, name: str) -> int | None:
    """Read a size in kB from a /proc file, as bytes; None if the file or the name is missing."""
    with suppress(OSError):
        lines = path.read_text(encoding="ascii").splitlines()
        return next((int(x.split()[1]) * 1024 for x in lines if x.startswith(name)), None)
    return None
