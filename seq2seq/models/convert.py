"""Weights of one model made to fit another: multi-head becomes grouped-query attention."""

from collections.abc import Mapping

from torch import Tensor, nn

from seq2seq.attention.multihead import MultiHead
from seq2seq.errors import ConfigError


def share_heads(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Weights with more heads of keys and values than `model` has, made to fit it: each of its
    heads is the mean of those that it stands for.

    Training then goes on from there; the paper takes 5 % of the steps of the first training.

    Args:
        weights: a state dict of the same model but for `num_kv_heads`; it is not changed.
        model: what the weights shall fit.

    Returns: a state dict for `model`; what needs no change is the same tensor.
    Raises: ConfigError if the heads of an attention are no multiple of those it should have.
    Source: Ainslie et al. 2023, arXiv:2305.13245.
    """
    fitted = dict(weights)
    for name, module in model.named_modules():
        if not isinstance(module, MultiHead):
            continue
        for projection in ("k", "v"):
            for kind in ("weight", "bias"):
                key = f"{name}.{projection}.{kind}".removeprefix(".")
                if key in fitted:
                    fitted[key] = mean_of_groups(fitted[key], module.num_kv_heads, module.width)
    return fitted


def mean_of_groups(rows: Tensor, groups: int, width: int) -> Tensor:
    """The mean of the heads of each group, heads that follow each other.

    Args:
        rows: (heads * width, ...), a projection's weight or bias.
        groups: G; heads is a multiple of it.
        width: D, rows of a head.

    Returns: (G * width, ...), `rows` itself where there is nothing to share.
    """
    heads = rows.shape[0] // width
    if heads == groups:
        return rows
    if heads * width != rows.shape[0] or heads % groups:
        raise ConfigError(
            f"a projection of {rows.shape[0]} rows, {width} a head, cannot be shared by "
            f"num_kv_heads={groups}: take a divisor of {heads}"
        )
    return rows.unflatten(0, (groups, heads // groups, width)).mean(1).flatten(0, 1)
