"""The command `sacrebleu` on the same files: the reference for all our scores."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helpers.tiny_runs import demo_lines

REFERENCES = demo_lines("test", "en", 60)


def damaged(lines: Sequence[str], rate: float, seed: int) -> list[str]:
    """The outputs of a bad system, in which words are lost or swapped."""
    chance = random.Random(seed)
    outputs = []
    for line in lines:
        words = [word for word in line.split() if chance.random() > rate]
        if len(words) > 1 and chance.random() < rate:
            words[0], words[1] = words[1], words[0]
        outputs.append(" ".join(words))
    return outputs


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def sacrebleu(*arguments: object) -> Any:
    """The JSON of the command, with as many digits as it can print."""
    return json.loads(_said(*arguments))


class PairedTable(NamedTuple):
    """The results of a paired test."""

    systems: list[dict[str, list[float]]]  # of each, the printed values by score
    signatures: dict[str, str]


def sacrebleu_paired(*arguments: object) -> PairedTable:
    """The table that the command prints for a paired test.

    JSON would be easier to read, but with a paired bootstrap it ends in a traceback.
    """
    lines = _said(*arguments, "--format", "latex").splitlines()
    rows = [line.removesuffix(r"\\").split("&")[1:] for line in lines if line.endswith(r"\\")]
    names = [cell.split()[0] for cell in rows[0]]
    values = [[list(map(float, re.findall(r"\d+\.\d+", cell))) for cell in row] for row in rows[1:]]
    systems = [dict(zip(names, row, strict=True)) for row in values]
    return PairedTable(
        systems, dict(line[3:].split() for line in lines if line[:3] == " - " and "|" in line)
    )


def _said(*arguments: object) -> str:
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments), "--width", "10", "--quiet"]
    # Without SACREBLEU_SEED, and other settings of the user.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SACREBLEU_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout
