"""A memory shared by the K hypotheses of a sentence, in which tokens are never moved.

A fork changes only a table. Attention is one product of K queries with K T keys instead of K
products of one query with T keys, which is more arithmetic but faster.
"""

import torch
from torch import Tensor

from seq2seq.attention.memory import DenseMemory, Memory, tokens_of, with_tokens


class BeamTable:
    """Table of the tokens that make up each of the K hypotheses of a sentence, for all layers.

    The tokens of a sentence are ordered by position, with K tokens at each: entry t K + k is the
    token that beam k wrote at position t.

    Attributes:
        length: number of positions T.
        entries: entry of each hypothesis at each position, (N, room). Columns from T on hold the
            entries that the hypothesis will write itself.
    """

    ROOM = 32  # initial number of positions; doubled when full

    def __init__(self, sentences: int, beams: int, device: torch.device) -> None:
        self.beams, self.length = beams, 0
        self.entries = torch.empty(sentences * beams, 0, dtype=torch.long, device=device)
        self._visible: Tensor | None = None
        self._positions: Tensor

    def grow(self, positions: Tensor) -> None:
        """Add the next tokens of every beam, at positions (n,)."""
        self.length += positions.shape[0]
        room = self.entries.shape[1]
        if self.length > room:
            places = torch.arange(room, max(self.ROOM, 2 * self.length), device=positions.device)
            own = torch.arange(self.entries.shape[0], device=positions.device) % self.beams
            self.entries = torch.cat((self.entries, places * self.beams + own[:, None]), dim=1)
        self._positions, self._visible = positions, None

    @property
    def visible(self) -> Tensor:
        """Mask of the entries that each of the n newest tokens of each beam may read, up to and
        including itself: (B, K n, T K).
        """
        if self._visible is None:
            entries = self.entries[:, : self.length]
            read = entries.new_zeros(len(entries), self.length * self.beams, dtype=torch.bool)
            read.scatter_(1, entries, True)
            beams = read.view(-1, self.beams, 1, self.length, self.beams)  # (B, K, 1, T, K)
            if len(self._positions) > 1:
                places = torch.arange(self.length, device=beams.device)
                beams = beams & (places <= self._positions[:, None])[..., None]
            self._visible = beams.flatten(3).flatten(1, 2)
        return self._visible

    def fork_view(self) -> tuple[Tensor, int]:
        """The entries (N, room), for the caller to fork in place, and their valid length."""
        self._visible = None
        return self.entries, self.length

    def fork(self, parents: Tensor) -> None:
        """Continue row i from row parents[i]."""
        entries, length = self.fork_view()
        entries[:, :length] = entries[:, :length].index_select(0, parents)

    def keep(self, sentences: list[int], rows: Tensor) -> None:
        """Keep the rows of these sentences."""
        self.entries, self._visible = self.entries.index_select(0, rows), None


class SlabMemory(DenseMemory):
    """The tokens of a layer in one slab per sentence, each token written once.

    The table records which tokens make up a hypothesis. The owner of the table grows it, and calls
    its `fork` and `keep`.
    """

    def __init__(self, table: BeamTable) -> None:
        super().__init__()
        self.table, self.beams = table, table.beams

    def append(self, streams: dict[str, Tensor]) -> None:
        """Add n tokens to every hypothesis; each stream is (B K, n, heads, width)."""
        super().append({name: order_by_position(x, self.beams) for name, x in streams.items()})

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        return super().read()[0], self.table.visible

    def fork(self, parents: Tensor) -> None:
        pass

    def keep(self, rows: Tensor) -> None:
        super().keep(rows[:: self.beams] // self.beams)


def order_by_position(x: Tensor, beams: int) -> Tensor:
    """Order the tokens of a sentence by position, then beam: (B K, n, ...) -> (B, n K, ...)."""
    return torch.unflatten(x, 0, (-1, beams)).transpose(1, 2).flatten(1, 2)


def to_slabs(memory: Memory, table: BeamTable) -> Memory:
    """Convert an empty memory to slabs if hypotheses can share its tokens; else unchanged."""
    tokens = tokens_of(memory)
    return memory if tokens is None or not tokens.folds else with_tokens(memory, SlabMemory(table))
