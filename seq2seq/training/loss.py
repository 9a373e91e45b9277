"""Label-smoothed cross-entropy that never holds the scores of the whole batch."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import Function


class Loss(NamedTuple):
    """Sums over tokens."""

    smoothed: Tensor  # what is minimised
    nll: Tensor  # negative log-likelihood; exp(nll / tokens) is the perplexity. No gradient


def cross_entropy(
    hidden: Tensor, output: nn.Linear, target: Tensor, *, smoothing: float = 0.0, chunk: int = 512
) -> Loss:
    """Cross-entropy with a target that gives `smoothing` to all words alike and the rest to the
    right one.

    The product with the vocabulary, the softmax and their gradients are made for `chunk` rows at a
    time, in the forward pass, so memory is O(chunk V + R E) instead of O(R V).

    Args:
        hidden: (R, E), one row for each target token that counts.
        output: the vocabulary layer, V x E.
        target: (R,) ids.
        smoothing: 0 <= smoothing < 1.
        chunk: rows at a time; the result depends on it by rounding only.

    Source: Szegedy et al. 2016, arXiv:1512.00567, for the smoothing.
    """
    smoothed, nll = _ChunkedCrossEntropy.apply(
        hidden, output.weight, output.bias, target, smoothing, chunk, torch.is_grad_enabled()
    )
    return Loss(smoothed, nll)


class _ChunkedCrossEntropy(Function):
    """Computes its gradients beside the loss: the scores of a chunk are at hand only once."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        target: Tensor,
        smoothing: float,
        chunk: int,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        with torch.autocast(device, enabled=False):
            total, nll = hidden.new_zeros((), dtype=torch.float32), hidden.new_zeros(())
            gradients = (
                [torch.zeros_like(x) for x in (hidden, weight, bias)] if with_gradient else []
            )
            w, b = (weight.to(low or weight.dtype), bias.to(low or bias.dtype))
            for rows in torch.arange(len(hidden), device=hidden.device).split(chunk):
                part = slice(int(rows[0]), int(rows[-1]) + 1)
                h = hidden[part].to(w.dtype)
                logits = torch.addmm(b, h, w.t()).to(torch.promote_types(w.dtype, torch.float32))
                logp = logits.log_softmax(-1)
                right = -logp.gather(1, target[part, None]).sum()
                nll = nll + right
                total = total + (1 - smoothing) * right - smoothing * logp.mean(1).sum()
                if with_gradient:
                    slope = (
                        logp.exp_()
                    )  # d loss / d logits = p - smoothing / V, less 1 - smoothing at the target
                    slope -= smoothing / slope.shape[1]
                    slope.scatter_add_(
                        1,
                        target[part, None],
                        slope.new_full((len(h), 1), smoothing - 1.0),
                    )
                    s = slope.to(w.dtype)
                    gradients[0][part] = s @ w
                    gradients[1] += s.t() @ h
                    gradients[2] += slope.sum(0)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> Any:
        hidden, weight, bias = ctx.saved_tensors
        return hidden * slope, weight * slope, bias * slope, None, None, None, None
