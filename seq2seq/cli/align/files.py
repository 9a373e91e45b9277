"""Align whole files with one model, or with a model for each direction."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq import checkpoint
from seq2seq.alignment.choice import Choice, choice_options, describe_choice, save_choice
from seq2seq.alignment.links import Link, Links, check_all_links, check_pair_links
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.cli.align import choice
from seq2seq.cli.align.links import (
    DIRECTIONS,
    count_pair_words,
    print_results,
    rates_entry,
    rates_table,
    read_links,
    report_links,
)
from seq2seq.cli.align.options import AlignOptions, ChoiceOptions, TextFiles
from seq2seq.text.languages import is_spaceless, language_code
from seq2seq.translation.translator import Translator

SHOWN = 5  # number of candidates in a table


class ModelDirection(NamedTuple):
    """A model and its direction; if `swapped`, it translates from target to source."""

    name: str
    checkpoint: Path
    translator: Translator
    options: ChoiceOptions  # choice for this model
    swapped: bool
    reference: Sequence[Links]  # reference links, this model's source first; may be empty

    def alignments(self, options: AlignOptions, texts: TextFiles) -> choice.Alignments:
        """The alignments of all pairs.

        Raises: DataError if a reference link names a word that its pair does not have.
        """
        pairs = (pair[::-1] if self.swapped else pair for pair in texts.pairs())
        alignments = self.translator.alignments(pairs, units=options.units)
        for row, alignment in enumerate(alignments):
            if alignment is not None and self.reference:
                size = len(alignment.source), len(alignment.target)
                where = f"{options.files.gold}:{row + 1}"
                check_pair_links(self.reference[row], size, where, f"{texts}, or the tokenizer")
            yield alignment

    def links(
        self, chosen: Choice, options: AlignOptions, texts: TextFiles
    ) -> Iterator[set[Link] | None]:
        """The links of all pairs, source first; None for a pair that cannot be aligned."""
        for alignment in self.alignments(options, texts):
            links = None if alignment is None else alignment.links(chosen)
            yield swap_sides(links) if links and self.swapped else links


def swap_sides(links: Iterable[Link]) -> set[Link]:
    """The links with source and target swapped."""
    return {(j, i) for i, j in links}


def align_files(options: AlignOptions, model: Path, texts: TextFiles) -> int:
    """Write or score the links of two files. Returns: 1 if a pair could not be aligned, else 0."""
    count, gold, output = texts.count_pairs(), options.files.gold, options.output
    reference = read_links(gold, count, str(texts)) if gold else []
    directions = open_directions(options, model, texts, reference)
    lines: list[str] = []
    summary: dict[str, Any] = {one.name: {} for one in directions}
    if options.choose:
        for one in directions:
            lines += choose_and_save(one, options, texts, summary[one.name])
        if output is None and len(directions) == 1:
            print_results(options.json, lines, summary)
            return 0
    links_by_direction = []
    for one in directions:
        reading = choice.select_choice(one.options, one.checkpoint, one.translator)
        written = None if one.swapped else output
        lines.append(f"{written or one.checkpoint}: {reading.describe()}")
        summary[one.name] |= reading.to_json()
        links_by_direction.append(one.links(reading.choice, options, texts))
    return report_links(options, links_by_direction, reference, lines, summary)


def open_directions(
    options: AlignOptions, model: Path, texts: TextFiles, reference: Sequence[Links]
) -> list[ModelDirection]:
    """Open the models. Raises: DataError, before any is built, for impossible reference links."""
    paths = [find_checkpoint(path) for path in (model, options.directions.reverse) if path]
    for folder in (path.parent for path in paths if options.choose):
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"--choose writes to {folder}, which is not writable: copy the run")
    saved = [checkpoint.read(path) for path in paths]
    data = saved[0].config["data"]
    pair = zip(options.languages, ("source", "target"), strict=True)
    spaced = not any(is_spaceless(given or data[side]) for given, side in pair)
    if options.files.gold and spaced and options.units == "words":  # words need no tokenizer
        check_all_links(options.files.gold, reference, count_pair_words(texts), str(texts))
    languages = options.languages
    translator = Translator(saved[0], options.device, options.tag, languages=languages)
    directions = [
        ModelDirection(DIRECTIONS[0], paths[0], translator, options.choice, False, reference)
    ]
    if len(saved) == 2:
        translator = Translator(saved[1], options.device, languages=languages[::-1])
        links = [Links(*map(swap_sides, pair)) for pair in reference]
        other = ModelDirection(DIRECTIONS[1], paths[1], translator, ChoiceOptions(), True, links)
        directions.append(other)
    warn_of_same_way(directions)
    check_pieces(options, directions)
    return directions


def warn_of_same_way(directions: Sequence[ModelDirection]) -> None:
    """Warn if both models translate in the same direction."""
    languages = [d.translator.config["data"] for d in directions]
    ways = [[language_code(data[side]) for side in ("source", "target")] for data in languages]
    if len(ways) == 2 and ways[0] == ways[1] and ways[0][0] != ways[0][1]:
        way, reverse = " to ".join(ways[0]), " to ".join(ways[0][::-1])
        problem = f"both models translate from {way}: --reverse takes one from {reverse}"
        warnings.warn(problem, stacklevel=2)


def check_pieces(options: AlignOptions, directions: Sequence[ModelDirection]) -> None:
    """Raises: ConfigError if the two models cut text into different pieces and align these."""
    for side, other in (("source", "target"), ("target", "source")):
        # The source of the reverse model is the target of the first.
        sides = [(d.translator, other if d.swapped else side) for d in directions]
        by_piece = {t.by_piece(name, options.units) for t, name in sides}
        cuts = {getattr(t, name).to_json() for t, name in sides}
        if len(by_piece) > 1 or (True in by_piece and len(cuts) > 1):
            raise ConfigError(
                f"the two models cut the {side} into different pieces, so their links cannot be "
                "combined: leave out --units subwords; in languages without spaces between words, "
                "take models with one tokenizer (init=RUN tokenizer=checkpoint)"
            )


def choose_and_save(
    direction: ModelDirection, options: AlignOptions, texts: TextFiles, entry: dict[str, Any]
) -> list[str]:
    """Save the best choice, and add all choices to `entry`. Returns: the best ones as text."""
    links, gold = direction.reference, options.files.gold
    alignments, shape = direction.alignments(options, texts), direction.translator.shape
    ranked = choice.rank_choices(direction.options, shape, alignments, links)
    best, counts = ranked[0]
    known = {"aer": round(counts.aer, 4), "pairs": len(links), "gold": str(gold)}
    path = save_choice(direction.checkpoint, best, **known)
    entry["kept"] = str(path)
    entry["candidates"] = [{**choice_options(c.choice), **rates_entry(c.counts)} for c in ranked]
    rows = {describe_choice(c.choice, *shape): c.counts for c in ranked[:SHOWN]}
    return [f"{path}: the best of {len(ranked)} on {gold}", *rates_table(rows)]
