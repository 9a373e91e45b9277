"""Score modules: the parameters of `functional.scores`, one class a formula."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table
from seq2seq.functional import scores as formulas


class Dotted(NamedTuple):
    """A score as scale * query . key + bias, which the fused kernels understand."""

    query: Tensor  # (N, H, T, D)
    scale: float = 1.0
    bias: Tensor | None = None  # of the keys, (N, H, 1, S)


class Widths(NamedTuple):
    """The widths of the attention that a score is part of."""

    heads: int  # H
    query: int  # of a head
    key: int
    projected: bool = True  # whether a linear map comes before it


class Score(nn.Module):
    """e_ij = f(q_i, k_j) with its parameters, in two steps.

    `keys` turns keys into what is remembered, once; `queries` turns queries into what is compared
    with that; `forward` compares. Positions may rotate both in between, if `is_dot`.
    """

    # Whether `as_dot_product` works; a rotation of queries and keys has a meaning only then.
    is_dot: ClassVar[bool] = False
    is_additive: ClassVar[bool] = False  # whether it is u . tanh(query + key)
    biases_keys: ClassVar[bool] = False  # whether its dot product has a bias of each key
    reads_queries: ClassVar[bool] = True  # whether the weights depend on the query
    size: float = 1.0  # of the projections before it, see `Attention.lr_multipliers`
    u: nn.Parameter  # of an additive score, (heads, width)

    def keys(self, k: Tensor) -> Tensor:
        """Keys as they are remembered: (N, S, G, D) -> (N, S, heads, width)."""
        return k

    def queries(self, q: Tensor) -> Tensor:
        """Queries as they are compared with the keys: (N, H, T, D) -> (N, H, T, width)."""
        return q

    def as_dot_product(self, q: Tensor, k: Tensor) -> Dotted:
        """The same as `forward`, as a dot product with what was remembered."""
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (N, H, T, width) from `queries`, k (N, heads, S, width) from `keys` -> (N, H, T, S)."""
        if self.is_additive:
            return formulas.additive(q, k, self.u)
        query, scale, _ = self.as_dot_product(q, k)
        return formulas.dot(query, k, scale)


class ScaledDot(Score):
    """e = q . k / sqrt(D). Source: Vaswani et al. 2017, arXiv:1706.03762."""

    is_dot = True

    def __init__(self, widths: Widths):
        super().__init__()
        self.scale = widths.query**-0.5
        if widths.query != widths.key:
            raise ConfigError(
                f"this score needs one width, not {widths.query} for queries and {widths.key} "
                "for keys. Take score=general"
            )

    def as_dot_product(self, q: Tensor, k: Tensor) -> Dotted:
        return Dotted(q, self.scale)


class Dot(ScaledDot):
    """e = q . k. Source: Luong et al. 2015, arXiv:1508.04025.

    A sum of D products has sqrt(D) times the size of one. Projections that start, and learn, at
    D^(-1/4) of the usual size make it behave like `scaled_dot`: see `Attention.lr_multipliers`.
    Without projections, as in an RNN, nothing is changed.
    """

    def __init__(self, widths: Widths):
        super().__init__(widths)
        self.size, self.scale = widths.query**-0.25, 1.0


class General(Score):
    """e = q^T W k, as the dot product of W^T q and k, which is what positions rotate.

    W starts as the identity after projections, so that the score starts as `dot`; else at random.
    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    is_dot = True

    def __init__(self, widths: Widths):
        super().__init__()
        H, D, A, projected = widths
        self.size = D**-0.25  # as for `Dot`
        if projected:
            self.weight = nn.Parameter(torch.eye(D, A).repeat(H, 1, 1))
        else:
            self.weight = xavier(H, D, A)

    def queries(self, q: Tensor) -> Tensor:
        return formulas.project_per_head(q, self.weight.transpose(1, 2))

    def as_dot_product(self, q: Tensor, k: Tensor) -> Dotted:
        return Dotted(q)


class Additive(Score):
    """e = u . tanh(Wq q + Wk k + b), with a hidden layer as wide as the query.

    Wk k + b is what is remembered, so a key is projected once a sentence.
    Source: Bahdanau et al. 2015, arXiv:1409.0473.
    """

    is_additive = True

    def __init__(self, widths: Widths):
        super().__init__()
        H, D, key_width, _ = widths
        self.wq, self.wk = xavier(H, D, D), xavier(H, D, key_width)
        self.b = nn.Parameter(torch.zeros(H, D))
        # Zero, as in the paper: attention starts uniform, and learns from the first step.
        self.u = nn.Parameter(torch.zeros(H, D))

    def keys(self, k: Tensor) -> Tensor:
        return formulas.project_per_head(k.transpose(1, 2), self.wk, self.b).transpose(1, 2)

    def queries(self, q: Tensor) -> Tensor:
        return formulas.project_per_head(q, self.wq)


class Concatenated(Score):
    """The product of a matrix W with [q; k]; the key's part of it is what memory holds."""

    weight: nn.Parameter  # (H, hidden width, D + width of a key), the hidden axis left out if 1

    def __init__(self, widths: Widths):
        super().__init__()
        self.parts = [widths.query, widths.key]

    def _halves(self) -> tuple[Tensor, ...]:
        matrices = self.weight.view(len(self.weight), -1, sum(self.parts))
        return torch.split(matrices, self.parts, dim=-1)

    def keys(self, k: Tensor) -> Tensor:
        return formulas.project_per_head(k.transpose(1, 2), self._halves()[1]).transpose(1, 2)

    def queries(self, q: Tensor) -> Tensor:
        return formulas.project_per_head(q, self._halves()[0])


class Concat(Concatenated):
    """e = u . tanh(W [q; k]), with a hidden layer as wide as the query: `Additive` without b.

    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    is_additive = True

    def __init__(self, widths: Widths):
        super().__init__(widths)
        self.weight = xavier(widths.heads, widths.query, sum(self.parts))
        self.u = nn.Parameter(torch.zeros(widths.heads, widths.query))  # as for Additive


class ConcatLinear(Concatenated):
    """e = w . [q; k]. What the query adds cancels in the softmax: its weights do not depend on the
    query, and the query's half of w learns nothing.

    Of each key, one scalar a head is remembered.
    """

    reads_queries = False

    def __init__(self, widths: Widths):
        super().__init__(widths)
        self.weight = nn.Parameter(xavier(widths.heads, 1, sum(self.parts)).detach().squeeze(1))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q + k.transpose(-2, -1)


class Gaussian(ScaledDot):
    """e = -w / 2 |q - k|^2 with a w > 0 for each head, learnt as its logarithm.

    w starts at 1 / sqrt(D), where the score is near the scaled dot product. As a dot product it is
    w q . k with the bias -w / 2 |k|^2: |q|^2 cancels in the softmax.
    Source: Nadaraya 1964, Theory of Probability and Its Applications 9; Watson 1964, Sankhya A 26.
    """

    biases_keys = True

    def __init__(self, widths: Widths):
        super().__init__(widths)
        w = torch.full((widths.heads,), widths.query**-0.5)
        self.log_w = nn.Parameter(w.log())

    def as_dot_product(self, q: Tensor, k: Tensor) -> Dotted:
        w = self.log_w.exp()
        query = (w[:, None, None] * q).to(q.dtype)
        return Dotted(query, bias=formulas.gaussian_key_bias(k, w))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return formulas.gaussian(q, k, self.log_w.exp())


def xavier(heads: int, outputs: int, inputs: int) -> nn.Parameter:
    """A matrix for each head, (heads, outputs, inputs), each with Xavier's variance."""
    weight = nn.Parameter(torch.empty(heads, outputs, inputs))
    for head in weight:
        nn.init.xavier_uniform_(head)
    return weight


SCORES: Table[type[Score]] = Table(
    "score",
    {
        "dot": Dot,
        "scaled_dot": ScaledDot,
        "general": General,
        "additive": Additive,
        "concat": Concat,
        "concat_linear": ConcatLinear,
        "gaussian": Gaussian,
    },
)
