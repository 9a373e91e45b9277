"""Dropout of single elements, as a layer, and of whole words."""

import torch
from torch import Tensor, nn

from seq2seq.base.registry import check_range
from seq2seq.base.symbols import EOS
from seq2seq.functional import dropout


class Dropout(nn.Module):
    """Layer that applies `functional.dropout` in training, and nothing in evaluation.

    Args:
        p: probability, 0 <= p < 1.

    Raises: ConfigError if p is out of this range.
    """

    def __init__(self, p: float):
        super().__init__()
        check_range("dropout", p, 0, 1)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x


def drop_words(x: Tensor, ids: Tensor, p: float) -> Tensor:
    """Zero whole word vectors (N, T, E) of ids (N, T) with probability p.

    The model still sees the position of a dropped word. Bos, eos and padding are never dropped. The
    remaining words are not rescaled by 1 / (1 - p): that would preserve the mean of a sum over
    words, but no such sum is taken, and a word should look the same as in translation.

    Source: Gal and Ghahramani 2016, arXiv:1512.05287; here each occurrence of a word is drawn
    independently, as in Sennrich et al. 2016, W16-2323.
    """
    if p == 0:
        return x
    dropped = (torch.rand(ids.shape, device=ids.device) < p) & (ids > EOS)
    return x.masked_fill(dropped[..., None], 0)
