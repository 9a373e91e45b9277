"""Parts of a Transformer around its attentions: norms, residuals, feed-forward networks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from seq2seq.base.registry import check_range
from seq2seq.models.layers.dropout import Dropout

Activation = Literal["relu", "gelu", "silu", "swiglu"]
NormName = Literal["layernorm", "rmsnorm"]
NormOrder = Literal["pre", "post"]


def relu(x: Tensor) -> Tensor:
    """max(x, 0), in place if no gradient is recorded; otherwise that would cost a copy."""
    return torch.relu(x) if torch.is_grad_enabled() else torch.relu_(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
    "swiglu": silu,
}


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Options of the layers of both stacks, except for their attentions.

    Attributes:
        ffn_dim: inner width of the feed-forward networks.
        activation: activation function: relu (Vaswani et al. 2017), gelu (arXiv:1606.08415, exact),
            silu (x sigmoid(x), also called swish, arXiv:1710.05941) or swiglu (arXiv:2002.05202).
        norm: type of norm, layernorm or rmsnorm.
        norm_eps: constant added to the variance; None = 1e-5 for layernorm, 1e-6 for rmsnorm.
        norm_order: place of the norm: `pre` normalises the input of a sub-layer (stable), `post`
            the sum of input and output (the paper).
        dropout: probability of dropout on embeddings, and on the output of each sub-layer.
        activation_dropout: probability of dropout inside the feed-forward networks; None = the same
            as `dropout`.

    Raises: ConfigError if a value is out of range.
    """

    ffn_dim: int
    activation: Activation = "relu"
    norm: NormName = "layernorm"
    norm_eps: float | None = None
    norm_order: NormOrder = "pre"
    dropout: float = 0.1
    activation_dropout: float | None = None

    def __post_init__(self) -> None:
        check_range("model.ffn_dim", self.ffn_dim, 1)
        check_range("model.norm_eps", self.norm_eps, 0, 1)
        check_range("model.dropout", self.dropout, 0, 1)
        check_range("model.activation_dropout", self.activation_dropout, 0, 1)


class FeedForward(nn.Module):
    """Feed-forward network, (..., E) -> (..., E): W2 f(W1 x), where f is ReLU, GELU or SiLU; or
    W2 (silu(W1 x) * W3 x) for SwiGLU.

    SwiGLU has three matrices, so it costs the same with two thirds of the inner width.
    """

    def __init__(self, dim: int, options: LayerOptions):
        super().__init__()
        self.up = nn.Linear(dim, options.ffn_dim)
        self.gate = nn.Linear(dim, options.ffn_dim) if options.activation == "swiglu" else None
        self.down = nn.Linear(options.ffn_dim, dim)
        self.activation = ACTIVATIONS[options.activation]
        inside = options.activation_dropout
        self.dropout = Dropout(options.dropout if inside is None else inside)
        for linear in filter(None, (self.up, self.gate, self.down)):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.up(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        out: Tensor = self.down(self.dropout(hidden))
        return out


EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6}


def build_norm(dim: int, options: LayerOptions) -> nn.Module:
    """Build a LayerNorm (Ba et al. 2016, arXiv:1607.06450) or an RMSNorm (Zhang and Sennrich 2019,
    arXiv:1910.07467).
    """
    kind = nn.LayerNorm if options.norm == "layernorm" else nn.RMSNorm
    return kind(dim, eps=EPS[options.norm] if options.norm_eps is None else options.norm_eps)


class Residual(nn.Module):
    """The norm, dropout and residual connection around a sub-layer f: x + dropout(f(norm(x))) in
    the order `pre`, norm(x + dropout(f(x))) in the order `post` (the paper).
    """

    def __init__(self, dim: int, options: LayerOptions):
        super().__init__()
        self.norm = build_norm(dim, options)
        self.pre = options.norm_order == "pre"
        self.dropout = Dropout(options.dropout)

    def pre_norm(self, x: Tensor) -> Tensor:
        """The input of the sub-layer."""
        return self.norm(x) if self.pre else x

    def add_residual(self, x: Tensor, y: Tensor) -> Tensor:
        """The result of the whole block, from its input x and the sub-layer's output y."""
        x = x + self.dropout(y)
        return x if self.pre else self.norm(x)
