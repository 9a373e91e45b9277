"""The memory of packed tokens: keys and values of many sentences in one row."""

from torch import Tensor

from seq2seq.attention.memory import DenseMemory
from seq2seq.functional.varlen import Borders


class PackedMemory(DenseMemory):
    """The tokens of many sentences as one row, remembered all at once, with gradients.

    Args:
        borders: sentences of the queries that will read it, and of its own tokens.
    """

    def __init__(self, borders: Borders) -> None:
        super().__init__()
        self.borders = borders

    def append(self, streams: dict[str, Tensor]) -> None:
        """Remember all tokens, as views; each stream (1, S, heads, width)."""
        self.storage = {name: x.transpose(1, 2) for name, x in streams.items()}
