"""A parallel corpus as piece ids on disk: encoded once, then read as needed."""

import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers as library

from seq2seq.base.errors import DataError
from seq2seq.base.progress import show_progress
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest
from seq2seq.data.corpus.encode import KEPT, SIDES, EncodingStats, write_corpus
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.corpus.parallel_encoding import encode_component
from seq2seq.data.corpus.piece_links import PieceLinks
from seq2seq.data.corpus.ragged_array import RaggedArray, map_array, release_memory
from seq2seq.data.text.formats import Pair
from seq2seq.text.tokenization.tokenizer import Tokenizers

# Part of every cache's name: raise it when the files of a corpus change their format.
FORMAT = "5"


class Share(NamedTuple):
    """The rows `start` to `stop` (excluded), and how often an epoch samples each on average."""

    start: int
    stop: int
    weight: float


class Corpus:
    """Pairs of rows of ids, without BOS and EOS; the rows of each component in turn.

    Args:
        key: a hash of everything that the rows depend on.
        outcomes: (pairs,) uint8, for each pair of the files whether it is kept, a row.
        weights: of the components.

    Attributes:
        source_lengths: (rows,) int32, pieces of each source, EOS not counted.
        target_lengths: (rows,) int32, likewise.
        all_stats: what was kept of each component's files.
        duplicates: pairs whose text is also in an earlier row.
        hashes: (rows,) uint64, of the text of all pairs, ascending.
        shares: the rows of each component and its weight.
        links: between the pieces of each row, if the corpus has links.
    """

    links: PieceLinks | None = None

    def __init__(
        self,
        source: RaggedArray,
        target: RaggedArray,
        all_stats: Sequence[EncodingStats],
        *,
        weights: Sequence[float],
        hashes: np.ndarray,
        outcomes: np.ndarray,
        duplicates: int = 0,
        key: str = "",
    ):
        self._source, self._target = source, target
        self.source_lengths = source.lengths
        self.target_lengths = target.lengths
        self.all_stats = tuple(all_stats)
        self.hashes, self.outcomes, self.duplicates, self.key = hashes, outcomes, duplicates, key
        ends = np.cumsum([stats.kept for stats in all_stats]).tolist()
        starts = [0, *ends[:-1]]
        self.shares = [Share(*each) for each in zip(starts, ends, weights, strict=True)]

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """The ids of a source sentence, read-only."""
        return self._source[index]

    def target(self, index: int) -> np.ndarray:
        """The ids of a target sentence, read-only."""
        return self._target[index]

    def read_ahead(self, rows: np.ndarray) -> None:
        """Let the system read rows from disk, which will be asked for soon."""
        self._source.read_ahead(rows)
        self._target.read_ahead(rows)

    def release_memory(self) -> None:
        """Take what was read of lengths and hashes out of memory; they stay on disk."""
        for array in (self.source_lengths, self.target_lengths, self.hashes):
            release_memory(array)

    def count_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of some rows, EOS counted."""
        return int(self.target_lengths[rows].sum(dtype=np.int64)) + len(rows)

    def pair_masks(self) -> list[np.ndarray]:
        """For each component, (pairs,) bool: is this pair of its files a row?"""
        ends = np.cumsum([stats.read for stats in self.all_stats])
        return np.split(self.outcomes == KEPT, ends[:-1])


def encode_corpus(
    components: Sequence[Component], tokenizers: Tokenizers, *, max_length: int, cache_dir: Path
) -> Corpus:
    """Encode parallel text, or reuse an earlier encoding.

    Pairs with an empty side, and pairs with a side of more than `max_length` pieces (EOS counted),
    are left out and counted in `all_stats`.

    Args:
        components: the texts.
        tokenizers: one for each side.
        max_length: maximum pieces of a sentence, EOS included.
        cache_dir: folder of encoded corpora. The name in it is a hash of everything the result
            depends on, so a change of a file or of a tokenizer is never overlooked.

    Raises: DataError if the files cannot be read or do not match, or if no pair of a text is left.
    """
    memo = FileMemo(cache_dir)
    settings = [FORMAT, library.__version__, str(max_length)]
    settings += [tokenizer.to_json() for tokenizer in tokenizers]
    for component in components:
        settings += [*component.text.fingerprint(memo), repr(component.tag)]
    key = digest(settings)
    # Of encodings that were interrupted, or are going on: machines that encode at once share them.
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
    return load_corpus(folder, [component.weight for component in components], key)


def load_corpus(folder: Path, weights: Sequence[float], key: str) -> Corpus:
    note = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    sides = zip(SIDES, note["types"], strict=True)
    source, target = (RaggedArray(folder, side, kind) for side, kind in sides)
    return Corpus(
        source,
        target,
        [EncodingStats.from_plain(each) for each in note["stats"]],
        weights=weights,
        hashes=map_array(folder / "hashes", "<u8"),
        outcomes=map_array(folder / "outcomes", "u1"),
        duplicates=note["duplicates"],
        key=key,
    )


def text_of_rows(components: Sequence[Component], corpus: Corpus) -> Iterator[Pair]:
    """Source and target text of each row, from the files that the corpus was encoded from."""
    for component, kept in zip(components, corpus.pair_masks(), strict=True):
        yield from compress(component.text.pairs(), kept)
