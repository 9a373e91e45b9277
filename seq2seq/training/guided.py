"""Guided alignment: one head of cross-attention is trained on links between words.

What to look at is told beside what to write, and one head learns both (Chen et al. 2016,
arXiv:1607.01628; one head of one layer of a Transformer: Garg et al. 2019, arXiv:1909.02074).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.attention import Attention, Role
from seq2seq.data.links import BatchLinks
from seq2seq.data.prepare import DataOptions
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.tables import did_you_mean
from seq2seq.training.config.options import GuidedOptions

# Below it a weight counts as this: a logarithm of zero would be no number. Weights this small are
# met only where a mechanism's window leaves a piece out; a softmax does not get there.
LEAST = 1e-30


class Guide(NamedTuple):
    """The head that is trained, and how much that counts beside the translation."""

    layer: int  # from 0
    head: int  # from 0
    weight: float


def align_loss(weights: Tensor, links: BatchLinks) -> Tensor:
    """How far the weights of a head are from the links: the divergence

        sum_ts p_ts log (p_ts / a_ts)

    summed over the target pieces t that have links, in nats; 0 is perfect. p_ts is the share of
    source piece s in t, a_ts the weight at it in the step that writes t. Its gradient is that of
    the cross-entropy, which is more by a number that the links alone decide.

    Args:
        weights: a, (B, T, S), before dropout.
        links: of the same batch.
    """
    row, target, source = links.places
    found = weights[row, target, source]
    wide = found.to(torch.promote_types(found.dtype, torch.float32))
    shares = links.shares.to(wide.dtype)
    return (shares * (shares.log() - wide.clamp(min=LEAST).log())).sum()


def find_guide(options: GuidedOptions, model: Seq2Seq) -> Guide | None:
    """The head that options name, None if there are no links to train it on.

    Raises: ConfigError if the model has no such head, or its weights cannot be trained.
    """
    if options.links is None:
        return None
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    cross = [a for a in attentions if a.place.role is Role.CROSS]
    # The last but one, as Garg et al.; but not the first of several, which asks before the decoder
    # has read anything of the source.
    layer = options.layer or min(len(cross), max(2, len(cross) - 1))
    if layer > len(cross):
        raise ConfigError(
            f"guided.layer={layer} does not exist: the decoder has {len(cross)} with "
            f"cross-attention, counted from 1. Type guided.layer={len(cross)}, or leave it out"
        )
    attention = cross[layer - 1]
    if reason := untrainable(attention):
        raise ConfigError(
            f"guided.links trains the weights of cross-attention, and {reason}. "
            "Type attn@cross_attn=mha, or guided.links=null"
        )
    heads = getattr(attention, "num_heads", 1)
    if options.head > heads:
        raise ConfigError(
            f"guided.head={options.head} does not exist: cross-attention has heads 1 to {heads}. "
            f"Type guided.head={heads}, or leave it out"
        )
    return Guide(layer - 1, options.head - 1, options.weight)


def untrainable(attention: Attention) -> str | None:
    """Why the weights of an attention cannot be trained to be given ones; None if they can."""
    kind = type(attention).__name__
    if not attention.shows_weights:
        return f"{kind} has none: {attention.no_weights}"
    if not attention.reads_queries:
        return f"those of {kind} do not depend on the target, so all words would look alike"
    if not attention.sums_to_one:
        return f"those of {kind} are no probabilities: they do not add up to one"
    return None


def check_links(options: GuidedOptions, data: DataOptions) -> None:
    """Raises: ConfigError for links of a corpus that there is not, before a file is looked for."""
    for part, spec in (("train", options.links), ("valid", options.valid)):
        option = "guided.links" if part == "train" else "guided.valid"
        corpora = getattr(data, part)
        several = sorted(corpora) if isinstance(corpora, dict) else None
        if isinstance(spec, str) and several is not None:
            raise ConfigError(
                f"{option}={spec}: data.{part} has several corpora ({', '.join(several)}). Say "
                f"whose links these are: {option}={{{several[0]}: {spec}}}"
            )
        if not isinstance(spec, dict):
            continue
        if not spec:
            raise ConfigError(f"{option}={{}} names no corpus: {option}=FILE, or {option}=null")
        for name, file in spec.items():
            if several is None:
                raise ConfigError(
                    f"{option}.{name}: data.{part} is a single corpus without a name: "
                    f"{option}={file}"
                )
            if name not in several or not isinstance(file, str):
                raise ConfigError(
                    f"{option}.{name}={file!r} should be the file of links of a corpus of "
                    f"data.{part}{did_you_mean(name, several)} Corpora: {', '.join(several)}"
                )
