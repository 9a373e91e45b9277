"""Insert placeholders into parallel text, so that a model learns to copy them.

    seq2seq align runs/demo --source train.de --target train.en -o train.align
    python scripts/make_placeholders.py train.de train.en train.align -o placeholders

In each pair, the script finds a source and a target word that are linked only to each other, and
replaces both by the same placeholder: {name}, %s, %(x)d, an address or a tag, whose names are words
of the text. It does so once or twice per pair, and leaves out pairs without such words. It writes
placeholders.de and placeholders.en; train on them in addition to the text itself.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from seq2seq.base.errors import DataError, Seq2SeqError, fail
from seq2seq.data.text.lines import check_parallel, read_lines

KINDS = ("{%s}", "%%(%s)d", "%%(%s)s", "https://%s.org", "%s@%s.net", "<%s>", "</%s>", "%%s", "%%d")
WORD = re.compile(r"\w+(?:-\w+)*")


def placeholder(names: list[str], generator: random.Random) -> str:
    kind = generator.choice(KINDS)
    chosen = generator.choices(names, k=kind.replace("%%", "").count("%s"))
    return kind % tuple(chosen)


def single_links(line: str) -> Iterator[tuple[int, int]]:
    """The links i-j whose two words have no other links."""
    links = [(int(i), int(j)) for i, j in (link.split("-") for link in line.split())]
    of_source, of_target = Counter(i for i, _ in links), Counter(j for _, j in links)
    return ((i, j) for i, j in links if of_source[i] == of_target[j] == 1)


def with_placeholders(
    source: str, target: str, links: str, names: list[str], generator: random.Random
) -> tuple[str, str] | None:
    """A pair with one or two words replaced by placeholders; None if no word can be replaced."""
    words = source.split(" "), target.split(" ")
    possible = [
        (i, j)
        for i, j in single_links(links)
        if WORD.search(words[0][i]) and WORD.search(words[1][j])
    ]
    if not possible:
        return None
    chosen = generator.sample(possible, min(len(possible), generator.randint(1, 2)))
    for place in chosen:
        copied = placeholder(names, generator)
        for side, index in zip(words, place, strict=True):
            side[index] = WORD.sub(copied.replace("\\", ""), side[index], count=1)
    return " ".join(words[0]), " ".join(words[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("source", "target", "links"):
        parser.add_argument(name, type=Path, help="file with a line for each pair")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="prefix of the files to write"
    )
    parser.add_argument("--seed", type=int, default=1)
    try:
        make(parser.parse_args())
    except (Seq2SeqError, OSError) as error:
        sys.exit(fail(str(error)))


def make(arguments: argparse.Namespace) -> None:
    generator = random.Random(arguments.seed)
    paths = arguments.source, arguments.target, arguments.links
    for path in paths[1:]:
        check_parallel(paths[0], path, "learning from")
    text = " ".join(read_lines(arguments.source)).lower()
    names = sorted(set(re.findall(r"\b[a-z]{2,9}\b", text))) or ["name"]
    made = []
    for line_no, (source, target, links) in enumerate(
        zip(*map(read_lines, paths), strict=True), start=1
    ):
        try:
            pair = with_placeholders(source, target, links, names, generator)
        except (ValueError, IndexError) as error:
            raise DataError(
                f"{arguments.links}, line {line_no}: {links!r} should be links i-j of words of the "
                "pair, counted from 0, as `seq2seq align ... -o FILE.align` writes them"
            ) from error
        if pair:
            made.append(pair)
    for side, path in enumerate(paths[:2]):
        language = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        output = arguments.output.with_name(arguments.output.name + language)
        output.write_text("".join(f"{pair[side]}\n" for pair in made), encoding="utf-8")
        print(f"{output}: {len(made):,} lines")


if __name__ == "__main__":
    main()
