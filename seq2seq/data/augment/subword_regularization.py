"""Subword regularization: segment the pairs of a corpus differently in every epoch.

Only the corpus is stored: its plain pieces are decoded to text, which is segmented again by BPE
dropout (Provilkov et al. 2020).
"""

from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np

from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.links.piece_links import PieceLinks
from seq2seq.text.tokenization.bpe_dropout import BPEDropout, draw_drops
from seq2seq.text.tokenization.tokenizer import Tokenizers

SAMPLE = 500  # rows from which the growth of sentences is estimated
Draw = Callable[[int], list[int] | np.ndarray]  # the pieces of a row
CACHED = 2**16  # number of cached rows: more than all devices together read in a step


class PassRows:
    """The pairs of a corpus as drawn for one pass.

    Attributes:
        source, target: functions that return the pieces of a row.
        links: links between the pieces of each row, if the corpus has links.
    """

    def __init__(self, source: Draw, target: Draw, links: PieceLinks | None = None):
        self.source, self.target, self.links = source, target, links

    def count_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of some rows, EOS counted."""
        return sum(len(self.target(int(row))) + 1 for row in rows)


class SubwordRegularization:
    """The segmentation of each row in an epoch: a pure function of (seed, epoch, row, side).

    Dropout makes more pieces. So that no batch exceeds its bound, batches are formed as if each row
    had more pieces: the average of rows of its length plus the root of its length, which is enough
    for nearly all rows, but never more than `max_length` allows. A row that would not fit keeps its
    plain pieces in this epoch.

    Args:
        corpus: a corpus of plain pieces.
        tokenizers: the corpus's tokenizers, which must be byte-level BPE.
        p: probability with which a merge is dropped, 0 < p < 1.
        seed: seed of the draws.
        max_length: maximum pieces of a sentence, EOS included.

    Attributes:
        growth: average ratio of pieces with and without dropout, of sources and of targets.
        rooms: maximum pieces of each source and of each target, (rows,) int32, EOS not counted.

    Raises: ConfigError for tokenizers of another kind.
    """

    def __init__(
        self, corpus: Corpus, tokenizers: Tokenizers, *, p: float, seed: int, max_length: int
    ):
        self._plain, self._tokenizers = (corpus.source, corpus.target), tokenizers
        self._p, self._seed = p, seed
        dropout_of = cache(BPEDropout)  # one object if both sides share a tokenizer
        self._dropouts = [dropout_of(each) for each in tokenizers]
        sample = np.linspace(0, len(corpus) - 1, min(SAMPLE, len(corpus)), dtype=np.int64)
        self.growth: list[float] = []
        self.rooms: list[np.ndarray] = []
        for side, plain in enumerate(corpus.lengths):
            drawn = sum(len(self._draw(side, int(row), 0)) for row in sample)
            self.growth.append(drawn / int(plain[sample].sum()))
            self.rooms.append(max_pieces_of(plain, self.growth[side], max_length - 1))

    def draw(self, side: int, row: int, epoch: int) -> list[int] | np.ndarray:
        """The pieces of a row in an epoch: of its source (side 0) or its target (1)."""
        pieces = self._draw(side, row, epoch)
        return pieces if len(pieces) <= self.rooms[side][row] else self._plain[side](row)

    def segment(self, side: int, ids: list[int], row: int, epoch: int) -> list[int]:
        """Segment the text of `ids` as for this row and epoch; a tag before it is kept."""
        dropout = self._dropouts[side]
        (text,) = self._tokenizers[side].decode_batch([ids])
        draws = draw_drops(self._p, self._seed, epoch, row, side)
        return [*dropout.tags(ids), *dropout.segment(text, draws)]

    def lengths(self, epoch: int) -> list[np.ndarray]:
        """`rooms`, the same in every epoch."""
        return self.rooms

    def rows(self, epoch: int) -> PassRows:
        """The pairs of an epoch; the drawn rows of the last batches are cached."""
        source, target = (
            lru_cache(CACHED)(partial(self.draw, side, epoch=epoch)) for side in (0, 1)
        )
        return PassRows(source, target)

    def _draw(self, side: int, row: int, epoch: int) -> list[int]:
        return self.segment(side, self._plain[side](row).tolist(), row, epoch)


def max_pieces_of(
    lengths: np.ndarray,
    growth: float | np.ndarray,
    max_pieces: int,
    spread: float | np.ndarray = 1.0,
) -> np.ndarray:
    """Maximum pieces, int32, of rows of these lengths: the average after growth, plus `spread`
    times the root of the length.
    """
    roots = np.sqrt(lengths, dtype=np.float32) * np.float32(spread)
    wanted = np.ceil(lengths * np.float32(growth) + roots)
    rooms: np.ndarray = np.maximum(lengths, np.minimum(wanted, max_pieces))
    return rooms.astype(np.int32)
