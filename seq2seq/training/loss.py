"""The loss of a batch: label-smoothed cross-entropy, R-Drop, SimCut, and the loss of a guided head.

The scores of the whole batch are never in memory at once.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import Function

from seq2seq.base.symbols import PAD
from seq2seq.data.batches.batch import Batch
from seq2seq.models import PassOptions, Seq2Seq
from seq2seq.models.base import Layers
from seq2seq.training.guided import GuidedHead, align_loss


class Loss(NamedTuple):
    """The losses of a batch, each summed over tokens."""

    smoothed: Tensor  # the loss to minimise
    nll: Tensor  # negative log-likelihood; exp(nll / tokens) is the perplexity. No gradient
    align: Tensor | None = None  # loss of a guided head, over target pieces that have links


def batch_loss(
    model: Seq2Seq,
    batch: Batch,
    smoothing: float,
    guide: GuidedHead | None = None,
    alpha: float = 0.0,
) -> Loss:
    """The loss of a batch under a model.

    Args:
        guide: head to train on the links of the batch, if it has any.
        alpha: weight of R-Drop, or of SimCut if the batch has cuts. Above 0, the model reads two
            copies of the batch in one pass, with different dropout masks. The guided head's loss is
            then the mean over both copies; with SimCut, it is that of the uncut copy.
    """
    layers: Layers = False if guide is None or batch.links is None else (guide.layer,)
    copies = 2 if alpha else 1
    source, given = (side.repeat(copies, 1) for side in (batch.source, batch.target[:, :-1]))
    # None in the first copy, the given ones in the second.
    cuts = [torch.cat((torch.zeros_like(x), x)) for x in batch.cuts or ()] if alpha else []
    hidden, weights = model(source, given, PassOptions(layers, *cuts))
    # Not a mask, whose number of True a GPU would have to report.
    places = torch.cat([batch.places + n * (given.numel() // copies) for n in range(copies)])
    rows, output = hidden.flatten(0, 1).index_select(0, places), model.embeddings.output
    if alpha:
        loss = two_pass_loss(
            rows, output, batch.labels, alpha=alpha, smoothing=smoothing, is_cut=bool(cuts)
        )
    else:
        loss = cross_entropy(rows, output, batch.labels, smoothing=smoothing)
    if guide is not None and batch.links is not None:
        passes = weights[0, :, guide.head].chunk(copies)
        learning = passes[:1] if cuts else passes
        align = torch.stack([align_loss(each, batch.links) for each in learning])
        loss = loss._replace(align=align.mean())
    return loss


def cross_entropy(
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    *,
    smoothing: float = 0.0,
    chunk: int | None = None,
    padded: bool = False,
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
        chunk: rows at a time; None = a size that suits the device (see `apply_in_chunks`). It
            changes the result by rounding only.
        padded: True if rows whose target is PAD have no loss, and a gradient of exactly 0.

    Source: Szegedy et al. 2016, arXiv:1512.00567, for the smoothing.
    """
    if padded:  # vectors of zeros add nothing to the gradient of the matrix, and get none
        hidden = hidden.masked_fill((target == PAD)[:, None], 0)
    add = partial(add_cross_entropy, smoothing=smoothing, padded=padded)
    finish = partial(subtract_target, smoothing=smoothing, padded=padded)
    return apply_in_chunks(hidden[None], output, target, chunk, add, finish)


class LossChunk(NamedTuple):
    """R' tokens with K hidden states each, and the sums to which their loss and gradients go."""

    hidden: Tensor  # (K, R', E); it, weight and bias have the precision of matrix products
    target: Tensor  # (R',)
    weight: Tensor
    bias: Tensor
    loss: Tensor  # the sum so far, over the K states as well
    nll: Tensor  # likewise
    gradients: list[Tensor]  # gradients of hidden, weight and bias; empty if not needed


def add_cross_entropy(chunk: LossChunk, smoothing: float, padded: bool = False) -> None:
    """Add the cross-entropy of a chunk, and its gradients.

    With z the scores of a row minus their maximum, e = exp(z), Z = sum(e) and V words,

        loss = log Z - (1 - smoothing) z_target - smoothing mean(z)
        d loss / d z = e / Z - (1 - smoothing) [target] - smoothing / V.

    Only the first term of the gradient touches every word of every row. Its 1 / Z is multiplied
    into the narrow factor of each product, and the other two terms are added to the products later
    (`subtract_target`), so that a chunk is read less often. Padding is given an infinite Z, with
    which it adds nothing to the gradient of the bias.
    """
    (h,), target, weight, bias, loss, nll, gradients = chunk
    reduce = compile_once(reduce_scores) if h.is_cuda else reduce_scores
    scores = torch.addmm(bias, h, weight.t())
    e, Z, log_Z, z_right, z_mean = reduce(scores, target, loss.dtype, padded)
    nll += log_Z - z_right
    loss += log_Z - (1 - smoothing) * z_right - smoothing * z_mean
    if gradients:
        of_hidden, of_weight, of_bias = gradients
        of_hidden[0] = (e @ weight).to(loss.dtype) / Z
        of_weight += e.t() @ (h / Z).to(weight.dtype)
        of_bias += (e.t() @ (1 / Z).to(weight.dtype)).squeeze(1)


def reduce_scores(
    scores: Tensor, target: Tensor, wide: torch.dtype, padded: bool
) -> tuple[Tensor, ...]:
    """Reduce the scores of R' rows, (R', V), to e in their precision, Z (R', 1), and the sums over
    rows of log Z, z_target and mean(z); names as in `add_cross_entropy`.

    Written for a compiler, which makes two passes of it, one for the maxima and sums and one for e.

    Args:
        wide: precision of the sums.
        padded: True to leave rows out of the sums whose target is PAD, and give them an infinite Z.
    """
    z = scores.to(wide)
    z -= z.amax(1, keepdim=True)
    z_right, z_mean = z.gather(1, target[:, None]), z.mean(1, keepdim=True)
    e = z.exp_()
    Z = e.sum(1, keepdim=True)
    log_Z = Z.log()
    if padded:
        padding = target[:, None] == PAD
        z_right, z_mean, log_Z = (x.masked_fill(padding, 0) for x in (z_right, z_mean, log_Z))
        Z = Z.masked_fill(padding, torch.inf)
    return e.to(scores.dtype), Z, log_Z.sum(), z_right.sum(), z_mean.sum()


@cache
def compile_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled for any sizes when it is first called."""
    return torch.compile(function, dynamic=True)


def subtract_target(
    hidden: Tensor,
    target: Tensor,
    weight: Tensor,
    gradients: list[Tensor],
    smoothing: float,
    padded: bool = False,
) -> None:
    """Add the terms of the gradient that do not depend on the scores. They come from the smoothed
    target, and belong to the first hidden state of each token.
    """
    hidden, (of_hidden, of_weight, of_bias) = hidden[0], gradients
    of_hidden = of_hidden[0]
    right, all_words = 1 - smoothing, smoothing / len(weight)
    ones = of_bias.new_ones(len(target))
    if padded:
        ones = ones.masked_fill(target == PAD, 0)
    of_hidden -= right * weight[target] + all_words * weight.sum(0)
    of_weight.index_add_(0, target, hidden.to(weight.dtype), alpha=-right)
    of_weight -= all_words * hidden.sum(0)
    of_bias.index_add_(0, target, ones, alpha=-right)
    of_bias -= all_words * (ones.sum() if padded else len(target))


def two_pass_loss(
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    *,
    alpha: float,
    smoothing: float = 0.0,
    chunk: int | None = None,
    is_cut: bool = False,
) -> Loss:
    """The loss of two passes over the same tokens, which make the predictions p and q: of R-Drop
    if they differ in their dropout masks, of SimCut if inputs are cut in the second.

    With CE the smoothed cross-entropy, R-Drop is the sum over tokens of

        1/2 (CE(p) + CE(q)) + alpha / 4 (KL(p || q) + KL(q || p)).

    This is half of the paper's loss, with the same meaning of alpha; if p equals q, it is the
    cross-entropy. SimCut is the sum of

        CE(p) + alpha KL(p || q)

    with gradients through both p and q. As in `cross_entropy`, scores and gradients are computed
    for a chunk of tokens at a time.

    Args:
        hidden: (2 R, E), one row for each real target token in the first pass, then the same tokens
            in the second.
        output: the vocabulary layer, V x E.
        target: (R,) ids.
        alpha: weight of the divergence, 0 or more; the papers use 5 (R-Drop, translation) and 3
            (SimCut, small corpora).
        smoothing: 0 <= smoothing < 1.
        chunk: tokens at a time, as in `cross_entropy`.
        is_cut: True for SimCut.

    Returns: the loss, and as `nll` the mean of both negative log-likelihoods (R-Drop), or that of
        the first pass (SimCut).
    Sources: Liang et al. 2021, arXiv:2106.14448 (R-Drop); Gao et al. 2022, arXiv:2206.02368
        (SimCut).
    """
    both = hidden.view(2, len(target), hidden.shape[1])
    if is_cut:
        add = partial(add_simcut, alpha=alpha, smoothing=smoothing)
        finish = partial(subtract_target, smoothing=smoothing)
        return apply_in_chunks(both, output, target, chunk, add, finish)
    add = partial(add_r_drop, alpha=alpha, smoothing=smoothing)
    twice = apply_in_chunks(both, output, target, chunk, add, None)
    return Loss(twice.smoothed / 2, twice.nll / 2)


def add_r_drop(chunk: LossChunk, alpha: float, smoothing: float) -> None:
    """Add twice the R-Drop loss of a chunk, and its gradients.

    With d = log p - log q and t the smoothed target, the scores of p have the gradient

        p - t + alpha / 2 (p (d - KL(p || q)) + p - q),

    and the scores of q have the same with p and q swapped.
    """
    hidden, target, weight, bias, loss, nll, gradients = chunk
    log_p = (hidden @ weight.t() + bias).to(loss.dtype).log_softmax(-1)  # (2, R', V)
    right = target.expand(2, -1)[..., None]
    of_right = log_p.gather(-1, right).sum()
    nll -= of_right
    loss -= (1 - smoothing) * of_right + smoothing * log_p.mean(-1).sum()
    p, d = log_p.exp(), log_p - log_p.flip(0)
    divergence = (p * d).sum(-1, keepdim=True)
    loss += alpha / 2 * divergence.sum()
    if gradients:
        slope = p * (1 + alpha / 2 * (1 + d - divergence)) - alpha / 2 * p.flip(0)
        slope -= smoothing / len(weight)
        slope.scatter_add_(-1, right, slope.new_full(right.shape, smoothing - 1))
        of_hidden, of_weight, of_bias = gradients
        low = slope.to(weight.dtype)
        of_hidden[:] = low @ weight
        of_weight += low.flatten(0, 1).t() @ hidden.flatten(0, 1)
        of_bias += slope.sum((0, 1))


def add_simcut(chunk: LossChunk, alpha: float, smoothing: float) -> None:
    """Add the SimCut loss of a chunk, and its gradients.

    With d = log p - log q and t the smoothed target, the scores of p and of q have the gradients

        p - t + alpha p (d - KL(p || q)),    alpha (q - p).

    As in `add_cross_entropy`, 1 / Z is multiplied into narrow factors, and the target is subtracted
    later. Operations are in place, since reading memory takes much more time than computing.
    """
    hidden, target, weight, bias, loss, nll, gradients = chunk
    z = torch.addmm(bias, hidden.flatten(0, 1), weight.t()).to(loss.dtype)
    z = z.sub_(z.amax(1, keepdim=True)).view(2, len(target), -1)
    z_right, z_mean = z[0].gather(1, target[:, None]).sum(), z[0].mean(1).sum()
    d = z[0] - z[1]  # log p - log q, except for log Z_q - log Z_p, a constant of each row
    e_p, e_q = e = z.exp_()
    Z = e.sum(2, keepdim=True)
    (Z_p, Z_q), (log_Z_p, log_Z_q) = Z, Z.log()
    mean_d = (e_p * d).sum(1, keepdim=True) / Z_p
    nll += log_Z_p.sum() - z_right
    loss += log_Z_p.sum() - (1 - smoothing) * z_right - smoothing * z_mean
    loss += alpha * (mean_d - log_Z_p + log_Z_q).sum()
    if gradients:
        of_hidden, of_weight, of_bias = gradients
        e_q.addcmul_(e_p, -Z_q / Z_p)
        e_p *= d.mul_(alpha).add_(1 - alpha * mean_d)
        scale = torch.stack((1 / Z_p, alpha / Z_q))
        e = e.to(weight.dtype)
        of_hidden[:] = (e @ weight).to(loss.dtype) * scale
        rows = e.flatten(0, 1).t()
        of_weight += rows @ (hidden * scale).to(weight.dtype).flatten(0, 1)
        of_bias += (rows @ scale.to(weight.dtype).flatten(0, 1)).squeeze(1)


def apply_in_chunks(
    hidden: Tensor, output: nn.Linear, target: Tensor, chunk: int | None, *ways: Any
) -> Loss:
    """The loss of hidden states (K, R, E), computed for `chunk` tokens at a time. By default, the
    scores of a chunk fit into the caches of a CPU; on a GPU, where each chunk costs twenty kernel
    launches, they take a quarter of a gigabyte.
    """
    apply: Callable[..., tuple[Tensor, Tensor]] = ChunkedLoss.apply
    rows = 256 if hidden.device.type == "cpu" else max(256, 2**26 // output.out_features)
    size, needed = chunk or rows // len(hidden), torch.is_grad_enabled()
    return Loss(*apply(hidden, output.weight, output.bias, needed, target, size, *ways))


class ChunkedLoss(Function):
    """A loss over K hidden states per token, which `add` sums up chunk by chunk.

    The gradients are computed together with the loss, since the scores of a chunk exist only then.

    Args:
        hidden: (K, R, E) hidden states.
        weight, bias: parameters of the vocabulary layer.
        with_gradient: True if the gradients are needed.
        target: (R,) ids.
        size: number of tokens in a chunk.
        add: function that adds the loss of a chunk, and its gradients if they are needed.
        finish: function that adds the part of the gradients that needs no scores, if there is one.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        with_gradient: bool,
        target: Tensor,
        size: int,
        add: Callable[[LossChunk], None],
        finish: Callable[..., None] | None,
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        with torch.autocast(device, enabled=False):
            w, b = weight.to(low or weight.dtype), bias.to(low or bias.dtype)
            learning = (hidden, weight, bias) if with_gradient else ()
            gradients = [torch.zeros_like(x) for x in learning]
            wide = torch.promote_types(w.dtype, torch.float32)
            sums = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
            for start in range(0, len(target), size):
                rows = slice(start, start + size)
                of_chunk = [gradients[0][:, rows], *gradients[1:]] if gradients else []
                add(LossChunk(hidden[:, rows].to(w.dtype), target[rows], w, b, *sums, of_chunk))
            if gradients and finish is not None:
                finish(hidden, target, weight, gradients)
        ctx.save_for_backward(*gradients)
        loss, nll = sums
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> Any:
        hidden, weight, bias = ctx.saved_tensors
        return hidden * slope, weight * slope, bias * slope, *(None,) * 5
