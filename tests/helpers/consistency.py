"""A problem for losses of two passes."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.builders import (
    TARGET_SIZE,
    source_batch,
)
from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import Batch
from seq2seq.data.links.piece_links import BatchLinks

R, E, V = 7, 5, 13


def problem(
    tokens: int = R, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, nn.Linear, Tensor]:
    """Two hidden states of each token, an output layer and target ids, some of them twice."""
    hidden = torch.randn(2 * tokens, E, dtype=dtype, requires_grad=True)
    output = nn.Linear(E, V, dtype=dtype)
    return hidden, output, torch.randint(V // 2, (tokens,))


class Largest(TorchDispatchMode):
    """The size of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, Tensor):
                self.size = max(self.size, each.numel())
        return made


def batch_of(*lengths: int) -> Batch:
    """Sentences with targets of these lengths, each with a link between the first pieces."""
    target = torch.full((len(lengths), max(lengths) + 2), PAD)
    for row, length in zip(target, lengths, strict=True):
        row[0], row[1 : length + 1], row[length + 1] = BOS, torch.randint(4, TARGET_SIZE, ()), EOS
    rows, tokens = torch.arange(len(lengths)), sum(lengths) + len(lengths)
    first = torch.zeros_like(rows)
    links = BatchLinks(torch.stack((rows, first, first)), torch.ones(len(rows)), len(rows), 9)
    return Batch(source_batch(*lengths), target, tokens, 99, list(range(len(lengths))), links)
