"""Score modules: the parameters of `functional.scores`, one class a formula."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.functional import scores as formulas
from seq2seq.tables import Table


class Dotted(NamedTuple):
    """A score as a plain dot product, scale * query . key, which the fused kernels understand."""

    query: Tensor  # (N, H, T, D)
    scale: float


class Score(nn.Module):
    """e_ij = f(q_i, k_j) with its parameters.

    A score sees keys twice: `keys` turns them into what is remembered, once; `forward` compares
    queries with what was remembered, at every step.
    """

    is_dot: ClassVar[bool] = False  # does `dotted` work?

    def __init__(self, num_heads: int, query_width: int, key_width: int):
        super().__init__()

    def keys(self, k: Tensor) -> Tensor:
        """What to remember of the keys: (N, S, G, D) -> (N, S, heads, width)."""
        return k

    def dotted(self, q: Tensor) -> Dotted:
        """The query and scale with which this score is a dot product of what was remembered."""
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (N, H, T, D), k (N, heads, S, width) from `keys` -> scores (N, H, T, S)."""
        query, scale = self.dotted(q)
        return formulas.dot(query, k, scale)


class Dot(Score):
    """e = q . k. Source: Luong et al. 2015, arXiv:1508.04025."""

    is_dot = True
    scale = 1.0

    def __init__(self, num_heads: int, query_width: int, key_width: int):
        super().__init__(num_heads, query_width, key_width)
        if query_width != key_width:
            raise ValueError(
                f"a dot product needs one width, not {query_width} for queries and {key_width} "
                "for keys"
            )

    def dotted(self, q: Tensor) -> Dotted:
        return Dotted(q, self.scale)


class ScaledDot(Dot):
    """e = q . k / sqrt(D). Source: Vaswani et al. 2017, arXiv:1706.03762."""

    def __init__(self, num_heads: int, query_width: int, key_width: int):
        super().__init__(num_heads, query_width, key_width)
        self.scale = query_width**-0.5


class Additive(Score):
    """e = u . tanh(Wq q + Wk k + b), with a hidden layer as wide as the query.

    Wk k + b is what is remembered, so a key is projected once a sentence.
    Source: Bahdanau et al. 2015, arXiv:1409.0473.
    """

    def __init__(self, num_heads: int, query_width: int, key_width: int):
        super().__init__(num_heads, query_width, key_width)
        self.wq = nn.Parameter(torch.empty(num_heads, query_width, query_width))
        self.wk = nn.Parameter(torch.empty(num_heads, query_width, key_width))
        self.b = nn.Parameter(torch.zeros(num_heads, query_width))
        # Zero, as in the paper: attention starts uniform, and learns from the first step.
        self.u = nn.Parameter(torch.zeros(num_heads, query_width))
        for head in (*self.wq, *self.wk):
            nn.init.xavier_uniform_(head)

    def keys(self, k: Tensor) -> Tensor:
        return formulas.project_per_head(k.transpose(1, 2), self.wk, self.b).transpose(1, 2)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return formulas.additive(formulas.project_per_head(q, self.wq), k, self.u)


SCORES: Table[type[Score]] = Table(
    "score", {"scaled_dot": ScaledDot, "dot": Dot, "additive": Additive}
)
