"""The memory of packed tokens: keys and values of many sentences in one row."""

from torch import Tensor

from seq2seq.attention.memory import DenseMemory
from seq2seq.functional.varlen import Sentences


class PackedMemory(DenseMemory):
    """The tokens of many sentences as one row, all remembered at once. It is for gradients.

    Args:
        queries: borders of the sentences of the queries that will read it.
        keys: borders of the sentences of its own tokens.
    """

    def __init__(self, queries: Sentences, keys: Sentences) -> None:
        super().__init__()
        self.queries, self.keys = queries, keys

    def append(self, streams: dict[str, Tensor]) -> None:
        """Remember all tokens, as views; each stream (1, S, heads, width)."""
        self.storage = {name: x.transpose(1, 2) for name, x in streams.items()}
        self.length = next(iter(streams.values())).shape[1]
