"""The files of models in a run's folder, and the one that a path means."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from seq2seq.errors import CheckpointError

BEST = "best.ckpt"  # the model of the best validation
LAST = "last.ckpt"  # the state of the training
KEPT = "kept"  # a folder with the weights of several validations
MAX_ENTRIES = 10_000  # of folders, in the search for a run


def find_checkpoint(path: Path) -> Path:
    """The file that a path means: itself, or best.ckpt in a run's folder, else last.ckpt.

    Raises: CheckpointError if there is none, with what is at the path instead.
    """
    if path.is_file():
        return path
    if not path.exists():
        raise CheckpointError(f"there is no {path}: give a .ckpt file or the folder of a run")
    if not path.is_dir():
        raise CheckpointError(f"{path} is a pipe or a device: give a .ckpt file, or a run's folder")
    for name in (BEST, LAST):
        if (path / name).is_file():
            return path / name
    suggestion = max(runs_below(path), default=None)
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    raise CheckpointError(f"{path} holds neither {BEST} nor {LAST}{hint}")


def runs_below(folder: Path) -> Iterator[Path]:
    """The best.ckpt of all runs below a folder, those near the top first.

    At most `MAX_ENTRIES` entries are looked at; folders that vanish meanwhile or cannot be read are
    skipped.
    """
    folders, left = deque([folder]), MAX_ENTRIES
    while folders and left > 0:
        with suppress(OSError), os.scandir(folders.popleft()) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.name == BEST:
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
