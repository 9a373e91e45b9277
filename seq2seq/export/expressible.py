"""Which models CTranslate2 can compute, and what to say of the others."""

from typing import Any

from seq2seq.attention.base import Attention
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Dot, ScaledDot
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.models.transformer import Transformer
from seq2seq.nn.positions import ALiBi

OTHERWISE = "`seq2seq translate` computes every model"


def check_expressible(model: Seq2Seq) -> Transformer:
    """The model, if CTranslate2 has all its parts.

    Raises: ConfigError that names every part it lacks, and what would be right.
    """
    if not isinstance(model, Transformer):
        raise ConfigError(
            f"CTranslate2 has no recurrent models, and this is one ({type(model).__name__}). "
            f"Train with model=transformer to export it; {OTHERWISE}"
        )
    found = [*attentions_it_lacks(model), *heads_it_lacks(model)]
    if isinstance(model.encoder_position, ALiBi):
        found.append(
            "position=alibi: it has ALiBi in decoders only. Train with position=sinusoidal, "
            "learned, rope or t5"
        )
    if found:
        lines = "\n".join(f"  {reason}" for reason in dict.fromkeys(found))
        raise ConfigError(f"CTranslate2 cannot compute this model:\n{lines}\n{OTHERWISE}")
    return model


def attentions_it_lacks(model: Transformer) -> list[str]:
    """A reason for every attention that is not multi-head attention of dot products."""
    return [
        f"{attention.place.role.description}: it has no {kind}. Train with attn=mha, gqa or mqa"
        for attention in attentions(model)
        if (kind := what_it_lacks(attention)) is not None
    ]


def what_it_lacks(attention: Attention[Any]) -> str | None:
    """The part of an attention that CTranslate2 has no word for; None if there is none."""
    # A class derived from it computes something else.
    if type(attention) is not MultiHead:
        return f"attention like {type(attention).__name__}"
    if type(attention.score) not in (Dot, ScaledDot):
        return f"score like {type(attention.score).__name__}"
    if not hasattr(attention.q, "weight"):
        return "attention without projections"
    return None


def heads_it_lacks(model: Transformer) -> list[str]:
    """A reason if the attentions of a stack differ in their number of heads."""
    for stack in (model.encoder, model.decoder):
        inside = [a for a in attentions(stack) if isinstance(a, MultiHead)]
        if len(numbers := sorted({a.num_heads for a in inside})) > 1:
            return [
                f"num_heads={numbers[0]} beside num_heads={numbers[1]}: it has one number of heads "
                "for self- and cross-attention of the decoder. Train with equal ones"
            ]
    return []


def attentions(module: Any) -> list[Attention[Any]]:
    return [part for part in module.modules() if isinstance(part, Attention)]
