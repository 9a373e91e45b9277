"""Export Transformers to folders for CTranslate2.

The folder holds `model.bin`, `config.json` and the vocabularies, which CTranslate2 reads. Since
CTranslate2 takes and returns pieces, the folder also holds `source_tokenizer.json` and
`target_tokenizer.json`, with which the `tokenizers` library converts text into pieces and back.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq.attention import Role
from seq2seq.base.durable import write_text
from seq2seq.base.plugins import import_library
from seq2seq.base.symbols import BOS, EOS, NAMES, NEVER_GENERATED, UNK
from seq2seq.checkpoint import Saved
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.interchange import coverage
from seq2seq.interchange.agreement import Rows, Scored
from seq2seq.interchange.imported import NEVER
from seq2seq.models.layers.positions import POSITIONS, PositionScheme, Rotary, T5Bias
from seq2seq.models.transformer import DecoderLayer, Transformer

TABLE_ROWS = 4096  # rows of a table of positions if the scheme has no maximum length
VOCABULARY_MAP = "vmap.txt"


def export(
    saved: Saved, folder: Path, names: list[str] | None = None, precision: str = "float32"
) -> None:
    """Write a model, its vocabularies and its tokenizers.

    CTranslate2 then translates like the original: pad, bos and unk are never generated, and eos is
    added to each source.

    Args:
        names: pieces of both vocabularies, for a program that segments text itself; no tokenizers
            are written then.
        precision: type of the weights: `float32`, or another type that CTranslate2 knows.

    Raises: ConfigError if CTranslate2 is not installed or cannot compute the model; ValueError if
        the vocabularies do not fit the model.
    """
    ct2 = import_library("ctranslate2")
    model = coverage.check_exportable(saved.build(), "CTranslate2", list_ctranslate2_gaps)
    spec = model_spec(ct2.specs, model)
    spec.register_source_vocabulary(names or saved.source.symbols())
    spec.register_target_vocabulary(names or saved.target.symbols())
    spec.validate()
    spec.optimize(precision)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    sides = {} if names else {"source": saved.source, "target": saved.target}
    for side, tokenizer in sides.items():
        (folder / f"{side}_tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")


def write_vocabulary_map(saved: Saved, folder: Path, lists: Shortlist) -> None:
    """Write a shortlist beside an exported model; CTranslate2 uses it with `use_vmap=True`.

    Pieces that contain white space are left out, since the format uses spaces as separators.
    """
    source, target = saved.source.symbols(), saved.target.symbols()
    names = ["" if len(name.split()) != 1 else name for name in target]
    lines = []
    for piece, ids in zip([*source, ""], lists.lists_of(range(len(source) + 1)), strict=True):
        if len(ids) and (not piece or len(piece.split()) == 1):
            lines.append(f"{piece}\t{' '.join(names[i] for i in ids if names[i])}\n")
    write_text(folder / VOCABULARY_MAP, "".join(lines))


class CTranslate2:
    """An exported model, run by CTranslate2.

    Args:
        names: argument of `export`.
    """

    def __init__(self, saved: Saved, folder: Path, names: list[str] | None = None):
        self.source = names or saved.source.symbols()
        target = names or saved.target.symbols()
        self.ids = {symbol: index for index, symbol in enumerate(target)}
        ct2 = import_library("ctranslate2")
        self.engine: Any = ct2.Translator(str(folder), device="cpu", compute_type="float32")

    def translate(self, batch: Rows, beams: int, limit: int) -> Scored:
        """Translate a batch; see `agreement.Translate`."""
        results = self.engine.translate_batch(
            [[self.source[i] for i in row] for row in batch],
            beam_size=beams,
            length_penalty=1.0,
            min_decoding_length=0,
            max_decoding_length=limit,
            max_input_length=0,
            # Otherwise the score is divided by a length that does not count eos.
            return_end_token=True,
            return_scores=True,
        )
        return [([self.ids[s] for s in each.hypotheses[0]], each.scores[0]) for each in results]


def list_ctranslate2_gaps(model: Transformer) -> list[str]:
    """A message for every part of a model that CTranslate2 lacks."""
    gaps = coverage.list_attention_gaps(model, coverage.find_attention_gap, "mha, gqa or mqa")
    scheme = type(model.encoder_position)
    name = next((name for name, each in POSITIONS.items() if each is scheme), scheme.__name__)
    if name not in ("sinusoidal", "learned", "rope", "t5", "none"):
        gaps.append(
            f"position={name}: it has ALiBi in decoders only, and no positions that depend on the "
            "query. Train with position=sinusoidal, learned, rope or t5"
        )
    return gaps


def model_spec(specs: Any, model: Transformer) -> Any:
    """CTranslate2's description of a model, with its weights."""
    first, embeddings = model.encoder[0], model.embeddings
    shared = {
        "pre_norm": first.around_feed.pre,
        "rms_norm": isinstance(first.around_feed.norm, nn.RMSNorm),
        "activation": getattr(specs.Activation, coverage.activation_name(first.feed).upper()),
        "ffn_glu": first.feed.gate is not None,
        "relative_attention_bias": isinstance(model.encoder_position, T5Bias),
    }
    if isinstance(model.encoder_position, Rotary):
        shared["rotary_dim"] = 0  # 0 means the whole head
    heads = [stack[0].attention.num_heads for stack in (model.encoder, model.decoder)]
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(len(model.encoder), heads[0], **shared),
        specs.TransformerDecoderSpec(len(model.decoder), heads[1], **shared),
    )
    spec.config.layer_norm_epsilon = first.around_feed.norm.eps
    spec.config.unk_token, spec.config.bos_token = NAMES[UNK], NAMES[BOS]
    spec.config.eos_token, spec.config.decoder_start_token = NAMES[EOS], NAMES[BOS]
    spec.config.add_source_eos = True
    spec.encoder.embeddings[0].weight = to_numpy(embeddings.source.weight)
    spec.decoder.embeddings.weight = to_numpy(embeddings.target.weight)
    set_linear(spec.decoder.projection, embeddings.output)
    bias = embeddings.output.bias.detach().clone()
    bias[list(NEVER_GENERATED)] = NEVER
    spec.decoder.projection.bias = to_numpy(bias)
    set_stack(specs, spec.encoder, model, "encoder")
    set_stack(specs, spec.decoder, model, "decoder")
    return spec


def set_stack(specs: Any, spec: Any, model: Transformer, side: str) -> None:
    """Fill in the description of the encoder or the decoder: positions, layers and final norm."""
    layers, norm = getattr(model, side), getattr(model, f"{side}_norm")
    position: PositionScheme = getattr(model, f"{side}_position")
    spec.scale_embeddings = model.embeddings.scale != 1.0
    if not isinstance(position, T5Bias | Rotary):
        length = position.max_length or TABLE_ROWS
        vectors = position.embed(torch.zeros(1, length, model.embeddings.dim), torch.arange(length))
        spec.position_encodings.encodings = to_numpy(vectors[0])
    if isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        set_norm(spec.layer_norm, norm)
    for layer_spec, layer in zip(spec.layer, layers, strict=True):
        inner = layer.around_attention.norm
        layer_spec.self_attention = attention_spec(specs, layer.attention, inner, position)
        if isinstance(layer, DecoderLayer):
            layer_spec.attention = attention_spec(specs, layer.cross, layer.around_cross.norm, None)
        set_linear(layer_spec.ffn.linear_0, layer.feed.up)
        set_linear(layer_spec.ffn.linear_1, layer.feed.down)
        if layer.feed.gate is not None:
            set_linear(layer_spec.ffn.linear_0_noact, layer.feed.gate)
        set_norm(layer_spec.ffn.layer_norm, layer.around_feed.norm)


def attention_spec(
    specs: Any, attention: Any, norm: nn.Module, position: PositionScheme | None
) -> Any:
    """The description of one attention of a layer and its norm.

    Args:
        position: position scheme that acts inside the attention; None for cross-attention.
    """
    rotary = {}
    if isinstance(position, Rotary):
        rotary = {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": position.base}
    shared = attention.num_kv_heads != attention.num_heads
    spec = specs.attention_spec.MultiHeadAttentionSpec(
        self_attention=attention.place.role is not Role.CROSS,
        relative_attention_bias=isinstance(position, T5Bias),
        num_heads_kv=attention.num_kv_heads if shared else None,
        rms_norm=isinstance(norm, nn.RMSNorm),
        **rotary,
    )
    if isinstance(position, T5Bias):
        spec.relative_attention_bias = to_numpy(position.table.weight)
        spec.relative_attention_max_distance = np.int32(position.max_distance)
    spec.queries_scale = np.float32(attention.score.scale)
    set_norm(spec.layer_norm, norm)
    # Maps of the same input are joined: all three in self-attention, k and v in cross-attention.
    q, k, v, out = attention.q, attention.k, attention.v, attention.out
    inputs = [(q, k, v)] if len(spec.linear) == 2 else [(q,), (k, v)]
    for linear, maps in zip(spec.linear, [*inputs, (out,)], strict=True):
        set_linear(linear, *maps)
    return spec


def set_linear(spec: Any, *maps: Any) -> None:
    """Store several linear maps as one, their outputs side by side."""
    spec.weight = to_numpy(torch.cat([each.weight for each in maps]))
    if maps[0].bias is not None:
        spec.bias = to_numpy(torch.cat([each.bias for each in maps]))


def set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = to_numpy(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = to_numpy(norm.bias)


def to_numpy(weight: Tensor) -> np.ndarray:
    return weight.detach().float().numpy()
