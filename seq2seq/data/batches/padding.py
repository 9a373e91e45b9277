"""Rows of ids as one tensor."""

import torch
from torch import Tensor

from seq2seq.base.symbols import PAD


def pad_rows(rows: list[list[int]]) -> Tensor:
    """Stack rows of ids into one tensor, padded at the right."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
