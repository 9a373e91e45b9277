"""Our weights in a model of the `transformers` library."""

from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import ScaledDot
from seq2seq.base.symbols import BOS, EOS, NEVER_GENERATED, PAD
from seq2seq.interchange.imported import NEVER
from seq2seq.models import Seq2Seq
from seq2seq.models.layers.positions import Sinusoidal
from seq2seq.models.transformer import DecoderLayer, Transformer

POSITIONS = 512
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
NEEDS = (
    "Hugging Face's Marian and Pegasus are Transformers with multi-head attention, sinusoidal "
    "positions, layer norms, ReLU or GELU, and one matrix for source, target and output"
)


def build(model: Seq2Seq) -> Any:
    """MarianMTModel for post-norm; for pre-norm PegasusForConditionalGeneration, which is Marian
    with pre-norm.

    Raises: ValueError if the library has no such model.
    """
    import transformers

    if not fits(model):
        raise ValueError(NEEDS)
    assert isinstance(model, Transformer)
    first, dim = model.encoder[0], model.embeddings.dim
    pre = first.around_feed.pre
    config_class: Any = transformers.PegasusConfig if pre else transformers.MarianConfig
    kind: Any = transformers.PegasusForConditionalGeneration if pre else transformers.MarianMTModel
    config = config_class(
        vocab_size=model.embeddings.target.num_embeddings,
        d_model=dim,
        encoder_layers=len(model.encoder),
        decoder_layers=len(model.decoder),
        encoder_attention_heads=first.attention.num_heads,
        decoder_attention_heads=model.decoder[0].attention.num_heads,
        encoder_ffn_dim=first.feed.up.out_features,
        decoder_ffn_dim=first.feed.up.out_features,
        activation_function=ACTIVATIONS[first.feed.activation.__name__],
        scale_embedding=model.embeddings.scale != 1.0,
        max_position_embeddings=POSITIONS,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    theirs = kind(config).eval()
    missing, unknown = theirs.load_state_dict(weights(model), strict=False)
    ignored = {name for name in missing if "embed_tokens" in name or name == "lm_head.weight"}
    assert not unknown and set(missing) == ignored, (set(missing) - ignored, unknown)
    return theirs


def fits(model: Seq2Seq) -> bool:
    """Does one of the two compute the same function?"""
    if not isinstance(model, Transformer):
        return False
    first = model.encoder[0]
    heads = [m for m in model.modules() if isinstance(m, MultiHead)]
    layers = [*model.encoder, *model.decoder]
    return (
        len(heads) == len(model.encoder) + 2 * len(model.decoder)
        and all(type(h) is MultiHead and type(h.score) is ScaledDot for h in heads)
        and all(h.num_heads == h.num_kv_heads and isinstance(h.q, nn.Linear) for h in heads)
        and isinstance(model.encoder_position, Sinusoidal)
        and first.feed.activation.__name__ in ACTIVATIONS
        and all(isinstance(layer.around_feed.norm, nn.LayerNorm) for layer in layers)
        and model.embeddings.output.weight is model.embeddings.source.weight
    )


def weights(model: Transformer) -> dict[str, Tensor]:
    """Our weights under the names of the library; missing biases are zero."""
    bias = model.embeddings.output.bias.detach().clone()
    bias[list(NEVER_GENERATED)] = NEVER
    named = {"model.shared.weight": model.embeddings.target.weight, "final_logits_bias": bias[None]}
    positions, dim = torch.arange(POSITIONS), model.embeddings.dim
    for side in ("encoder", "decoder"):
        at = f"model.{side}"
        table = getattr(model, f"{side}_position").embed(torch.zeros(1, POSITIONS, dim), positions)
        named[f"{at}.embed_positions.weight"] = table[0]
        named |= of_map(f"{at}.layer_norm", getattr(model, f"{side}_norm"))
        for i, layer in enumerate(getattr(model, side)):
            named |= of_layer(f"{at}.layers.{i}", layer)
    return {name: value.detach() for name, value in named.items()}


def of_layer(at: str, layer: Any) -> dict[str, Tensor]:
    parts = {
        "self_attn_layer_norm": layer.around_attention.norm,
        "fc1": layer.feed.up,
        "fc2": layer.feed.down,
        "final_layer_norm": layer.around_feed.norm,
    }
    attentions = {"self_attn": layer.attention}
    if isinstance(layer, DecoderLayer):
        attentions["encoder_attn"] = layer.cross
        parts["encoder_attn_layer_norm"] = layer.around_cross.norm
    for name, attention in attentions.items():
        for ours in ("q", "k", "v", "out"):
            parts[f"{name}.{ours}_proj"] = getattr(attention, ours)
    result: dict[str, Tensor] = {}
    for name, part in parts.items():
        result |= of_map(f"{at}.{name}", part)
    return result


def of_map(at: str, part: Any) -> dict[str, Tensor]:
    """Weight and bias of a linear map or a norm; none of the identity in place of a norm."""
    if isinstance(part, nn.Identity):
        return {}
    bias = part.bias if part.bias is not None else torch.zeros(len(part.weight))
    return {f"{at}.weight": part.weight, f"{at}.bias": bias}
