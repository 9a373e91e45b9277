"""Check whether another program can run a model: what it lacks, and what to train with instead."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from seq2seq.attention.base import Attention
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Dot, ScaledDot
from seq2seq.base.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.models.layers.layer import FeedForward
from seq2seq.models.transformer import Transformer

FALLBACK = "`seq2seq translate` can use every model"


def check_exportable(
    model: Seq2Seq, program: str, list_gaps: Callable[[Transformer], list[str]]
) -> Transformer:
    """Check that another program can compute a model, and return the model.

    Args:
        program: name of the program, for messages.
        list_gaps: function that returns a message for every part that the program lacks.

    Raises: ConfigError listing everything that the program cannot compute.
    """
    if not isinstance(model, Transformer):
        raise ConfigError(
            f"{program} has no recurrent models such as this one ({type(model).__name__}). "
            f"Train with model=transformer to export it; {FALLBACK}"
        )
    gaps = list_gaps(model)
    if model.unpositioned is not None:
        gaps.append("it has no tokens without positions. Train with model.unpositioned=null")
    if gaps:
        lines = "\n".join(f"  {gap}" for gap in dict.fromkeys(gaps))
        raise ConfigError(f"{program} cannot compute this model:\n{lines}\n{FALLBACK}")
    return model


def list_attention_gaps(
    model: Transformer, find_gap: Callable[[Any], str | None], mechanisms: str
) -> list[str]:
    """A message for every attention that a program cannot compute, and for every stack (encoder or
    decoder) whose attentions differ in their number of heads.

    Args:
        find_gap: function that names the part of an attention that the program lacks, if any.
        mechanisms: names of the mechanisms to train with instead.
    """
    gaps = []
    for stack in (model.encoder, model.decoder):
        attentions = [each for each in stack.modules() if isinstance(each, Attention)]
        for attention in attentions:
            if gap := find_gap(attention):
                role = attention.place.role.description
                gaps.append(f"{role}: it has no {gap}. Train with attn={mechanisms}")
        heads = sorted({each.num_heads for each in attentions if isinstance(each, MultiHead)})
        if len(heads) > 1:
            gaps.append(
                f"num_heads={heads[0]} and num_heads={heads[1]}: it needs the same number of heads "
                "in self- and cross-attention of the decoder. Train with equal numbers"
            )
    return gaps


def find_attention_gap(attention: Attention[Any]) -> str | None:
    """The part of an attention that other programs lack, as they have only standard multi-head
    attention; None if they can compute it.
    """
    # Subclasses are excluded, since they compute something else.
    if type(attention) is not MultiHead:
        return f"attention like {type(attention).__name__}"
    if type(attention.score) not in (Dot, ScaledDot):
        return f"score like {type(attention.score).__name__}"
    if not hasattr(attention.q, "weight"):
        return "attention without projections"
    return None


def activation_name(feed: FeedForward) -> str:
    """The name of a feed-forward layer's activation in other programs."""
    name = feed.activation.__name__
    return "swish" if name == "silu" else name


def maps_and_norms(model: Transformer) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The name, weight and bias of every linear map and layer norm outside the embeddings, with
    zeros for a missing bias.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.LayerNorm) and not name.startswith("embeddings"):
            weight, bias = module.weight.detach(), module.bias
            yield name, weight, weight.new_zeros(len(weight)) if bias is None else bias.detach()
