"""Modules with the parameters of the scores in `functional.scores`, one class per formula."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table
from seq2seq.functional import scores as formulas


class Dotted(NamedTuple):
    """A score in the form scale * query . key + bias, for the fused kernels."""

    query: Tensor  # (N, H, T, D)
    scale: float = 1.0
    bias: Tensor | None = None  # bias of the keys, (N, H, 1, S)


class Widths(NamedTuple):
    """The widths of the attention that a score is part of."""

    heads: int  # H
    query: int  # width of a head of queries
    key: int  # width of a head of keys
    projected: bool = True  # whether linear maps come before the score


class Maps(NamedTuple):
    """The linear maps of each head that come before a comparison; None = no such map."""

    queries: Tensor | None = None  # (H, A, width of a query)
    keys: Tensor | None = None  # (H, A, width of a key)
    bias: Tensor | None = None  # (H, A), added to mapped keys


class Score(nn.Module):
    """A score e_ij = f(q_i, k_j) with its parameters, computed in two steps.

    First, `keys` maps keys, once, for the memory, and `queries` maps queries. Then `forward`
    compares the two. Positions may rotate both in between, if `is_dot`.
    """

    # Whether `as_dot_product` works. Only then can queries and keys be rotated.
    is_dot: ClassVar[bool] = False
    is_additive: ClassVar[bool] = False  # whether it is u . tanh(query + key)
    biases_keys: ClassVar[bool] = False  # whether its dot product has a bias for each key
    reads_queries: ClassVar[bool] = True  # whether the weights depend on the query
    scale: float = 1.0  # factor of its dot product
    size: float = 1.0  # factor of the projections before it, see `Attention.lr_multipliers`
    u: nn.Parameter  # vector of an additive score, (heads, width)

    def maps(self) -> Maps:
        """The maps that `keys` and `queries` apply."""
        return Maps()

    def keys(self, k: Tensor) -> Tensor:
        """Map keys for the memory: (N, S, G, D) -> (N, S, heads, width)."""
        _, weight, bias = self.maps()
        if weight is None:
            return k
        return formulas.project_per_head(k.transpose(1, 2), weight, bias).transpose(1, 2)

    def queries(self, q: Tensor) -> Tensor:
        """Map queries for `forward`: (N, H, T, D) -> (N, H, T, width)."""
        weight = self.maps().queries
        return q if weight is None else formulas.project_per_head(q, weight)

    def as_dot_product(self, q: Tensor, k: Tensor) -> Dotted:
        """Express `forward` as a dot product with the remembered keys, if `is_dot`."""
        return Dotted(q, self.scale)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Compute the scores (N, H, T, S).

        Args:
            q: result of `queries`, (N, H, T, width).
            k: result of `keys`, (N, heads, S, width).
        """
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


class Dot(ScaledDot):
    """e = q . k. Source: Luong et al. 2015, arXiv:1508.04025.

    A sum of D products is sqrt(D) times as large as one product. If the projections start at
    D^(-1/4) times the usual size, and learn at D^(-1/4) times the usual rate, the score behaves
    like `scaled_dot`: see `Attention.lr_multipliers`. Without projections, as in an RNN, nothing is
    scaled.
    """

    def __init__(self, widths: Widths):
        super().__init__(widths)
        self.size, self.scale = widths.query**-0.25, 1.0


class General(Score):
    """e = q^T W k, computed as the dot product of W^T q and k, which positions may rotate.

    After projections W starts as the identity, so that the score starts as `dot`; without them it
    starts at random.
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

    def maps(self) -> Maps:
        return Maps(self.weight.transpose(1, 2))


class Additive(Score):
    """e = u . tanh(Wq q + Wk k + b), with a hidden layer as wide as the query.

    Wk k + b is remembered, so that a key is projected only once.
    Source: Bahdanau et al. 2015, arXiv:1409.0473.
    """

    is_additive = True

    def __init__(self, widths: Widths):
        super().__init__()
        H, D, key_width, _ = widths
        self.wq, self.wk = xavier(H, D, D), xavier(H, D, key_width)
        self.b = nn.Parameter(torch.zeros(H, D))
        # Zero, as in the paper: attention starts uniform, and can learn from the first step.
        self.u = nn.Parameter(torch.zeros(H, D))

    def maps(self) -> Maps:
        return Maps(self.wq, self.wk, self.b)


class Concatenated(Score):
    """Base of scores with the product of a matrix W and [q; k]; the key's part is remembered."""

    weight: nn.Parameter  # (H, hidden width, D + width of a key), without the hidden axis if 1

    def __init__(self, widths: Widths):
        super().__init__()
        self.parts = [widths.query, widths.key]

    def maps(self) -> Maps:
        matrices = self.weight.view(len(self.weight), -1, sum(self.parts))
        return Maps(*torch.split(matrices, self.parts, dim=-1))


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
    """e = w . [q; k], whose weights do not depend on the query.

    The query's part of the score cancels in the softmax, so that its half of w learns nothing. Only
    one number per key and head is remembered.
    """

    reads_queries = False

    def __init__(self, widths: Widths):
        super().__init__(widths)
        self.weight = nn.Parameter(xavier(widths.heads, 1, sum(self.parts)).detach().squeeze(1))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q + k.transpose(-2, -1)


class Gaussian(ScaledDot):
    """e = -w / 2 |q - k|^2 with a learnt w > 0 for each head; the parameter is log w.

    w starts at 1 / sqrt(D), where the score is close to the scaled dot product. As a dot product it
    is w q . k with the bias -w / 2 |k|^2, since |q|^2 cancels in the softmax.
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
    """Matrices (heads, outputs, inputs), each initialised by the rule of Xavier Glorot."""
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
