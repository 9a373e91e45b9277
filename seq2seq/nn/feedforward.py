"""The position-wise feed-forward network."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from seq2seq.nn.dropout import Dropout

Activation = Literal["relu", "gelu", "swiglu"]


def relu(x: Tensor) -> Tensor:
    """max(x, 0), in place where no gradient is recorded; else in place would cost a copy."""
    return torch.relu(x) if torch.is_grad_enabled() else torch.relu_(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu, "swiglu": silu}


class FeedForward(nn.Module):
    """W2 f(W1 x), f = ReLU or GELU; or W2 (silu(W1 x) * W3 x), SwiGLU. (..., E) -> (..., E).

    Args:
        dim: E.
        hidden: width between the two maps. SwiGLU has three matrices, so it costs the same at two
            thirds of the width.
        activation: relu (Vaswani et al. 2017), gelu (arXiv:1606.08415, exact), swiglu
            (arXiv:2002.05202).
        dropout: after the activation.
    """

    def __init__(self, dim: int, hidden: int, activation: Activation, dropout: float):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.gate = nn.Linear(dim, hidden) if activation == "swiglu" else None
        self.down = nn.Linear(hidden, dim)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for linear in filter(None, (self.up, self.gate, self.down)):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.up(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.down(self.dropout(hidden))
