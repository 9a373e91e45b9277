"""The links of a corpus: found, checked, brought from words to pieces, and cached."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.data.cache import cached_folder, digest
from seq2seq.data.corpus import Corpus, settings_of
from seq2seq.data.links import PieceLinks, is_whole, write_links
from seq2seq.data.portions import Portion, find_portions
from seq2seq.data.prepare import DataOptions, Prepared, prepare
from seq2seq.data.stamps import Stamps
from seq2seq.data.text import (
    MissingFileError,
    check_rereadable,
    count_lines,
    neighbours,
)
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.errors import DataError
from seq2seq.evaluation.gold import check_count
from seq2seq.training.options import GuidedOptions
from seq2seq.training.plan import Plan
from seq2seq.training.projection import Linked, check_fit, entries

# Part of every cache's name: raise it when the entries change their meaning.
FORMAT = "1"


def prepare_run(plan: Plan, given: Tokenizers | None = None) -> Prepared:
    """What a run trains on: `prepare`, and the links if a head is to be trained on them.

    Links are checked against the text before anything is computed, which may take hours.

    Raises: as `prepare`; DataError for a link that cannot be, naming the file and the line.
    """
    stamps = Stamps(Path(plan.data.cache).expanduser())
    found = find_links(plan.guided, plan.data, stamps)
    prepared = prepare(plan.data, plan.tokenizer, given)
    return with_links(prepared, found, plan, stamps)


def find_links(
    options: GuidedOptions, data: DataOptions, stamps: Stamps
) -> dict[str, list[Linked]]:
    """The corpora of each part that has links, which fit their pairs.

    Raises: DataError for a file that is not there, or has more or fewer lines; for what is no link,
        or a link to a word that is not there.
    """
    found = {}
    for part, spec in (("train", options.links), ("valid", options.valid)):
        if spec is None:
            continue
        sides = str(data.source), str(data.target)
        portions = find_portions(getattr(data, part), *sides, f"data.{part}")
        files = spec if isinstance(spec, dict) else {"": spec}
        found[part] = [
            Linked(p, Path(files[p.name]).expanduser() if p.name in files else None)
            for p in portions
        ]
        for portion, file in found[part]:
            if file is not None:
                check_lines(portion, file, stamps)
                text = [*portion.text.settings, *map(stamps.sha256, portion.text.files)]
                stamps.recall(file, f"fits {digest(text)}", partial(check_fit, portion))
    return found


def check_lines(portion: Portion, file: Path, stamps: Stamps) -> None:
    """Raises: DataError unless there is a line of links for each pair."""
    check_rereadable(file)
    if not file.is_file():
        raise MissingFileError(f"the links {file} are not there. {neighbours(file)}")
    lines = stamps.recall(file, "lines", count_lines)
    pairs = portion.text.check(stamps)
    check_count(file, lines, pairs, " and ".join(str(path) for path in portion.text.files))


def with_links(
    prepared: Prepared, found: Mapping[str, Sequence[Linked]], plan: Plan, stamps: Stamps
) -> Prepared:
    """What was prepared, its corpora with links between pieces, and its report and ledger too."""
    report, ledger = list(prepared.report), dict(prepared.ledger)
    corpora = {"train": prepared.train, "valid": prepared.valid}
    for part, linked in found.items():
        links = piece_links(corpora[part], linked, prepared.tokenizers, plan, stamps)
        corpora[part] = corpora[part].with_links(links)
        pairs = int(np.count_nonzero(links.asked))
        if pairs == 0:
            files = ", ".join(str(file) for _, file in linked if file is not None)
            raise DataError(
                f"no pair that is kept has a link in {files}: there is nothing to train a head on. "
                "A line holds links i-j between words counted from 0, source first: 0-0 1-2"
            )
        report.append(f"{part}: links for {pairs:,} of {len(corpora[part]):,} pairs")
        ledger["links"] = {**ledger.get("links", {}), part: _ledger(linked, stamps)}
    return Prepared(**corpora, tokenizers=prepared.tokenizers, report=tuple(report), ledger=ledger)


def _ledger(linked: Sequence[Linked], stamps: Stamps) -> list[dict[str, Any]]:
    return [
        {"corpus": portion.name, "path": str(file), "sha256": stamps.sha256(file)}
        for portion, file in linked
        if file is not None
    ]


def piece_links(
    corpus: Corpus, linked: Sequence[Linked], tokenizers: Tokenizers, plan: Plan, stamps: Stamps
) -> PieceLinks:
    """The links of a corpus between pieces, computed once."""
    to_end = plan.guided.unlinked == "end"
    portions, files = [portion for portion, _ in linked], [file for _, file in linked]
    settings = settings_of(portions, tokenizers, plan.data.max_length, stamps)
    settings += [FORMAT, str(to_end)]
    settings += ["" if file is None else stamps.sha256(file) for file in files]

    def write(folder: Path) -> None:
        of_portions = (entries(each, tokenizers, plan.data.max_length, to_end) for each in linked)
        write_links(folder, chain.from_iterable(of_portions))
        # A row more or fewer would give all that follow the links of another pair.
        assert is_whole(folder, len(corpus)), "links and corpus leave out different pairs"

    cache = Path(plan.data.cache).expanduser()
    return PieceLinks(cached_folder(cache, f"links-{digest(settings)}", write))
