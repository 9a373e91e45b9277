"""The state between two decoding steps."""

from functools import lru_cache

import torch
from torch import Tensor

from seq2seq.attention.memory import Memory, tokens_of
from seq2seq.attention.page_pool import PagePool, SlotTable
from seq2seq.attention.paged import source_table, to_pages
from seq2seq.attention.slab import BeamTable, to_slabs


@lru_cache(4096)  # making a tensor takes longer than all else that `begin` does
def position_range(first: int, n: int, device: torch.device) -> Tensor:
    return torch.arange(first, first + n, device=device)


class DecodeState:
    """B sentences of K hypotheses each: N = B * K rows, row b * K + k. The rows of a sentence have
    one length; sentences that `merge` brings together may differ.

    With a pool of pages, tokens are in pages; without, the hypotheses of a sentence share a slab.
    The tables of which hypothesis has which tokens are held here, once for all layers. Only `keep`
    gives pages back; `keep` of no sentence gives back all.

    `fork`, `keep` and `merge` change the hypotheses: searches call them. Models call `begin`.

    Attributes:
        source: per layer, B rows: the source, stored once a sentence whatever K is; beams are
            queries.
        past: per layer: the decoder's memory of each hypothesis, in N rows, or B slabs.
        beams: K.
        lengths: for each sentence, the tokens remembered in each of its rows.
        targets: the table of what each hypothesis has written, which native searches fork; None if
            no layer keeps tokens.

    Raises: ValueError if the pool has too few pages for the sources.
    """

    def __init__(
        self,
        source: list[Memory],
        past: list[Memory],
        beams: int,
        device: torch.device,
        pages: PagePool | None = None,
    ):
        self.source = source
        self.past = past
        self.beams = beams
        self.lengths = [0] * source[0].rows
        self.device = device
        self.pages = pages
        self._sources: SlotTable | None = None
        self.targets: SlotTable | BeamTable | None = None
        if pages is not None:
            self._move_to_pages(pages)
        elif beams > 1:
            slabs = self.targets = BeamTable(len(self.lengths), beams, device)
            self.past = [to_slabs(memory, slabs) for memory in past]
        for tokens in map(tokens_of, self.source):
            if tokens is not None:
                tokens.compact()

    def _move_to_pages(self, pages: PagePool) -> None:
        """Put all tokens into pages: the source's now, the target's as they come."""
        table = self._sources = source_table(self.source, pages)
        if table is not None:
            self.source = [to_pages(memory, table, i) for i, memory in enumerate(self.source)]
        if any(tokens_of(memory) is not None for memory in self.past):
            table = self.targets = SlotTable(pages, len(self.lengths), self.beams)
            self.past = [to_pages(memory, table, i) for i, memory in enumerate(self.past)]

    @property
    def _tables(self) -> list[SlotTable]:
        return [t for t in (self._sources, self.targets) if isinstance(t, SlotTable)]

    @property
    def written(self) -> int:
        """Tokens in pages, the source's and those of every hypothesis."""
        return sum(table.written for table in self._tables)

    @property
    def length(self) -> int:
        """Tokens remembered in the longest row."""
        return max(self.lengths, default=0)

    def reserve(self, n: int) -> bool:
        """Reserve pages for n more tokens per row. Returns False if too few are free."""
        table = self.targets
        return not isinstance(table, SlotTable) or table.reserve([n] * len(self.lengths))

    def begin(self, n: int) -> Tensor:
        """Once a step, before the layers: the positions of the next n tokens, (n,), or (N, n) where
        sentences have different lengths.

        Raises: ValueError if there are too few pages; `reserve` first, to avoid this.
        """
        if isinstance(self.targets, SlotTable) and not self.reserve(n):
            raise ValueError(
                f"too few pages for {n} more tokens of {len(self.lengths)} sentences: call "
                "`reserve` first, and `keep` fewer sentences if it returns False"
            )
        if len(set(self.lengths)) <= 1:
            positions = position_range(max(self.lengths, default=0), n, self.device)
        else:
            positions = torch.arange(n, device=self.device)
            starts = torch.tensor(self.lengths, device=self.device)
            positions = starts.repeat_interleave(self.beams)[:, None] + positions
        if self.targets is not None:
            self.targets.grow(positions)
        self.lengths = [length + n for length in self.lengths]
        return positions

    def fork(self, parents: Tensor) -> None:
        """Row r continues the hypothesis of row parents[r], (N,), of the same sentence."""
        if self.targets is not None:
            self.targets.fork(parents)
        self.fork_memories(parents)

    def fork_memories(self, parents: Tensor) -> None:
        """`fork` without the table of targets."""
        for memory in self.past:
            memory.fork(parents)

    def keep(self, sentences: Tensor) -> None:
        """Drop all other sentences; (B',), ascending."""
        beams = torch.arange(self.beams, device=sentences.device)
        rows = (sentences[:, None] * self.beams + beams).flatten()
        for memory in self.source:
            memory.keep(sentences)
        for memory in self.past:
            memory.keep(rows)
        chosen = sentences.tolist()
        self.lengths = [self.lengths[sentence] for sentence in chosen]
        if self._sources is not None:
            self._sources.keep(chosen, sentences)
        if self.targets is not None:
            self.targets.keep(chosen, rows)

    def merge(self, other: "DecodeState") -> None:
        """Append the sentences of another state of the same model, which is used up.

        Raises: ValueError for different beams or pools, and where a memory needs rows of one
        length.
        """
        if other.beams != self.beams:
            raise ValueError(
                f"a state of {other.beams} beams cannot join one of {self.beams}: start both with "
                "the same `beams`"
            )
        if other.pages is not self.pages:
            raise ValueError(
                "these states have no pool in common: start both with the same `pages`"
            )
        B, more = len(self.lengths), len(other.lengths)
        for mine, joining in zip(self.source, other.source, strict=True):
            mine.merge(joining, B, more)
        for mine, joining in zip(self.past, other.past, strict=True):
            mine.merge(joining, B * self.beams, more * self.beams)
        for table, other_table in zip(self._tables, other._tables, strict=True):
            table.merge(other_table)
        self.lengths += other.lengths
