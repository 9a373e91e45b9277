"""R-Drop: what a model says of a word under two dropouts shall be right twice, and alike."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import Function


def r_drop(
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    *,
    alpha: float,
    smoothing: float = 0.0,
    chunk: int = 128,
) -> tuple[Tensor, Tensor]:
    """With p and q what the model says of a token under either dropout, and CE the smoothed
    cross-entropy, the sum over tokens of

        1/2 (CE(p) + CE(q)) + alpha / 4 (KL(p || q) + KL(q || p)).

    That is half of the loss of the paper, so alpha means what it means there, and without a
    difference between p and q this is the loss that there would be without R-Drop.

    As in `cross_entropy`, scores and gradients are made for a chunk of tokens at a time.

    Args:
        hidden: (2 R, E), one row for each target token that counts, then the same tokens under the
            other dropout.
        output: the vocabulary layer, V x E.
        target: (R,) ids.
        alpha: 0 or more; 5 in the paper's translation.
        smoothing: 0 <= smoothing < 1.
        chunk: tokens at a time; the result depends on it by rounding only.

    Returns: the loss, and the mean of both negative log-likelihoods, without gradient.
    Source: Liang et al. 2021, arXiv:2106.14448.
    """
    loss, nll = _ChunkedRDrop.apply(
        *(hidden, output.weight, output.bias, target, alpha, smoothing, chunk),
        torch.is_grad_enabled(),
    )
    return loss, nll


class _ChunkedRDrop(Function):
    """Computes its gradients beside the loss: the scores of a chunk are at hand only once.

    With d = log p - log q and t the smoothed target, the scores z behind p have the gradient

        1/2 (p - t + alpha / 2 (p (d - KL(p || q)) + p - q)),

    and those behind q the same with p and q exchanged. Everything is summed without the factor 1/2,
    which comes last.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        target: Tensor,
        alpha: float,
        smoothing: float,
        chunk: int,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        with torch.autocast(device, enabled=False):
            w, b = weight.to(low or weight.dtype), bias.to(low or bias.dtype)
            slopes = [torch.zeros_like(x) for x in (hidden, weight, bias)] if with_gradient else []
            wide = torch.promote_types(w.dtype, torch.float32)
            loss, nll = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
            size = (2, len(target))
            for start in range(0, len(target), chunk):
                tokens = slice(start, start + chunk)
                h = hidden.unflatten(0, size)[:, tokens].to(w.dtype)  # (2, R', E)
                log_p = (h @ w.t() + b).to(wide).log_softmax(-1)  # (2, R', V)
                right = target[tokens].expand(2, -1)[..., None]
                of_right = log_p.gather(-1, right).sum()
                nll -= of_right
                loss -= (1 - smoothing) * of_right + smoothing * log_p.mean(-1).sum()
                p, d = log_p.exp(), log_p - log_p.flip(0)
                divergence = (p * d).sum(-1, keepdim=True)
                loss += alpha / 2 * divergence.sum()
                if with_gradient:
                    slope = p * (1 + alpha / 2 * (1 + d - divergence)) - alpha / 2 * p.flip(0)
                    slope -= smoothing / w.shape[0]
                    slope.scatter_add_(-1, right, slope.new_full(right.shape, smoothing - 1))
                    low_slope = slope.to(w.dtype)
                    slopes[0].unflatten(0, size)[:, tokens] = (low_slope @ w).to(hidden.dtype)
                    slopes[1] += low_slope.flatten(0, 1).t() @ h.flatten(0, 1)
                    slopes[2] += slope.sum((0, 1))
        ctx.save_for_backward(*slopes)
        nll = nll / 2
        ctx.mark_non_differentiable(nll)
        return loss / 2, nll

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> Any:
        hidden, weight, bias = ctx.saved_tensors
        half = slope / 2
        return hidden * half, weight * half, bias * half, *(None,) * 5
