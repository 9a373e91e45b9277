"""Strings of random letters to copy or to reverse: short ones for training, longer ones for tests.

    python scripts/make_strings.py                # data/copy and data/reverse

A folder has the files PART.source and PART.target of four parts: train, valid, test (as long as in
training) and beyond (longer). Both tasks have the same sources. No string of more than three
symbols is in training and in a test or in validation.
"""

import argparse
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from string import ascii_lowercase

from seq2seq.base.durable import write_text

String = tuple[str, ...]  # symbols

TASKS: dict[str, Callable[[String], String]] = {
    "copy": lambda symbols: symbols,
    "reverse": lambda symbols: symbols[::-1],
}
SEED = 1
TRAINED, LONGEST = 20, 40  # symbols of the longest string of training, and of the tests
PAIRS = 40_000  # in training, about as many of each length
EACH = 50  # strings of each length in a test
VALID = 10  # likewise for validation
FEW = 3  # symbols of strings so short that training has most of them anyway


def write_strings(folder: Path, task: str, seed: int = SEED) -> None:
    """Write the parts of a task, which depend on the seed alone."""
    draw = random.Random(seed)
    short, long = range(1, TRAINED + 1), range(TRAINED + 1, LONGEST + 1)
    parts = {
        "test": list(each_length(draw, short, EACH)),
        "beyond": list(each_length(draw, long, EACH)),
        "valid": list(each_length(draw, short, VALID)),
    }
    tested = {string for part in parts.values() for string in part if len(string) > FEW}
    endless = (draw_string(draw, draw.choice(short)) for _ in iter(int, 1))
    parts["train"] = list(islice((each for each in endless if each not in tested), PAIRS))
    folder.mkdir(parents=True, exist_ok=True)
    for name, strings in parts.items():
        write_lines(folder / f"{name}.source", strings)
        write_lines(folder / f"{name}.target", map(TASKS[task], strings))


def each_length(draw: random.Random, lengths: range, count: int) -> Iterator[String]:
    return (draw_string(draw, length) for length in lengths for _ in range(count))


def draw_string(draw: random.Random, length: int) -> String:
    return tuple(draw.choice(ascii_lowercase) for _ in range(length))


def write_lines(path: Path, strings: Iterable[String]) -> None:
    """Write a file atomically, because another process may be reading it."""
    write_text(path, "".join(" ".join(each) + "\n" for each in strings))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("data"), help="(%(default)s)")
    options = parser.parse_args()
    for task in TASKS:
        write_strings(options.output / task, task)
        print(f"wrote {options.output / task}")


if __name__ == "__main__":
    main()
