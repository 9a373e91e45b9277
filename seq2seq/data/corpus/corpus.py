"""A parallel corpus as piece ids on disk: encoded once, then read as needed. Its statistics count
the pairs kept and left out, their lengths, and their unknown pieces.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import compress, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers as library

from seq2seq.base.errors import DataError, format_count
from seq2seq.base.progress import show_progress
from seq2seq.base.symbols import UNK
from seq2seq.data.corpus.blocks import (
    EMPTY,
    KEPT,
    LONG,
    Block,
    encode_component,
    smallest_type,
)
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest
from seq2seq.data.corpus.context import ContextArray, count_preceding
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.corpus.ragged_array import RaggedArray, RaggedWriter, map_array, release_memory
from seq2seq.data.links.piece_links import PieceLinks
from seq2seq.data.text.formats import Pair
from seq2seq.text.tokenization.tokenizer import SEPARATOR, Tokenizers

# Part of every cache's name: raise it when the format of a corpus's files changes.
FORMAT = "5"
SIDES = ("source", "target")
LINES_KEPT, LINES_SHOWN = 100, 5  # line numbers per reason for which pairs are left out


@dataclass
class LeftOut:
    """The pairs left out for one reason: their count, and the line numbers of the first ones."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        shown = ", ".join(str(line) for line in self.lines[:LINES_SHOWN])
        more = ", ..." if self.count > LINES_SHOWN else ""
        return f"line {shown}" if self.count == 1 else f"lines {shown}{more}"


@dataclass
class PieceStats:
    """Statistics of the pieces of one side.

    Attributes:
        lengths: numbers of sentences with 0, 1, 2, ... pieces, EOS not counted.
        unknown: number of pieces that are not in the vocabulary.
    """

    lengths: list[int] = field(default_factory=list)
    unknown: int = 0

    def count(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Count more rows, given as concatenated ids and their lengths."""
        more = np.bincount(lengths, minlength=len(self.lengths)).tolist()
        self.lengths = [known + new for known, new in zip_longest(self.lengths, more, fillvalue=0)]
        self.unknown += int(np.count_nonzero(ids == UNK))

    @property
    def total(self) -> int:
        return sum(length * count for length, count in enumerate(self.lengths))


@dataclass
class EncodingStats:
    """The statistics of one component: its pairs, and the pieces of both sides.

    Attributes:
        max_length: maximum pieces of a sentence, EOS included.
        kept: number of pairs in the corpus.
        empty: pairs left out because a side is empty or white space.
        long: pairs left out because a side has more than `max_length` pieces.
    """

    max_length: int
    kept: int = 0
    empty: LeftOut = field(default_factory=LeftOut)
    long: LeftOut = field(default_factory=LeftOut)
    source: PieceStats = field(default_factory=PieceStats)
    target: PieceStats = field(default_factory=PieceStats)

    @property
    def read(self) -> int:
        """Number of pairs in the files."""
        return self.kept + self.empty.count + self.long.count

    def count_pairs(self, outcomes: np.ndarray, first_line: int) -> None:
        """Count more pairs.

        Args:
            outcomes: (pairs,) KEPT, EMPTY or LONG.
            first_line: line number of the file's first pair.
        """
        line = first_line + self.read
        self.kept += int(np.count_nonzero(outcomes == KEPT))
        for outcome, left_out in ((EMPTY, self.empty), (LONG, self.long)):
            lines = (np.flatnonzero(outcomes == outcome) + line).tolist()
            left_out.count += len(lines)
            left_out.lines += lines[: LINES_KEPT - len(left_out.lines)]

    def __str__(self) -> str:
        reasons = {
            "with an empty side": self.empty,
            f"longer than {self.max_length} pieces": self.long,
        }
        left_out = [f"{each.count:,} {why} ({each})" for why, each in reasons.items() if each.count]
        sentence = f"{format_count(self.read, 'pair')} read, {self.kept:,} kept"
        return f"{sentence}; left out: {', '.join(left_out)}" if left_out else sentence

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "EncodingStats":
        """The inverse of `dataclasses.asdict`.

        Raises: LookupError or TypeError if the values do not have that form.
        """
        parts = {"empty": LeftOut, "long": LeftOut, "source": PieceStats, "target": PieceStats}
        return cls(**{**values, **{name: part(**values[name]) for name, part in parts.items()}})


class Share(NamedTuple):
    """The rows `start` to `stop` (excluded), and how often an epoch samples each on average."""

    start: int
    stop: int
    weight: float

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def drawn(self) -> int:
        """Number of rows drawn for the fraction of the weight; no share gets zero rows."""
        count = round(self.weight % 1 * self.size)
        return max(1, count) if self.weight < 1 else count

    @property
    def samples(self) -> int:
        """Number of rows in a pass, repetitions counted."""
        return int(self.weight) * self.size + self.drawn


def temper(shares: Sequence[Share], temperature: float) -> list[Share]:
    """Change weights so that the rows of share i in a pass are proportional to w_i n_i^(1/T).

    The number of rows in a pass stays sum_i w_i n_i, up to rounding.

    Args:
        shares: rows n_i of each corpus, and weights w_i.
        temperature: T, at least 1; 1 leaves the weights as they are.

    Source: Arivazhagan et al. 2019, arXiv:1907.05019.
    """
    power = 1 / temperature - 1
    flat = [each._replace(weight=each.weight * each.size**power) for each in shares]
    before, after = (sum(each.weight * each.size for each in some) for some in (shares, flat))
    return [each._replace(weight=each.weight * (before / after)) for each in flat]


@dataclass(eq=False)
class Corpus:
    """Encoded sentence pairs, without BOS and EOS; the rows of one component follow the other.

    Attributes:
        components: the texts that were encoded.
        sides: the ids of sources, with their context, and of targets.
        all_stats: statistics of each component: pairs kept, and left out for each reason.
        hashes: (rows,) uint64, hashes of the text of all rows, ascending.
        outcomes: (pairs,) uint8, outcome of each pair of the files; kept pairs are rows.
        duplicates: number of pairs whose text is also in an earlier row.
        key: a hash of everything that the rows depend on.
        links: links between the pieces of each row, if the corpus has links.
        source_lengths: (rows,) int32, pieces of each source, with its context, EOS not counted.
        target_lengths: (rows,) int32, pieces of each target.
        lengths: those of sources, and those of targets.
        shares: the rows of each component and its weight.
    """

    components: Sequence[Component]
    sides: tuple[RaggedArray | ContextArray, RaggedArray]
    all_stats: Sequence[EncodingStats]
    hashes: np.ndarray
    outcomes: np.ndarray
    duplicates: int = 0
    key: str = ""
    links: PieceLinks | None = None

    def __post_init__(self) -> None:
        self.lengths = self.sides[0].lengths, self.sides[1].lengths
        self.source_lengths, self.target_lengths = self.lengths
        ends = np.cumsum([stats.kept for stats in self.all_stats]).tolist()
        weights = [component.weight for component in self.components]
        starts = [0, *ends[:-1]]
        self.shares = [Share(*each) for each in zip(starts, ends, weights, strict=True)]

    @property
    def is_augmented(self) -> bool:
        """True if any of its pairs are changed in training."""
        return any(component.is_augmented for component in self.components)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """The ids of a source sentence with its context, read-only."""
        return self.sides[0][index]

    def target(self, index: int) -> np.ndarray:
        """The ids of a target sentence, read-only."""
        return self.sides[1][index]

    def read_ahead(self, rows: np.ndarray) -> None:
        """Ask the system to read rows from disk that will be needed soon."""
        for side in self.sides:
            side.read_ahead(rows)

    def release_memory(self) -> None:
        """Free the memory of lengths and hashes; they are read from disk again when needed."""
        for array in (*self.lengths, self.hashes):
            release_memory(array)

    def count_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of some rows, EOS counted."""
        return int(self.target_lengths[rows].sum(dtype=np.int64)) + len(rows)

    def pair_masks(self) -> list[np.ndarray]:
        """For each component, (pairs,) bool: True if the pair of its files is a row."""
        ends = np.cumsum([stats.read for stats in self.all_stats])
        return np.split(self.outcomes == KEPT, ends[:-1])

    def texts(self) -> Iterator[Pair]:
        """Source and target text of each row, from the files that were encoded."""
        for component, kept in zip(self.components, self.pair_masks(), strict=True):
            yield from compress(component.text.pairs(), kept)


def encode_corpus(
    components: Sequence[Component],
    tokenizers: Tokenizers,
    *,
    max_length: int,
    cache_dir: Path,
    context: int = 0,
) -> Corpus:
    """Encode parallel text, or reuse an earlier encoding.

    Pairs with an empty side, and pairs with a side of more than `max_length` pieces (EOS counted),
    are left out and counted in `all_stats`.

    Args:
        components: the texts.
        tokenizers: tokenizers of the two sides.
        max_length: maximum pieces of a sentence, EOS included.
        cache_dir: folder of encoded corpora. The name in it is a hash of everything the result
            depends on, so a change of a file or of a tokenizer is never overlooked.
        context: maximum number of sentences of the same document before each source.

    Raises: DataError if the files cannot be read or do not match, or if no pair of a text is left.
    """
    memo = FileMemo(cache_dir)
    settings = [FORMAT, library.__version__, str(max_length)]
    settings += [tokenizer.to_json() for tokenizer in tokenizers]
    for component in components:
        tags = [repr(tag) for tag in (component.tag, component.target_tag) if tag is not None]
        settings += [*component.text.fingerprint(memo), *(tags or [repr(None)])]
    key = digest(settings)
    # Blocks of interrupted or ongoing encodings; machines that encode at the same time share them.
    finished = cache_dir / f"corpus-{key}.blocks"

    def write(folder: Path) -> None:
        pairs = [each.text.check(memo) for each in components]
        blocks = (
            encode_component(each, tokenizers, max_length, count, finished / str(number))
            for number, (each, count) in enumerate(zip(components, pairs, strict=True))
        )
        with show_progress("encoding the text", "pairs", sum(pairs)) as tally:
            counted = (tally.count(each, lambda block: len(block.outcomes)) for each in blocks)
            all_stats = write_corpus(folder, components, counted, tokenizers, max_length)
        for component, stats in zip(components, all_stats, strict=True):
            if stats.kept == 0:
                files = " and ".join(str(file) for file in component.text.files)
                raise DataError(
                    f"no pair of {files} can be used: {stats}. "
                    "A larger data.max_length keeps longer sentences."
                )

    folder = compute_once(cache_dir, f"corpus-{key}", write)
    shutil.rmtree(finished, ignore_errors=True)
    note = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    source: RaggedArray | ContextArray
    source, target = map(partial(RaggedArray, folder), SIDES, note["types"])
    all_stats = [EncodingStats.from_plain(each) for each in note["stats"]]
    outcomes = map_array(folder / "outcomes", "u1")
    if context:
        preceding = count_preceding(outcomes, [stats.read for stats in all_stats])
        separator = tokenizers.source.tag_id(SEPARATOR)
        source = ContextArray(source, preceding, context, separator, max_length - 1)
    return Corpus(
        components,
        (source, target),
        all_stats,
        hashes=map_array(folder / "hashes", "<u8"),
        outcomes=outcomes,
        duplicates=note["duplicates"],
        key=key,
    )


def write_corpus(
    folder: Path,
    components: Sequence[Component],
    blocks: Iterable[Iterable[Block]],
    tokenizers: Tokenizers,
    max_length: int,
) -> list[EncodingStats]:
    """Write the files of a corpus, block by block.

    Args:
        blocks: encoded blocks of each component.

    Returns: the statistics of each component.
    Raises: DataError for a faulty file.
    """
    all_stats = [EncodingStats(max_length) for _ in components]
    with ExitStack() as files:
        hashes = files.enter_context((folder / "hashes").open("wb"))
        outcomes = files.enter_context((folder / "outcomes").open("wb"))
        sources, targets = (RaggedWriter(files, folder, side) for side in SIDES)
        for component, stats, of_component in zip(components, all_stats, blocks, strict=True):
            for block in of_component:
                sources.append(block.source, block.source_lengths)
                targets.append(block.target, block.target_lengths)
                block.hashes.tofile(hashes)
                block.outcomes.tofile(outcomes)
                stats.count_pairs(block.outcomes, component.text.first_line)
                stats.source.count(block.source, block.source_lengths)
                stats.target.count(block.target, block.target_lengths)
    note = {
        "stats": [asdict(stats) for stats in all_stats],
        "duplicates": sort_hashes(folder / "hashes"),
        "types": [smallest_type(tokenizer) for tokenizer in tokenizers],
    }
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return all_stats


def sort_hashes(path: Path) -> int:
    """Sort a file of hashes in place. Returns: the number of hashes that repeat an earlier one."""
    if path.stat().st_size == 0:
        return 0
    hashes = np.memmap(path, "<u8", "r+")
    hashes.sort()
    hashes.flush()
    return int(np.count_nonzero(hashes[1:] == hashes[:-1]))
