"""Make strings of random letters to copy or to reverse: short for training, also longer for tests.

    python scripts/make_strings.py                # data/copy and data/reverse

Each folder has files PART.source and PART.target for four parts: train, valid, test (strings as
long as in training) and beyond (longer strings). Both tasks have the same sources. Training strings
of more than three symbols do not occur in tests or validation.
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
TRAINED, LONGEST = 20, 40  # symbols in the longest string of training, and of the tests
PAIRS = 40_000  # training pairs, about equally many of each length
EACH = 50  # strings of each length in a test
VALID = 10  # strings of each length in validation
FEW = 3  # symbols; strings this short are so few that training has most of them anyway


def write_strings(folder: Path, task: str, seed: int = SEED) -> None:
    """Write the parts of a task, which depend only on the seed."""
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
