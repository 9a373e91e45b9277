"""Guided alignment: training one head of cross-attention on given links between words.

The links are a second training target beside the translation (Chen et al. 2016, arXiv:1607.01628),
for one head of one layer of a Transformer (Garg et al. 2019, arXiv:1909.02074).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.alignment.choice import guess_layer
from seq2seq.attention import Attention
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.data.links.piece_links import BatchLinks
from seq2seq.data.options import DataOptions
from seq2seq.models import Seq2Seq
from seq2seq.training.config.options import GuidedOptions

# Smaller weights are raised to this value, so that their logarithms stay finite. Only pieces
# outside a mechanism's window have smaller weights; a softmax does not reach them.
MIN_WEIGHT = 1e-30


class GuidedHead(NamedTuple):
    """The head to train on links, and the weight of its loss relative to the translation loss."""

    layer: int  # from 0
    head: int  # from 0
    weight: float


def align_loss(weights: Tensor, links: BatchLinks) -> Tensor:
    """The divergence of a head's attention weights from the links,

        sum_ts p_ts log (p_ts / a_ts)

    summed over the target pieces t that have links, in nats; 0 is perfect. p_ts is the share of
    source piece s in the links of t, a_ts the weight of s in the step that writes t. The gradient
    equals that of the cross-entropy, which differs by a constant that depends only on the links.

    Args:
        weights: attention weights a, (B, T, S), before dropout.
        links: links of the same batch.
    """
    row, target, source = links.places
    linked = weights[row, target, source]
    wide = linked.to(torch.promote_types(linked.dtype, torch.float32))
    shares = links.shares.to(wide.dtype)
    return (shares * (shares.log() - wide.clamp(min=MIN_WEIGHT).log())).sum()


def find_guided_head(options: GuidedOptions, model: Seq2Seq) -> GuidedHead | None:
    """The head that the options name; None if there are no links to train it on.

    Raises: ConfigError if the model has no such head, or the head's weights cannot be trained.
    """
    if options.links is None:
        return None
    cross = model.cross_attentions
    layer = options.layer or guess_layer(len(cross))
    check_range("guided.layer", layer, 1, maximum=len(cross))
    attention = cross[layer - 1]
    if reason := explain_untrainable(attention):
        raise ConfigError(
            f"guided.links trains the weights of cross-attention, but {reason}. "
            "Type attn@cross_attn=mha, or guided.links=null"
        )
    check_range("guided.head", options.head, 1, maximum=getattr(attention, "num_heads", 1))
    return GuidedHead(layer - 1, options.head - 1, options.weight)


def explain_untrainable(attention: Attention[Any]) -> str | None:
    """The reason why an attention's weights cannot be trained on links; None if they can."""
    kind = type(attention).__name__
    if not attention.shows_weights:
        return f"{kind} has none: {attention.no_weights}"
    if not attention.reads_queries:
        return f"the weights of {kind} are the same for all words, whatever the target"
    if attention.signed_weights:
        return f"the weights of {kind} are not probabilities: some are negative"
    if not attention.sums_to_one:
        return f"the weights of {kind} are not probabilities: they do not sum to one"
    return None


def check_links(options: GuidedOptions, data: DataOptions) -> None:
    """Check that links are given for corpora of the data, before any file is opened.

    Raises: ConfigError if links name an unknown corpus, or do not say to which one they belong.
    """
    parts = ("links", options.links, "train"), ("valid", options.valid, "valid")
    for name, links, part in parts:
        if links is not None and data.languages:
            raise ConfigError(f"guided.{name}={links} is for two languages, not data.languages")
        corpora = getattr(data, part)
        names = list(corpora) if isinstance(corpora, dict) else []
        if isinstance(links, dict):
            is_right = links and all(corpus in names for corpus in links)
            is_right = is_right and all(isinstance(file, str) for file in links.values())
        else:
            is_right = links is None or not names
        if not is_right:
            example = f"{{{names[0]}: FILE}}" if names else "FILE"
            several = f", since data.{part} has several corpora: {', '.join(names)}"
            raise ConfigError(
                f"guided.{name}={links} should be guided.{name}={example}{several if names else ''}"
            )
