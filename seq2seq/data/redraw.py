"""The pairs of a corpus cut into other pieces in every epoch, by BPE dropout.

Nothing but the corpus is kept: its plain pieces give back the text that is cut anew.
"""

import numpy as np

from seq2seq.data.bpe_dropout import Merger, drops
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizer import Tokenizers

SAMPLE = 500  # rows that say how much longer sentences become


class Redraw:
    """How the rows of a corpus are cut in an epoch: a pure function of (seed, epoch, row, side).

    Pieces with dropout are more. So that no batch exceeds its bound, each row is given room for
    more pieces than it has, and batches are formed by that. Room is what rows of its length come to
    on average and the root of its length, which most rows fit into, but never more than
    `max_length` allows. A row that would not fit keeps its plain pieces in this epoch.

    Args:
        corpus: of plain pieces.
        tokenizers: of byte-level BPE, those of the corpus.
        p: with which a merge is dropped, 0 < p < 1.
        seed: of the draws.
        max_length: most pieces of a sentence, its end symbol included.

    Attributes:
        growth: how many times as many pieces there are on average, of sources and of targets.
        rooms: (rows,) int32 most pieces of each source, and of each target, the end not counted.

    Raises: ConfigError for tokenizers of another kind.
    """

    def __init__(
        self, corpus: Corpus, tokenizers: Tokenizers, *, p: float, seed: int, max_length: int
    ):
        self._corpus, self._tokenizers = corpus, tokenizers
        self._p, self._seed = p, seed
        source = Merger(tokenizers.source)
        same = tokenizers.source is tokenizers.target
        self._mergers = source, source if same else Merger(tokenizers.target)
        lengths = corpus.source_lengths, corpus.target_lengths
        sample = np.linspace(0, len(corpus) - 1, min(SAMPLE, len(corpus)), dtype=np.int64)
        growth = [
            sum(len(self._cut(side, int(row), 0)) for row in sample)
            / int(lengths[side][sample].sum())
            for side in (0, 1)
        ]
        self.growth = growth[0], growth[1]
        self.rooms = tuple(
            room(each, rate, max_length - 1) for each, rate in zip(lengths, growth, strict=True)
        )

    def draw(self, side: int, row: int, epoch: int) -> list[int] | np.ndarray:
        """The pieces of a row in an epoch: of its source (side 0) or its target (1)."""
        cut = self._cut(side, row, epoch)
        return cut if len(cut) <= self.rooms[side][row] else self._plain(side, row)

    def _plain(self, side: int, row: int) -> np.ndarray:
        return self._corpus.target(row) if side else self._corpus.source(row)

    def _cut(self, side: int, row: int, epoch: int) -> list[int]:
        plain = self._plain(side, row).tolist()
        merger = self._mergers[side]
        text = self._tokenizers[side].decode_batch([plain])[0]
        draws = drops(self._p, self._seed, epoch, row, side)
        return [*merger.tags(plain), *merger.segment(text, draws)]


class Redrawn:
    """A corpus as an epoch sees it; what was drawn is remembered."""

    links = None

    def __init__(self, redraw: Redraw, epoch: int):
        self._redraw, self._epoch = redraw, epoch
        self._known: dict[tuple[int, int], list[int] | np.ndarray] = {}

    def source(self, index: int) -> list[int] | np.ndarray:
        """The ids of a source sentence."""
        return self._row(0, index)

    def target(self, index: int) -> list[int] | np.ndarray:
        """The ids of a target sentence."""
        return self._row(1, index)

    def count_tokens(self, rows: np.ndarray) -> int:
        """Target tokens of some rows, EOS counted."""
        return sum(len(self.target(int(row))) + 1 for row in rows)

    def _row(self, side: int, row: int) -> list[int] | np.ndarray:
        if (side, row) not in self._known:
            self._known[side, row] = self._redraw.draw(side, row, self._epoch)
        return self._known[side, row]


def room(lengths: np.ndarray, growth: float, most: int) -> np.ndarray:
    """Most pieces that rows of these lengths may come to, int32."""
    wanted = np.ceil(lengths * np.float32(growth) + np.sqrt(lengths, dtype=np.float32))
    return np.maximum(lengths, np.minimum(wanted, most)).astype(np.int32)
