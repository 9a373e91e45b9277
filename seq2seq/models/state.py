"""The state between two decoding steps."""

from functools import lru_cache

import torch
from torch import Tensor

from seq2seq.attention.memory import Memory, tokens_of
from seq2seq.attention.page_pool import PagePool, SlotTable
from seq2seq.attention.paged import source_table, to_pages
from seq2seq.attention.slab import BeamTable, to_slabs


@lru_cache(4096)  # creating a tensor takes longer than everything else in `begin`
def position_range(first: int, n: int, device: torch.device) -> Tensor:
    return torch.arange(first, first + n, device=device)


class DecodeState:
    """The decoder's state for B sentences with K hypotheses each: N = B * K rows, row b * K + k.
    All rows of a sentence have the same length; sentences joined by `merge` may differ.

    With a pool, tokens are stored in pages; without one, the hypotheses of a sentence share a slab.
    The tables that map hypotheses to tokens are stored here, once for all layers. Only `keep`
    returns pages to the pool; to return all of them, keep no sentence.

    Searches call `fork`, `keep` and `merge`, which change the hypotheses. Models call `begin`.

    Attributes:
        source: memory of the source for each layer, in B rows: stored once per sentence, whatever
            K is.
        past: memory of the target for each layer, in N rows or B slabs.
        beams: number of hypotheses per sentence, K.
        lengths: number of tokens remembered in each row of a sentence, for each sentence.
        targets: table of the tokens that each hypothesis has written, which native searches fork;
            None if no layer stores tokens.

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
        """Store tokens in pages: source tokens now, target tokens as they are written."""
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
        """Number of tokens in pages, of sources and of all hypotheses."""
        return sum(table.written for table in self._tables)

    @property
    def length(self) -> int:
        """Number of tokens remembered in the longest row."""
        return max(self.lengths, default=0)

    def reserve(self, n: int) -> bool:
        """Reserve pages for n more tokens per row. Returns False if too few are free."""
        table = self.targets
        return not isinstance(table, SlotTable) or table.reserve([n] * len(self.lengths))

    def begin(self, n: int) -> Tensor:
        """Begin a step of n tokens per row; called once a step, before the layers.

        Returns: the positions of these tokens, (n,), or (N, n) if sentences differ in length.
        Raises: ValueError if there are too few pages; call `reserve` first to avoid this.
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
        """Let each row r continue the hypothesis of row parents[r], which belongs to the same
        sentence; parents is (N,).
        """
        if self.targets is not None:
            self.targets.fork(parents)
        self.fork_memories(parents)

    def fork_memories(self, parents: Tensor) -> None:
        """Fork the memories, but not the table of targets."""
        for memory in self.past:
            memory.fork(parents)

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, (B',) in ascending order."""
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
        """Append the sentences of another state of the same model, which may not be used again.

        Raises: ValueError if the states differ in beams or pool, or if a memory needs rows of the
            same length.
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
