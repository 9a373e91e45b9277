"""Small corpora of text, and of ids in memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seq2seq.data.corpus.corpus import Corpus, EncodingStats
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.corpus.ragged_array import RaggedArray
from seq2seq.data.text.formats import TwoFiles
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.tokenizer import Tokenizer

GERMAN = ["ein hund läuft", "eine katze schläft", "der hund sieht die katze", "die katze lacht"]
ENGLISH = ["a dog runs", "a cat sleeps", "the dog sees the cat", "the cat laughs"]


def small_tokenizer() -> Tokenizer:
    return ByteLevelBPE(vocab_size=300).train(GERMAN + ENGLISH)


class InMemory(RaggedArray):
    """Rows of these lengths; row i repeats the id 4 + i."""

    def __init__(self, lengths: Sequence[int] | np.ndarray):
        self._values = np.repeat(np.arange(len(lengths), dtype=np.int32) + 4, lengths)
        self._offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.lengths = np.array(lengths, np.int32)

    def read_ahead(self, rows: np.ndarray) -> None:
        """They are in memory."""


def corpus_in_memory(
    source: Sequence[int] | np.ndarray,
    target: Sequence[int] | np.ndarray,
    kept: Sequence[int] = (),
    weights: Sequence[float] = (1.0,),
) -> Corpus:
    """A corpus with given lengths; `kept` are the rows of each component, if there are several."""
    text = TwoFiles(Path("none.de"), Path("none.en"))
    return Corpus(
        [Component("", text, weight) for weight in weights],
        (InMemory(source), InMemory(target)),
        [EncodingStats(256, kept=rows) for rows in kept or [len(source)]],
        hashes=np.arange(len(source), dtype=np.uint64),
        outcomes=np.zeros(len(source), np.uint8),
    )
