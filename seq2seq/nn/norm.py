"""Normalisation, and the residual connection around a sub-layer."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from seq2seq.nn.dropout import Dropout

NormName = Literal["layernorm", "rmsnorm"]
NormOrder = Literal["pre", "post"]


def build_norm(name: NormName, dim: int) -> nn.Module:
    """LayerNorm (Ba et al. 2016, arXiv:1607.06450) or RMSNorm (Zhang and Sennrich 2019,
    arXiv:1910.07467).
    """
    return nn.LayerNorm(dim) if name == "layernorm" else nn.RMSNorm(dim, eps=1e-6)


class Residual(nn.Module):
    """x + dropout(f(norm(x))) in the `pre` order, norm(x + dropout(f(x))) in the `post` order of
    the paper.
    """

    def __init__(self, norm: nn.Module, order: NormOrder, dropout: float):
        super().__init__()
        self.norm = norm
        self.pre = order == "pre"
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
