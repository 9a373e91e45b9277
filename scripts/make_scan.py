"""Make the data of SCAN, a symbolic task: commands of a small grammar and the actions they mean.

    python scripts/make_scan.py                               # data/scan: a fifth is for tests
    python scripts/make_scan.py --split length                # data/scan_length: longer outputs
    python scripts/make_scan.py --split length --cut-off 26   # data/scan_length_26
    python scripts/make_scan.py --split jump                  # data/scan_jump: a new verb

The data are all 20,910 commands of the grammar, in the splits of Lake and Baroni 2018,
arXiv:1711.00350. `simple` is a random split, with a tenth of the test commands for validation.
`length` trains on outputs of at most 22 actions, or --cut-off (as in Newman et al. 2020,
arXiv:2010.07174), and tests on longer ones. `jump` (addprim_jump) trains on all commands without
that verb, and on the command `jump` alone, which makes up a tenth of the pairs; it tests on all
other commands with the verb. The last two use 400 training pairs for validation, which show whether
training went well, but not how well the model generalises to the tests.
"""

import argparse
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

Pair = tuple[list[str], list[str]]  # words of the command, actions
Parts = dict[str, list[Pair]]  # train, valid, test

VERBS = ("walk", "look", "run", "jump")
SIDES = ("left", "right")
TIMES = {"twice": 2, "thrice": 3}
CUT_OFF = 22  # actions
VALID = 400  # training pairs set aside for validation, except in the simple split
NOVEL = "jump"
SHARE = 10  # the command `jump` is one in ten training pairs, as in the original


def main() -> None:
    arguments = parse()
    draw = random.Random(arguments.seed)
    commands = list(sentences())
    draw.shuffle(commands)
    if arguments.split == "simple":
        parts = split_simply(commands)
    elif arguments.split == "length":
        parts = split_by_length(commands, arguments.cut_off)
    else:
        parts = split_off_jump(commands)
        draw.shuffle(parts["train"])
    write_parts(parts, arguments.output or default_folder(arguments.split, arguments.cut_off))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--split", choices=("simple", "length", "jump"), default="simple")
    parser.add_argument(
        "--cut-off",
        type=int,
        help=f"with --split length: actions in the longest training output ({CUT_OFF})",
    )
    parser.add_argument("-o", "--output", type=Path, help="folder to write (in data/)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the split (%(default)s)")
    arguments = parser.parse_args()
    if arguments.cut_off is not None and arguments.split != "length":
        parser.error(f"--cut-off is for --split length, not for {arguments.split}")
    arguments.cut_off = CUT_OFF if arguments.cut_off is None else arguments.cut_off
    if arguments.output is not None and arguments.output.is_file():
        parser.error(f"-o {arguments.output} is a file: give the name of a folder")
    if not 1 <= arguments.cut_off < 48:
        parser.error(
            f"--cut-off {arguments.cut_off} should be 1 to 47: outputs have 1 to 48 actions"
        )
    return arguments


def default_folder(split: str, cut_off: int) -> Path:
    names = {"simple": "scan", "length": "scan_length", "jump": "scan_jump"}
    longer = f"_{cut_off}" if split == "length" and cut_off != CUT_OFF else ""
    return Path("data") / (names[split] + longer)


def split_simply(commands: list[Pair]) -> Parts:
    split = len(commands) * 8 // 10
    train, rest = commands[:split], commands[split:]
    tenth = len(rest) // 10
    return {"train": train, "valid": rest[:tenth], "test": rest[tenth:]}


def split_by_length(commands: list[Pair], cut_off: int) -> Parts:
    short = [pair for pair in commands if len(pair[1]) <= cut_off]
    aside = min(VALID, len(short) // 10)
    test = [pair for pair in commands if len(pair[1]) > cut_off]
    return {"train": short[aside:], "valid": short[:aside], "test": test}


def split_off_jump(commands: list[Pair]) -> Parts:
    others = [pair for pair in commands if NOVEL not in pair[0]]
    (alone,) = [pair for pair in commands if pair[0] == [NOVEL]]
    train = others[VALID:]
    train += [alone] * (len(train) // (SHARE - 1))
    test = [pair for pair in commands if NOVEL in pair[0] and pair != alone]
    return {"train": train, "valid": others[:VALID], "test": test}


def write_parts(parts: Parts, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        for suffix, side in (("command", 0), ("action", 1)):
            text = "".join(" ".join(pair[side]) + "\n" for pair in pairs)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
        print(f"{folder / name}.command, .action: {len(pairs):,} pairs")


def sentences() -> Iterator[Pair]:
    """All commands: one phrase, or two joined by `and` or `after`, which reverses their order."""
    every = list(phrases())
    yield from every
    for (first, one), (second, two) in product(every, every):
        yield [*first, "and", *second], [*one, *two]
        yield [*first, "after", *second], [*two, *one]


def phrases() -> Iterator[Pair]:
    """All phrases: a motion, done once or several times."""
    for words, actions in motions():
        yield words, actions
        for times, count in TIMES.items():
            yield [*words, times], actions * count


def motions() -> Iterator[Pair]:
    """All motions: a verb alone, or with a direction (a side, the opposite side, or all around)."""
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
