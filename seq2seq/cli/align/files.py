"""`seq2seq align` of whole files by one model, or by one for each direction."""

import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq import checkpoint
from seq2seq.alignment.choice import Alignment, choice_options, describe_choice, save_choice
from seq2seq.alignment.links import Link, Links, check_all_links, check_pair_links
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.cli.align import choice
from seq2seq.cli.align.links import (
    DIRECTIONS,
    combine_directions,
    count_pair_words,
    describe_rates,
    name_files,
    outcome_entry,
    print_results,
    rates_entry,
    rates_table,
    read_links,
)
from seq2seq.data.text.lines import check_parallel, read_lines
from seq2seq.text.languages import is_spaceless, language_code
from seq2seq.translation.translator import Translator

SHOWN = 5  # best candidates in a table


class Direction(NamedTuple):
    """A model, and how it reads the files: `swapped` means from target to source."""

    name: str
    checkpoint: Path
    translator: Translator
    options: Namespace  # layer, heads and shift, if given for this model
    swapped: bool
    reference: Sequence[Links]  # or none; this model's source first

    def alignments(self, arguments: Namespace) -> Iterator[Alignment | None]:
        """Of all pairs. Raises: DataError on reaching a reference link out of range of its pair."""
        files = arguments.source_file, arguments.target_file
        ordered = reversed(files) if self.swapped else files
        texts = zip(*map(read_lines, ordered), strict=True)
        of = f"{name_files(arguments)}, or the tokenizer"
        alignments = self.translator.alignments(texts, units=arguments.units)
        for row, alignment in enumerate(alignments):
            if alignment is not None and self.reference:
                size = len(alignment.source), len(alignment.target)
                check_pair_links(self.reference[row], size, f"{arguments.gold}:{row + 1}", of)
            yield alignment


def swap_sides(links: Iterable[Link]) -> set[Link]:
    """The links with source and target swapped."""
    return {(j, i) for i, j in links}


def align_files(arguments: Namespace) -> int:
    """Returns: 1 if a pair could not be aligned, else 0."""
    count = check_parallel(arguments.source_file, arguments.target_file, "aligning")
    reference = read_links(arguments.gold, count, name_files(arguments)) if arguments.gold else []
    directions = open_directions(arguments, reference)
    words: list[str] = []
    summary: dict[str, Any] = {one.name: {} for one in directions}
    if arguments.choose:
        for one in directions:
            words += choose_and_save(arguments, one, summary[one.name])
        if arguments.output is None and len(directions) == 1:
            print_results(arguments, words, summary)
            return 0
    links_by_direction = []
    for one in directions:
        reading, links = read_direction(arguments, one)
        what = reading.describe() if reading else "empty, since no pair can be aligned"
        written = None if one.swapped else arguments.output
        words.append(f"{written or one.checkpoint}: {what}")
        summary[one.name] |= reading.to_json() if reading else {}
        links_by_direction.append(links)
    whole, rates = combine_directions(arguments, links_by_direction, reference)
    summary |= outcome_entry(arguments, rates)
    print_results(arguments, [*words, *describe_rates(rates)], summary)
    return 0 if whole else 1


def open_directions(arguments: Namespace, reference: Sequence[Links]) -> list[Direction]:
    """The models. Raises: DataError, before one is built, for reference links out of range."""
    paths = [find_checkpoint(Path(p)) for p in (arguments.path, arguments.reverse) if p]
    for path in paths if arguments.choose else []:
        choice.check_choice_can_be_saved(path)
    saved = [checkpoint.read(path) for path in paths]
    data = saved[0].config["data"]
    spaced = not any(is_spaceless(data[side]) for side in ("source", "target"))
    if reference and spaced and arguments.units == "words":  # else the tokenizer decides
        sizes = count_pair_words(arguments.source_file, arguments.target_file)
        check_all_links(arguments.gold, reference, sizes, name_files(arguments))
    directions = []
    for name, path, one in zip(DIRECTIONS, paths, saved, strict=False):
        first = name == DIRECTIONS[0]
        translator = Translator(one, arguments.device, arguments.tag if first else None)
        options = arguments if first else choice.no_options()
        links = reference if first else [Links(*map(swap_sides, pair)) for pair in reference]
        directions.append(Direction(name, path, translator, options, not first, links))
    warn_of_same_way(directions)
    check_pieces(arguments, directions)
    return directions


def warn_of_same_way(directions: Sequence[Direction]) -> None:
    """Warn if both models translate in the same direction."""
    languages = [d.translator.config["data"] for d in directions]
    ways = [[language_code(data[side]) for side in ("source", "target")] for data in languages]
    if len(ways) == 2 and ways[0] == ways[1] and ways[0][0] != ways[0][1]:
        way, reverse = " to ".join(ways[0]), " to ".join(ways[0][::-1])
        problem = f"both models translate from {way}: --reverse takes one from {reverse}"
        warnings.warn(problem, stacklevel=2)


def check_pieces(arguments: Namespace, directions: Sequence[Direction]) -> None:
    """Raises: ConfigError if both models align pieces, but not the same ones."""
    for side, other in (("source", "target"), ("target", "source")):
        # The source of the reverse model is the target of the first.
        sides = [(d.translator, other if d.swapped else side) for d in directions]
        by_piece = {t.by_piece(name, arguments.units) for t, name in sides}
        cuts = {getattr(t, name).to_json() for t, name in sides}
        if len(by_piece) > 1 or (True in by_piece and len(cuts) > 1):
            raise ConfigError(
                f"the two models cut the {side} into different pieces, so their links cannot be "
                "combined: leave out --units subwords; in languages without spaces between words, "
                "take models with one tokenizer (init=RUN tokenizer=checkpoint)"
            )


def choose_and_save(arguments: Namespace, direction: Direction, entry: dict[str, Any]) -> list[str]:
    """Save the best choice, and add all to `entry`. Returns: the best as text."""
    links = direction.reference
    ranked, shape = choice.rank_choices(direction.options, direction.alignments(arguments), links)
    best, counts = ranked[0]
    known = {"aer": round(counts.aer, 4), "pairs": len(links), "gold": str(arguments.gold)}
    path = save_choice(direction.checkpoint, best, **known)
    entry["kept"] = str(path)
    entry["candidates"] = [{**choice_options(c.choice), **rates_entry(c.counts)} for c in ranked]
    rows = {describe_choice(c.choice, *shape): c.counts for c in ranked[:SHOWN]}
    return [f"{path}: the best of {len(ranked)} on {arguments.gold}", *rates_table(rows)]


def read_direction(
    arguments: Namespace, direction: Direction
) -> tuple[choice.ExplainedChoice | None, Iterator[set[Link] | None]]:
    """The choice for a direction, and the links of all pairs, one at a time, source first."""
    of_model = direction.options, direction.checkpoint, direction.translator.config
    reading, alignments = choice.choose_reading(*of_model, direction.alignments(arguments))

    def links() -> Iterator[set[Link] | None]:
        for alignment in alignments:
            if alignment is None or reading is None:
                yield None
            else:
                pair_links = alignment.links(reading.choice)
                yield swap_sides(pair_links) if direction.swapped else pair_links

    return reading, links()
