"""Average the weights of several checkpoints of a run into one model.

Near the end of training the weights wander around a point that is better than any of them.
Vaswani et al. 2017, arXiv:1706.03762, average their last checkpoints.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from seq2seq import checkpoint
from seq2seq.base.errors import CheckpointError
from seq2seq.checkpoint.differences import RUNTIME_OPTIONS, find_differences
from seq2seq.checkpoint.folder import KEPT, find_checkpoint


def average(files: Sequence[Path], output: Path) -> None:
    """Write a checkpoint whose weights are the mean of several checkpoints' weights.

    Args:
        files: checkpoints of the same model with the same tokenizers.
        output: path of the new checkpoint, which is complete like the others.

    Raises: CheckpointError if a file is not a checkpoint or holds a different model, or if the
        average cannot be written.
    """
    if not files:
        raise CheckpointError("there is nothing to average: give at least one checkpoint")
    first = checkpoint.read(files[0])
    sums = {name: value.double() for name, value in first.weights.items()}
    for file in files[1:]:
        saved = checkpoint.read(file)
        if other := find_differences(first, saved, ignore=RUNTIME_OPTIONS):
            words = "; ".join(map(str, other))
            raise CheckpointError(f"{file} is not the same model as {files[0]}: {words}")
        for name, value in saved.weights.items():
            sums[name] += value.double()
    means = {n: (x / len(files)).to(first.weights[n].dtype) for n, x in sums.items()}
    first._replace(weights=means).write(output)


def list_checkpoints(folder: Path, which: Literal["best", "last"], count: int) -> list[Path]:
    """The checkpoints that a run kept of its best or last validations, best or latest first.

    Raises: CheckpointError if there are fewer than `count`, or if the folder is not that of a run.
    """
    files = sorted((folder / KEPT).glob(f"{which}-*.ckpt"), key=rank_of_checkpoint)
    if len(files) < count:
        find_checkpoint(folder)  # if this is a folder of runs, the message suggests one of them
        raise CheckpointError(
            f"{folder} keeps {len(files)} checkpoints of its {which} validations, not {count}: "
            f"train with checkpoint.keep_{which}={count}"
        )
    if which == "best":
        # Older runs do not record which values are better.
        usual = "min" if "-loss" in files[0].stem else "max"
        if checkpoint.read(files[0]).config.get("mode", usual) == "min":
            return files[:count]
    return files[::-1][:count]


def rank_of_checkpoint(file: Path) -> float:
    """The score in `best-step0000500-bleu31.2500.ckpt`, or the step in `last-step0000500.ckpt`."""
    match = re.fullmatch(r"(?:best|last)-step(\d+)(?:-[a-z]+(-?\d+\.\d+))?", file.stem)
    if match is None:
        raise CheckpointError(f"{file} is not named like a checkpoint that a run keeps")
    return float(match[2] or match[1])
