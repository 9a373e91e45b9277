"""Batches without padding between sentences: each side is one row of tokens of a constant size."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from seq2seq.base.symbols import PAD

MULTIPLE = 8  # of the number of tokens: matrix products in 16 bits need it to be fast


class Capacity(NamedTuple):
    """The constant size of packed batches. Every batch of a training fits.

    What the sentences leave free is padding. It is divided into `tail` sentences of its own, none
    of which is empty or longer than `longest`: so no query is without keys, and no length is beyond
    what the kernel was told.

    Attributes:
        tokens: N, the tokens of each side.
        sentences: B, the sentences, with those of the padding; most of them are empty.
        longest: length that no sentence exceeds.
        tail: number of sentences that the padding is divided into.
    """

    tokens: int
    sentences: int
    longest: int
    tail: int

    @classmethod
    def of(cls, max_tokens: int, max_length: int, parts: int) -> Self:
        """The capacity for the parts of global batches.

        A global batch has R rows, of at most L tokens a side, where R L is at most `max_tokens`, so
        a part has at most ceil(R / parts) rows. A pair has at least two tokens on its longer side.

        Args:
            max_tokens: bound on the padded tokens of a global batch, see `epoch_batches`.
            max_length: longest sentence, EOS counted.
            parts: number of parts that each global batch is divided into.
        """
        most = min(max_tokens, max_tokens // parts + max_length)
        rows = -(-(max_tokens // 2) // parts)
        tokens = most + most // (max_length - 1) + 1
        tokens += -tokens % MULTIPLE
        tail = -(-tokens // max_length)
        return cls(tokens, rows + tail, max_length, tail)


class Packed(NamedTuple):
    """A batch in two tensors of constant size.

    Attributes:
        tokens: (5, N) int32: ids and positions of the source, ids and positions of the decoder
            input, and the labels. Positions are those within sentences. Padding is PAD at position
            0, and its label is PAD.
        starts: (2, B + 1) int32, the borders of the sentences of both sides; sentence b of the
            target translates sentence b of the source.
        longest: length that no sentence exceeds.
    """

    tokens: Tensor
    starts: Tensor
    longest: int


def pack_batch(source: Tensor, target: Tensor, places: Tensor, capacity: Capacity) -> Packed:
    """Pack a batch; a pure function, for the host.

    Args:
        source: (B', S), the pieces, EOS, then PAD.
        target: (B', T + 1), BOS, the pieces, EOS, then PAD.
        places: (R,), the cells of `target[:, 1:]`, counted row by row, that are not PAD.
        capacity: constant size of the result.

    Raises: ValueError if the batch does not fit.
    """
    tokens, starts = torch.full((5, capacity.tokens), PAD, dtype=torch.int32), []
    (of_source,) = (source != PAD).flatten().nonzero(as_tuple=True)
    of_target = places.long()
    for side, (cells, ids) in enumerate(((of_source, source), (of_target, target[:, :-1]))):
        starts.append(borders(cells, ids.shape, capacity))
        tokens[2 * side, : len(cells)] = ids.flatten()[cells]
        tokens[2 * side + 1, : len(cells)] = cells % ids.shape[1]
    tokens[4, : len(places)] = target[:, 1:].flatten()[of_target]
    return Packed(tokens, torch.stack(starts), capacity.longest)


def borders(cells: Tensor, shape: torch.Size, capacity: Capacity) -> Tensor:
    """The borders of the sentences of one side, (B + 1,) int32.

    Args:
        cells: cells that hold tokens, counted row by row.
        shape: rows and columns.
        capacity: constant size of the result.
    """
    rows, columns = shape
    lengths = torch.bincount(cells // columns, minlength=rows)
    free, padding = capacity.sentences - rows - capacity.tail, capacity.tokens - len(cells)
    if free < 0 or padding < capacity.tail or int(lengths.max()) > capacity.longest:
        raise ValueError(f"{rows} sentences of {len(cells)} tokens do not fit into {capacity}")
    tail = len(cells) + padding * torch.arange(1, capacity.tail + 1) // capacity.tail
    ends = torch.cat((lengths.cumsum(0), tail, tail[-1:].expand(free)))
    return torch.cat((ends.new_zeros(1), ends)).int()
