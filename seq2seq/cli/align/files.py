"""`seq2seq align` of whole files by a model, or by one and another of the reverse direction."""

import argparse
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.cli.align import choice
from seq2seq.cli.align.links import (
    DIRECTIONS,
    check_links_output,
    check_symmetrize,
    facts_of,
    names,
    put_together,
    rates_in_words,
    read_links,
    report,
    word_counts,
)
from seq2seq.data.text import check_parallel, read_lines
from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from seq2seq.alignment.choice import Alignment
    from seq2seq.alignment.links import Link, Links
    from seq2seq.translator import Translator

FIRST = 200  # pairs by which the layer for a whole file is guessed


class Direction(NamedTuple):
    """A model, and which way it reads the files: `swapped` from target to source."""

    name: str
    checkpoint: Path
    translator: "Translator"
    options: argparse.Namespace  # those of what is read that hold for this model
    swapped: bool
    gold: "Sequence[Links]"  # made by hand, or none; this model's source first

    def alignments(self, arguments: argparse.Namespace) -> Iterator["Alignment | None"]:
        """Of all pairs. Raises: DataError, when it comes to them, for gold links beyond a pair."""
        from seq2seq.alignment.links import check_words

        files = arguments.source_file, arguments.target_file
        ordered = reversed(files) if self.swapped else files
        texts = zip(*map(read_lines, ordered), strict=True)
        of = f"{names(arguments)}, or the tokenizer"
        for number, found in enumerate(self.translator.alignments(texts, units=arguments.units)):
            if found is not None and self.gold:
                size = len(found.source), len(found.target)
                check_words(self.gold[number], size, f"{arguments.gold}:{number + 1}", of)
            yield found


def turned(links: Iterable["Link"]) -> "set[Link]":
    """Links with the other side first."""
    return {(j, i) for i, j in links}


def align_files(arguments: argparse.Namespace) -> int:
    """Returns: 1 if a pair could not be aligned, else 0."""
    check_options(arguments)
    count = check_parallel(arguments.source_file, arguments.target_file)
    gold = read_links(arguments.gold, count, names(arguments)) if arguments.gold else []
    directions = open_directions(arguments, gold)
    words: list[str] = []
    facts: dict[str, Any] = {one.name: {} for one in directions}
    if arguments.choose:
        for one in directions:
            words += choose(arguments, one, facts[one.name])
        if arguments.output is None and len(directions) == 1:
            report(arguments, words, facts)
            return 0
    found = []
    for one in directions:
        reading, links = links_of(arguments, one)
        said = reading.in_words() if reading else "empty, since no pair can be aligned"
        written = None if one.swapped else arguments.output
        words.append(f"{written or one.checkpoint}: {said}")
        facts[one.name] |= reading.entry() if reading else {}
        found.append(links)
    outcome = put_together(arguments, found, gold)
    report(arguments, [*words, *rates_in_words(outcome)], facts | facts_of(arguments, outcome))
    return 0 if outcome.whole else 1


def check_options(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError for options that say too little."""
    if not arguments.choose:
        check_links_output(arguments)
    elif arguments.gold is None:
        raise ConfigError("--choose compares with links made by hand: add --gold FILE.align")
    check_symmetrize(arguments, 1 + bool(arguments.reverse))


def open_directions(arguments: argparse.Namespace, gold: Sequence["Links"]) -> list[Direction]:
    """The models. Raises: DataError, before one is built, for gold links beyond their words."""
    from seq2seq import checkpoint
    from seq2seq.alignment.links import check_range
    from seq2seq.languages import is_spaceless
    from seq2seq.translator import Translator

    paths = [checkpoint.find(Path(p)) for p in (arguments.path, arguments.reverse) if p]
    for path in paths if arguments.choose else []:
        choice.check_keep(path)
    saved = [checkpoint.read(path) for path in paths]
    data = saved[0].config["data"]
    spaced = not any(is_spaceless(data[side]) for side in ("source", "target"))
    if gold and spaced and arguments.units == "words":  # else only the tokenizer knows the words
        sizes = word_counts(arguments.source_file, arguments.target_file)
        check_range(arguments.gold, gold, sizes, names(arguments))
    directions = []
    for name, path, one in zip(DIRECTIONS, paths, saved, strict=False):
        first = name == DIRECTIONS[0]
        translator = Translator(one, arguments.device, arguments.tag if first else None)
        options = arguments if first else choice.nothing_given()
        own = gold if first else [type(links)(*map(turned, links)) for links in gold]
        directions.append(Direction(name, path, translator, options, not first, own))
    check_ways(directions)
    check_pieces(arguments, directions)
    return directions


def check_ways(directions: Sequence[Direction]) -> None:
    """Warn if both models translate the same way."""
    ways = [[d.translator.config["data"][s] for s in ("source", "target")] for d in directions]
    if len(ways) == 2 and ways[0] == ways[1] and ways[0][0] != ways[0][1]:
        warnings.warn(
            f"both models translate from {ways[0][0]} to {ways[0][1]}: --reverse is meant for one "
            f"from {ways[0][1]} to {ways[0][0]}",
            stacklevel=2,
        )


def check_pieces(arguments: argparse.Namespace, directions: Sequence[Direction]) -> None:
    """Raises: ConfigError if the models number what is aligned each in its own way."""
    for side, other in (("source", "target"), ("target", "source")):
        # The reverse model reads as its source what the first one writes.
        sides = [(d.translator, other if d.swapped else side) for d in directions]
        by_piece = {t.by_piece(own, arguments.units) for t, own in sides}
        cuts = {getattr(t, own).to_json() for t, own in sides}
        if len(by_piece) > 1 or (True in by_piece and len(cuts) > 1):
            raise ConfigError(
                f"the two models cut the {side} into different pieces, so a number means another "
                "piece in each: leave out --units subwords; where no spaces stand between words, "
                "take models of one tokenizer (init=RUN tokenizer=checkpoint)"
            )


def choose(arguments: argparse.Namespace, direction: Direction, facts: dict[str, Any]) -> list[str]:
    """Keep what agrees best with the gold links, add all to `facts`. Returns: the best as text."""
    gold = direction.gold
    ranked, shape = choice.compare(direction.options, direction.alignments(arguments), gold)
    path = choice.keep(direction.checkpoint, ranked, arguments.gold, len(gold))
    facts["kept"] = str(path)
    facts["candidates"] = choice.entries(ranked)
    return [
        f"{path}: the best of {len(ranked)} on {arguments.gold}",
        *choice.best_of(ranked, shape),
    ]


def links_of(
    arguments: argparse.Namespace, direction: Direction
) -> "tuple[choice.Reading | None, Iterator[set[Link] | None]]":
    """The links of all pairs, one at a time, source first, and how they are read."""
    alignments = direction.alignments(arguments)
    first = beginning(alignments)
    known = [alignment for alignment in first if alignment is not None]
    config = direction.translator.config
    reading = None
    if known:
        reading = choice.read(direction.options, direction.checkpoint, config, known)

    def links() -> "Iterator[set[Link] | None]":
        for alignment in chain(first, alignments):
            if alignment is None or reading is None:
                yield None
            else:
                found = alignment.links(reading.choice)
                yield turned(found) if direction.swapped else found

    return reading, links()


def beginning(alignments: Iterator["Alignment | None"]) -> list["Alignment | None"]:
    """The first of all that are to come, and as many more as it takes until one is known."""
    found: list[Alignment | None] = []
    while not any(found) and (more := list(islice(alignments, FIRST))):
        found += more
    return found
