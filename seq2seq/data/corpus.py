"""A parallel corpus as piece ids on disk: encoded once, then read as needed."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers as library

from seq2seq.data.cache import FileMemo, cached_folder, digest
from seq2seq.data.encode import SIDES, pairs_of, write_corpus
from seq2seq.data.encoded_blocks import encoded_blocks
from seq2seq.data.encoding_stats import EncodingStats
from seq2seq.data.file_array import Stored, mapped, release, stored
from seq2seq.data.links import PieceLinks
from seq2seq.data.mixture import Component
from seq2seq.errors import DataError
from seq2seq.progress import show_progress
from seq2seq.tokenization.tokenizer import Tokenizers

# Part of every cache's name: raise it when the files of a corpus change their format.
FORMAT = "4"

WINDOW = 2**14  # offsets that are read from disk together: 128 KiB


class Side(NamedTuple):
    """One language: the ids of all rows end to end, the offset of each row, and its length.

    Row i is `ids[offsets[i] : offsets[i + 1]]`: there is one more offset than there are rows.
    """

    ids: Stored | np.ndarray
    offsets: Stored | np.ndarray
    lengths: np.ndarray

    def row(self, index: int) -> np.ndarray:
        start, stop = self.offsets[index : index + 2].tolist()
        return self.ids[start:stop]

    def bounds(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where in `ids` some rows start, and where they end."""
        return self.offsets[rows], self.offsets[rows + 1]

    def read_ahead(self, rows: np.ndarray) -> None:
        """Let the system read rows from disk, without waiting for it."""
        if isinstance(self.ids, Stored) and isinstance(self.offsets, Stored):
            # Around them too: there are few offsets beside ids, and all of them are needed soon.
            windows = np.unique(rows // WINDOW) * WINDOW
            self.offsets.read_ahead(windows, windows + WINDOW + 1)
            self.ids.read_ahead(*self.bounds(rows))


class Share(NamedTuple):
    """The rows `start` to `stop` (excluded), and how often an epoch samples each on average."""

    start: int
    stop: int
    weight: float


class Corpus:
    """Pairs of rows of ids, without BOS and EOS; the rows of each component in turn.

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
        source: Side,
        target: Side,
        all_stats: Sequence[EncodingStats],
        *,
        weights: Sequence[float],
        hashes: np.ndarray,
        duplicates: int = 0,
    ):
        self._source, self._target = source, target
        self.source_lengths = source.lengths
        self.target_lengths = target.lengths
        self.all_stats = tuple(all_stats)
        self.hashes, self.duplicates = hashes, duplicates
        ends = np.cumsum([stats.report.kept for stats in all_stats]).tolist()
        starts = [0, *ends[:-1]]
        self.shares = [Share(*each) for each in zip(starts, ends, weights, strict=True)]

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """The ids of a source sentence, read-only."""
        return self._source.row(index)

    def target(self, index: int) -> np.ndarray:
        """The ids of a target sentence, read-only."""
        return self._target.row(index)

    def read_ahead(self, rows: np.ndarray) -> None:
        """Let the system read rows from disk, which will be asked for soon."""
        self._source.read_ahead(rows)
        self._target.read_ahead(rows)

    def release(self) -> None:
        """Take what was read of lengths and hashes out of memory; they stay on disk."""
        for array in (self.source_lengths, self.target_lengths, self.hashes):
            release(array)

    def count_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of some rows, EOS counted."""
        starts, ends = self._target.bounds(rows)
        return int((ends - starts).sum()) + len(rows)


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
    name = f"corpus-{digest(settings_of(components, tokenizers, max_length, memo))}"
    # Of encodings that were interrupted, or are going on: machines that encode at once share them.
    kept = cache_dir / f"{name}.blocks"

    def write(folder: Path) -> None:
        pairs = [each.text.check(memo) for each in components]
        blocks = (
            encoded_blocks(each, tokenizers, max_length, count, kept / str(number))
            for number, (each, count) in enumerate(zip(components, pairs, strict=True))
        )
        with show_progress("encoding the text", "pairs", sum(pairs)) as tally:
            counted = (tally.count(each, pairs_of) for each in blocks)
            all_stats = write_corpus(folder, components, counted, tokenizers, max_length)
        for component, stats in zip(components, all_stats, strict=True):
            if stats.report.kept == 0:
                files = " and ".join(str(file) for file in component.text.files)
                raise DataError(
                    f"no pair of {files} can be used: {stats.report}. "
                    "A larger data.max_length keeps longer sentences."
                )

    folder = cached_folder(cache_dir, name, write)
    shutil.rmtree(kept, ignore_errors=True)
    return load_corpus(folder, [component.weight for component in components])


def settings_of(
    components: Sequence[Component], tokenizers: Tokenizers, max_length: int, memo: FileMemo
) -> list[str]:
    """All that determines an encoded corpus. Raises: DataError if a file cannot be read."""
    descriptions = [tokenizer.to_json() for tokenizer in tokenizers]
    settings = [FORMAT, library.__version__, str(max_length), *descriptions]
    for component in components:
        settings += [*component.text.settings, repr(component.tag)]
        settings += [memo.sha256(file) for file in component.text.files]
    return settings


def load_corpus(folder: Path, weights: Sequence[float]) -> Corpus:
    note = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    source, target = (
        Side(
            stored(folder / f"{side}.ids", kind),
            stored(folder / f"{side}.offsets", "<i8"),
            mapped(folder / f"{side}.lengths", "<i4"),
        )
        for side, kind in zip(SIDES, note["ids"], strict=True)
    )
    return Corpus(
        source,
        target,
        [EncodingStats.from_plain(each) for each in note["accounts"]],
        weights=weights,
        hashes=mapped(folder / "hashes", "<u8"),
        duplicates=note["duplicates"],
    )


COVERED = 0.999  # share of the pairs; the rest may not be translations of each other
ROOM = 1.25
MIN_RATIO = 1.5  # where all pairs are short, `extra` hides how lengths grow
SAMPLE = 2**20  # maximum pairs examined


def learn_length_ratio(source: np.ndarray, target: np.ndarray, extra: int) -> float:
    """The ratio r such that r * S + `extra` tokens, EOS counted, suffice for a source of S pieces:
    25 % above both the ratio that 99.9 % of the pairs need and the median ratio; at least 1.5.

    Args:
        source, target: (rows,) pieces of both sides of each pair, EOS not counted.
    """
    step = -(-len(source) // SAMPLE)
    source, target = np.maximum(source[::step], 1), target[::step]
    needed = (target + 1 - extra) / source
    longest = float(np.quantile(needed, COVERED))
    usual = float(np.median(target / source))
    return round(max(MIN_RATIO, ROOM * longest, ROOM * usual), 2)
