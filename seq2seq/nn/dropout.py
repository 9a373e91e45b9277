"""Dropout as a layer: of single elements, and of whole words."""

import torch
from torch import Tensor, nn

from seq2seq.functional import dropout
from seq2seq.symbols import EOS
from seq2seq.tables import check_range


class Dropout(nn.Module):
    """In training, `functional.dropout`; in evaluation, nothing.

    Args:
        p: probability, 0 <= p < 1.

    Raises: ConfigError for any other p.
    """

    def __init__(self, p: float):
        super().__init__()
        check_range("dropout", p, 0, 1)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x


class WordDropout(nn.Module):
    """In training, zero whole word vectors with probability p; in evaluation, nothing.

    The model still sees the position of a dropped word. Begin, end and padding are never dropped.
    Survivors are not rescaled by 1 / (1 - p): that would keep the mean of a sum of words, but no
    such sum is taken, and a word should look as it will in translation.

    Args:
        p: probability, 0 <= p < 1.

    Raises: ConfigError for any other p.
    Source: Gal and Ghahramani 2016, arXiv:1512.05287; here each occurrence of a word is drawn
    independently, as in Sennrich et al. 2016, W16-2323.
    """

    def __init__(self, p: float):
        super().__init__()
        check_range("model.word_dropout", p, 0, 1)
        self.p = p

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        """x (N, T, E), the vectors of ids (N, T) -> (N, T, E)."""
        if not self.training or self.p == 0:
            return x
        dropped = (torch.rand(ids.shape, device=ids.device) < self.p) & (ids > EOS)
        return x.masked_fill(dropped[..., None], 0)
