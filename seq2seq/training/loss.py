"""The loss of a batch: label-smoothed cross-entropy or R-Drop, and the loss of a guided head.

The scores of the whole batch are never held at once.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import Function

from seq2seq.data.batch import Batch
from seq2seq.models import Seq2Seq
from seq2seq.models.base import Layers
from seq2seq.symbols import PAD
from seq2seq.training.guided import Guide, align_loss


class Loss(NamedTuple):
    """Sums over tokens."""

    smoothed: Tensor  # what is minimised
    nll: Tensor  # negative log-likelihood; exp(nll / tokens) is the perplexity. No gradient
    align: Tensor | None = None  # of a guided head, over target pieces that have links


def batch_loss(
    model: Seq2Seq,
    batch: Batch,
    smoothing: float,
    guide: Guide | None = None,
    alpha: float = 0.0,
) -> tuple[Loss, int]:
    """The loss of a batch under a model, and its count of target tokens.

    Args:
        guide: a head that is trained on the links of the batch, if it has any.
        alpha: of R-Drop. Above 0 the model sees the batch twice in one pass, with different dropout
            masks; the guided head's loss is the mean of both as well.
    """
    labels = batch.target[:, 1:]
    real = labels != PAD
    layers: Layers = False if guide is None or batch.links is None else (guide.layer,)
    copies = 2 if alpha else 1
    source, given = batch.source, batch.target[:, :-1]
    if copies > 1:
        source, given = source.repeat(copies, 1), given.repeat(copies, 1)
    hidden, weights = model(source, given, layers)
    output = model.embeddings.output
    if alpha:
        rows = hidden[real.repeat(copies, 1)]
        loss = Loss(*r_drop(rows, output, labels[real], alpha=alpha, smoothing=smoothing))
    else:
        loss = cross_entropy(hidden[real], output, labels[real], smoothing=smoothing)
    if guide is not None and batch.links is not None:
        both = weights[0, :, guide.head].chunk(copies)
        align = torch.stack([align_loss(each, batch.links) for each in both])
        loss = loss._replace(align=align.mean())
    return loss, int(real.sum())


def cross_entropy(
    hidden: Tensor, output: nn.Linear, target: Tensor, *, smoothing: float = 0.0, chunk: int = 256
) -> Loss:
    """Cross-entropy with a target that spreads `smoothing` evenly over the vocabulary and gives the
    rest to the reference token.

    The product with the vocabulary, the softmax and their gradients are computed for `chunk` rows
    at a time, in the forward pass, so memory is O(chunk V + R E) instead of O(R V).

    Args:
        hidden: (R, E), one row for each real target token.
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
    """Computes its gradients with the loss, since the scores of a chunk exist only once.

    With z the scores of a row minus their maximum, e = exp(z), Z = sum(e) and V words,

        loss = log Z - (1 - smoothing) z_target - smoothing mean(z)
        d loss / d z = e / Z - (1 - smoothing) [target] - smoothing / V.

    Only the first term touches every word of every row. Its 1 / Z moves into the narrow factor of
    each product, and the other two terms are added to the results, so a chunk is read less often.
    """

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
            w, b = weight.to(low or weight.dtype), bias.to(low or bias.dtype)
            slopes = [torch.zeros_like(x) for x in (hidden, weight, bias)] if with_gradient else []
            wide = torch.promote_types(w.dtype, torch.float32)
            smoothed, nll = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
            for start in range(0, len(hidden), chunk):
                rows = slice(start, start + chunk)
                h, right = hidden[rows].to(w.dtype), target[rows]
                z = torch.addmm(b, h, w.t()).to(wide)
                z -= z.amax(1, keepdim=True)
                z_right, z_mean = z.gather(1, right[:, None]).sum(), z.mean(1).sum()
                e = z.exp_()
                Z = e.sum(1, keepdim=True)
                log_Z = Z.log().sum()
                nll += log_Z - z_right
                smoothed += log_Z - (1 - smoothing) * z_right - smoothing * z_mean
                if with_gradient:
                    e = e.to(w.dtype)
                    slopes[0][rows] = (e @ w).to(wide) / Z
                    slopes[1] += e.t() @ (h / Z).to(w.dtype)
                    slopes[2] += (e.t() @ (1 / Z).to(w.dtype)).squeeze(1)
            if with_gradient:
                _subtract_target(slopes, hidden, weight, target, smoothing)
        ctx.save_for_backward(*slopes)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> Any:
        hidden, weight, bias = ctx.saved_tensors
        return hidden * slope, weight * slope, bias * slope, None, None, None, None


def _subtract_target(
    slopes: list[Tensor], hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float
) -> None:
    """The terms of the gradient that do not depend on the scores: those of the smoothed target."""
    of_hidden, of_weight, of_bias = slopes
    right, all_words = 1 - smoothing, smoothing / len(weight)
    of_hidden -= right * weight[target] + all_words * weight.sum(0)
    of_weight.index_add_(0, target, hidden.to(weight.dtype), alpha=-right)
    of_weight -= all_words * hidden.sum(0)
    of_bias.index_add_(0, target, of_bias.new_ones(len(target)), alpha=-right)
    of_bias -= all_words * len(target)


def r_drop(
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    *,
    alpha: float,
    smoothing: float = 0.0,
    chunk: int = 128,
) -> tuple[Tensor, Tensor]:
    """With p and q the predictions for a token under two dropout masks, and CE the smoothed
    cross-entropy, the sum over tokens of

        1/2 (CE(p) + CE(q)) + alpha / 4 (KL(p || q) + KL(q || p)).

    This is half of the paper's loss, so alpha has the paper's meaning, and where p equals q it is
    the cross-entropy.

    As in `cross_entropy`, scores and gradients are computed for a chunk of tokens at a time.

    Args:
        hidden: (2 R, E), one row for each real target token, then the same tokens under the other
            mask.
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
    """Computes its gradients with the loss, since the scores of a chunk exist only once.

    With d = log p - log q and t the smoothed target, the scores z of p have the gradient

        1/2 (p - t + alpha / 2 (p (d - KL(p || q)) + p - q)),

    and those of q the same with p and q swapped. The factor 1/2 is applied last.
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
