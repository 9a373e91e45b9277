"""SCAN: commands of a small grammar and the actions they mean, a symbolic task.

    python scripts/make_scan.py              # into data/scan: 80 % for training, the rest for tests

All 20,910 commands of the grammar, split at random as in the `simple` task of Lake and Baroni 2018,
arXiv:1711.00350; a tenth of the test commands is the validation set.
"""

import argparse
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

Pair = tuple[list[str], list[str]]  # words of the command, actions

VERBS = ("walk", "look", "run", "jump")
SIDES = ("left", "right")
TIMES = {"twice": 2, "thrice": 3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("data/scan"), help="%(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the split (%(default)s)")
    arguments = parser.parse_args()
    commands = list(sentences())
    random.Random(arguments.seed).shuffle(commands)
    split = len(commands) * 8 // 10
    train, rest = commands[:split], commands[split:]
    tenth = len(rest) // 10
    parts = {"train": train, "valid": rest[:tenth], "test": rest[tenth:]}
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        for suffix, side in (("command", 0), ("action", 1)):
            text = "".join(" ".join(pair[side]) + "\n" for pair in pairs)
            (arguments.output / f"{name}.{suffix}").write_text(text, encoding="utf-8")
        print(f"{arguments.output / name}.command, .action: {len(pairs):,} pairs")


def sentences() -> Iterator[Pair]:
    """A phrase, or two; with `after`, the second is done first."""
    every = list(phrases())
    yield from every
    for (first, one), (second, two) in product(every, every):
        yield [*first, "and", *second], [*one, *two]
        yield [*first, "after", *second], [*two, *one]


def phrases() -> Iterator[Pair]:
    """A motion, once or several times."""
    for words, actions in motions():
        yield words, actions
        for times, count in TIMES.items():
            yield [*words, times], actions * count


def motions() -> Iterator[Pair]:
    """A verb alone, or with a direction: a side, the opposite side, or all around."""
    for verb in VERBS:
        yield [verb], [action(verb)]
    for verb, side in product((*VERBS, "turn"), SIDES):
        turn = [action("turn", side)]
        then = [] if verb == "turn" else [action(verb)]
        yield [verb, side], [*turn, *then]
        yield [verb, "opposite", side], [*turn, *turn, *then]
        yield [verb, "around", side], [*turn, *then] * 4


def action(*words: str) -> str:
    return "_".join(("I", *words)).upper()


if __name__ == "__main__":
    main()
