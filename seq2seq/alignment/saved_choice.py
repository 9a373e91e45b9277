"""The choice of weights to read alignments from, in a small file beside the checkpoint.

`best.ckpt` has its choice in `best.alignment.json`, counted from 1 as on the command line:

    {"checkpoint": "best.ckpt", "sha256": "...", "shift": 0, "layer": 2, "heads": "mean",
     "threshold": 0.4, "near": 1.0, "aer": 0.137, "pairs": 500, "gold": "valid.align"}

The checksum is that of the checkpoint's file, so a choice is never taken for another model's.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from seq2seq.alignment.choice import SHIFTS, Alignment, Choice, choice_of_guided_head, guess_choice
from seq2seq.base.durable import write_text
from seq2seq.base.errors import DataError
from seq2seq.base.registry import matches

OPTIONS: dict[str, Any] = {
    "shift": int,
    "layer": int,
    "heads": int | Literal["mean"],
    "threshold": float,
    "near": float,
}
HINT = "Choose again with --choose, or remove the file"


def choice_file(checkpoint: Path) -> Path:
    """The path of the file that holds the choice for a checkpoint."""
    return checkpoint.with_suffix(".alignment.json")


def save_choice(checkpoint: Path, choice: Choice, **known: Any) -> Path:
    """Keep a choice for a checkpoint. Returns: the file.

    Args:
        known: further entries for readers of the file, such as the error rate.

    Raises: OSError if it cannot be written.
    """
    entry = {"checkpoint": checkpoint.name, "sha256": checksum(checkpoint)}
    path = choice_file(checkpoint)
    write_text(path, json.dumps(entry | choice_options(choice) | known, indent=1) + "\n")
    return path


def choice_options(choice: Choice) -> dict[str, Any]:
    """A choice as options of the command line, from 1."""
    heads = "mean" if choice.head is None else choice.head + 1
    values = choice.shift, choice.layer + 1, heads, choice.threshold, choice.near
    return dict(zip(OPTIONS, values, strict=True))


def load_choice(checkpoint: Path) -> Choice | None:
    """The choice that was kept for a checkpoint; None if there is none, or if it was made for other
    weights, with a warning.

    Raises: DataError if the file is damaged.
    """
    path = choice_file(checkpoint)
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the choice in {path}: {error}. {HINT}") from error
    choice = parse_choice(entry)
    if choice is None:
        raise DataError(f"{path} holds no choice of a layer, heads and a shift. {HINT}")
    if entry.get("sha256") != checksum(checkpoint):
        warnings.warn(
            f"{path} is not used: it was chosen for other weights than those that {checkpoint.name}"
            f" holds now. {HINT}",
            stacklevel=2,
        )
        return None
    return choice


def best_known_choice(checkpoint: Path, config: Mapping[str, Any], alignment: Alignment) -> Choice:
    """The choice that was kept for a checkpoint; else the head that was trained to align; else a
    guess from an alignment.

    Raises: DataError as `load_choice`.
    """
    return load_choice(checkpoint) or choice_of_guided_head(config) or guess_choice([alignment])


def parse_choice(entry: Any) -> Choice | None:
    if not isinstance(entry, dict):
        return None
    # Older files call the threshold "least", and have no "near".
    entry = {"threshold": entry.get("least", 0.0), "near": 1.0, **entry}
    values = [entry.get(option) for option in OPTIONS]
    if not all(map(matches, values, OPTIONS.values())):
        return None
    shift, layer, heads, threshold, near = values
    if not (shift in SHIFTS and layer >= 1 and (heads == "mean" or heads >= 1)):
        return None
    if not (0 <= threshold <= 1 and 0 < near <= 1):
        return None
    return Choice(shift, layer - 1, None if heads == "mean" else heads - 1, threshold, near)


def checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
