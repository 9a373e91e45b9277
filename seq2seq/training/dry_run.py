"""A look before a long run: does the largest batch fit, and how fast is an update?"""

import math
import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from seq2seq.data.batch import Batch
from seq2seq.data.batching import BatchLoader
from seq2seq.data.prepare import Prepared
from seq2seq.data.redraw import Redraw
from seq2seq.errors import ConfigError
from seq2seq.training.module import TrainingModule
from seq2seq.training.plan import Plan
from seq2seq.training.trainer import build_trainer

ROUNDS = 3  # of which the first warms up
GB = 2**30


def dry_run(plan: Plan, prepared: Prepared, module: TrainingModule, redraw: Redraw | None) -> None:
    """Update on the largest batches of the first epoch, as one device of the run would meet them,
    and print what they took. No model is written.

    Raises: ConfigError, with what to make smaller, if the memory does not suffice.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ConfigError("dry_run=true tries one device, without torchrun: python train.py ...")
    world = build_trainer(plan.trainer, [], [], progress=False).world_size
    steps = plan.trainer.accumulate_grad_batches
    loader = first_loader(plan, prepared, redraw, world)
    epoch, rows = list(loader.batches(0)), loader.rows(0)
    batches = largest_batches(loader.lengths, epoch)
    pieces = [loader.piece(rows, batch, step) for batch in batches for step in range(steps)]
    meter = Meter()
    alone = replace(
        plan.trainer,
        devices=1,
        num_nodes=1,
        strategy="auto",
        max_steps=ROUNDS * len(batches),
        max_epochs=-1,
        val_check_interval=10**9,
    )
    trainer = build_trainer(alone, [], [meter], progress=False)
    shape = " and ".join(f"{b.source.shape[0]} x {b.source.shape[1]}" for b in pieces[::steps])
    try:
        with memory_bound():
            largest = DataLoader(cast(Dataset[Batch], pieces), batch_size=None)
            trainer.fit(module, train_dataloaders=largest)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        half = max(plan.data.max_length, plan.data.max_tokens // 2)
        raise ConfigError(
            f"the largest batch ({shape} source pieces) does not fit into memory: take "
            f"data.max_tokens={half}, or keep the batch and take it in pieces, "
            f"trainer.accumulate_grad_batches={2 * steps}"
        ) from error
    print(f"dry run on the largest batches, {shape} source pieces, on one of {world} device(s)")
    tokens = sum(prepared.train.count_tokens(batch) for batch in epoch)
    growth = 1.0 if redraw is None else redraw.growth[1]
    print(report(plan, tokens * growth / world, meter))


def first_loader(plan: Plan, prepared: Prepared, redraw: Redraw | None, world: int) -> BatchLoader:
    """What the first of so many devices is trained on."""
    return BatchLoader(
        prepared.train,
        max_tokens=plan.data.max_tokens,
        seed=plan.run.seed,
        world=world,
        steps=plan.trainer.accumulate_grad_batches,
        redraw=redraw,
    )


def largest_batches(lengths: Sequence[np.ndarray], batches: list[np.ndarray]) -> list[np.ndarray]:
    """The batch with the most cells, and the one with the longest rows, by the lengths of both
    sides.
    """
    longest = [tuple(int(side[rows].max()) + 1 for side in lengths) for rows in batches]
    cells = [len(rows) * sum(sides) for rows, sides in zip(batches, longest, strict=True)]
    found = {int(np.argmax(cells)), int(np.argmax([max(sides) for sides in longest]))}
    return [batches[i] for i in sorted(found)]


class Meter(L.Callback):
    """Seconds and target tokens of all updates but those of the first round."""

    def __init__(self) -> None:
        self.tokens = self.seconds = 0.0
        self.since = math.inf

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Batch, *_: Any
    ) -> None:
        now = time.perf_counter()
        if trainer.current_epoch > 0:
            self.tokens += int((batch.target[:, 1:] != 0).sum())
            self.seconds += now - self.since
        self.since = now


def report(plan: Plan, tokens: float, meter: Meter) -> str:
    """Memory, speed, and how long an epoch of so many target tokens a device would take."""
    if torch.cuda.is_available() and plan.trainer.accelerator != "cpu":
        used, there = torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()[1]
    else:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        there = used + (available_memory() or 0)
    speed = meter.tokens / meter.seconds
    lines = [
        f"memory   {used / GB:.2f} GB at the peak, of {there / GB:.1f} GB",
        f"speed    {speed:,.0f} target tokens/s a device",
        f"epoch    about {tokens / speed / 60:,.1f} minutes without validation",
    ]
    return "\n".join(lines)


@contextmanager
def memory_bound() -> Iterator[None]:
    """Let an allocation fail that the machine could not serve, instead of being killed for it."""
    available = available_memory()
    if available is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = private_memory() + available
    bounds = [limit for limit in (bound, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def available_memory() -> int | None:
    """Bytes that new allocations may take, or None on a system that does not say."""
    return read_kilobytes(Path("/proc/meminfo"), "MemAvailable:")


def private_memory() -> int:
    """Bytes of private writable memory that this process has reserved."""
    return read_kilobytes(Path("/proc/self/status"), "VmData:") or 0


def read_kilobytes(path: Path, name: str) -> int | None:
    if not path.is_file():
        return None
    for line in path.read_text(encoding="ascii").split("\n"):
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """torch has a class for a GPU's memory; for the machine's it raises RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate" in str(error)
