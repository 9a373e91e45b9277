"""Hugging Face's Marian and Pegasus folders: their names for our parameters, and their import."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from seq2seq.data.existing import sentencepiece
from seq2seq.data.tokenizer import TAG, Tokenizer
from seq2seq.errors import DataError
from seq2seq.interchange import imported
from seq2seq.interchange.files import WEIGHTS, Folder, safetensors_of, torch_tensors
from seq2seq.interchange.imported import Imported, Rows, Tensors, brief, number, other_nodes

PARTS = {
    "attention": "self_attn",
    "cross": "encoder_attn",
    "around_attention.norm": "self_attn_layer_norm",
    "around_cross.norm": "encoder_attn_layer_norm",
    "around_feed.norm": "final_layer_norm",
    "feed.up": "fc1",
    "feed.down": "fc2",
    **{letter: f"{letter}_proj" for letter in ("q", "k", "v", "out")},
}
BIAS = "final_logits_bias"  # of the output
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
# What models of this kind could have, and none has.
ABSENT = ("normalize_before", "normalize_embedding", "add_final_layer_norm")


def their_name(ours: str) -> str:
    """Their name of a parameter of a layer or of the last norms: `encoder.0.feed.up.bias` ->
    `model.encoder.layers.0.fc1.bias`.
    """
    stack, _, rest = ours.partition(".")
    if stack.endswith("_norm"):
        return f"model.{stack.removesuffix('_norm')}.layer_norm.{rest}"
    layer, _, inside = rest.partition(".")
    part, _, kind = inside.rpartition(".")
    names = [part] if part in PARTS else part.split(".")
    return ".".join(["model", stack, "layers", layer, *(PARTS[n] for n in names), kind])


def their_names(nodes: Mapping[str, Any], ours: str) -> list[str]:
    """The names that a parameter of the described model may have."""
    tie = nodes["model"]["tie"]
    part, _, kind = ours.removeprefix("embeddings.").partition(".")
    own = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
    if not ours.startswith("embeddings."):
        return [their_name(ours)]
    if kind == "bias":
        return [BIAS]
    if tie == "all":
        return ["model.shared.weight", "lm_head.weight", *own.values()]
    if tie == "target" and part != "source":
        return [own["decoder"], "lm_head.weight"]
    return [{"source": own["encoder"], "target": own["decoder"], "output": "lm_head.weight"}[part]]


class Vocabulary(NamedTuple):
    """One side of a folder."""

    model: sentencepiece.PieceModel
    data: bytes  # of the model
    ids: dict[str, int]  # of vocab.json


def read_folder(path: Path, languages: tuple[str | None, str | None]) -> Imported:
    """Read the folder of a Marian model. Raises: DataError naming the file and what is wrong."""
    folder = Folder(path)
    config, where = folder.json("config.json"), f"{path}/config.json"
    if (kind := config.get("model_type")) != "marian":
        raise DataError(f"{where}: model_type={brief(kind)} should be 'marian'")
    vocabularies = read_vocabularies(folder)
    nodes = describe(config, where)
    tensors = Tensors(str(path), read_weights(folder))
    known = folder.json("tokenizer_config.json") if "tokenizer_config.json" in folder else {}
    given = [known.get(f"{side}_lang") for side in ("source", "target")]
    sides = [str(typed or found or "") for typed, found in zip(languages, given, strict=True)]
    search = folder.json("generation_config.json") if "generation_config.json" in folder else config
    beams = number(search, "num_beams", where, 1, 1000, default=1)
    longest = number(config, "max_position_embeddings", where, 2, 2**20, default=512)
    rows = shared_or_not(vocabularies, [rows_of(each, config, where) for each in vocabularies])
    source, target = map(tokenizer_of, vocabularies, rows)
    return Imported(
        nodes | other_nodes(sides, longest, beams, search.get("length_penalty", 1.0)),
        source,
        target,
        dict(imported.our_weights(nodes, rows, tensors, partial(their_names, nodes))),
        folder.read,
        [each.data for each in vocabularies],
    )


def read_vocabularies(folder: Folder) -> list[Vocabulary]:
    """Source and target; equal ids if they share one file."""
    names = ["vocab.json", "target_vocab.json" if "target_vocab.json" in folder else "vocab.json"]
    sides = []
    for side, name in zip(("source", "target"), names, strict=True):
        ids = folder.json(name)
        values = [i for i in ids.values() if type(i) is int]
        if sorted(values) != list(range(len(ids))):
            raise DataError(f"{folder.path}/{name} should give each piece one of the ids from 0 on")
        path = folder.find(f"{side}.spm")
        sides.append(Vocabulary(sentencepiece.read(path), path.read_bytes(), ids))
    return sides


def describe(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Their options as ours."""
    for name in ABSENT:
        if config.get(name):
            raise DataError(f"{where}: {name}={brief(config[name])} is not supported")
    activation = config.get("activation_function")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise DataError(
            f"{where}: activation_function={brief(activation)} should be {' or '.join(ACTIVATIONS)}"
        )
    stacks = ("encoder", "decoder")
    heads = [number(config, f"{s}_attention_heads", where, 1, 2**10) for s in stacks]
    widths = {number(config, f"{s}_ffn_dim", where, 1, 2**20) for s in stacks}
    if len(widths) > 1:
        raise DataError(f"{where}: encoder_ffn_dim and decoder_ffn_dim differ: {widths}")
    shared = config.get("share_encoder_decoder_embeddings", True)
    tied = config.get("tie_word_embeddings", True)
    kinds = (f"{kind}dropout" for kind in ("", "activation_", "attention_"))
    return imported.model_nodes(
        heads,
        **{kind: config.get(kind, 0.0) for kind in kinds},
        dim=number(config, "d_model", where, 2, 2**16),
        encoder_layers=number(config, "encoder_layers", where, 1, 128),
        decoder_layers=number(config, "decoder_layers", where, 1, 128),
        ffn_dim=widths.pop(),
        activation=ACTIVATIONS[activation],
        norm_order="post",
        tie="none" if not tied else "all" if shared else "target",
        scale=bool(config.get("scale_embedding")),
    )


def read_weights(folder: Folder) -> dict[str, Tensor]:
    """Every tensor, the bias of the output as a vector."""
    for name, read in (("model.safetensors", safetensors_of), ("pytorch_model.bin", torch_tensors)):
        if name in folder:
            tensors = read(folder.find(name, WEIGHTS))
            return {n: x.flatten() if n == BIAS else x for n, x in tensors.items()}
    raise DataError(f"{folder.path} has neither model.safetensors nor pytorch_model.bin")


def rows_of(side: Vocabulary, config: Mapping[str, Any], where: str) -> Rows:
    """Which of their ids each of ours is; `<s>`, which the decoder reads first, is their start.

    A piece of the SentencePiece model that vocab.json lacks is read as the unknown symbol is.
    """
    ids, last = side.ids, len(side.ids) - 1
    if lacking := [name for name in ("</s>", "<unk>") if name not in ids]:
        raise DataError(f"{where}: the vocabulary beside it has no {' and no '.join(lacking)}")
    pad = ids.get("<pad>")
    if pad is None:
        pad = number(config, "pad_token_id", where, 0, last)
    if (start := number(config, "decoder_start_token_id", where, 0, last, default=pad)) != pad:
        raise DataError(f"{where}: decoder_start_token_id={start} should be that of pad, {pad}")
    symbols = [pad, pad, ids["</s>"], ids["<unk>"]]
    rest = sorted((i, name) for name, i in ids.items() if i not in symbols)
    missing = [name for name in side.model.named if name not in ids]
    rows = Rows([*symbols, *(i for i, _ in rest)], [name for _, name in rest], 0)
    return rows.extended(missing)


def shared_or_not(sides: list[Vocabulary], rows: list[Rows]) -> list[Rows]:
    """Over a shared vocabulary, each side has the pieces of the other, too."""
    if sides[0].ids != sides[1].ids:
        return rows
    both = rows[0].extended([n for n in rows[1].names if n not in set(rows[0].names)])
    return [both, both]


def tokenizer_of(side: Vocabulary, rows: Rows) -> Tokenizer:
    """Codes of languages, `>>fr<<`, are tags: `<tag fr>`."""
    codes = [name for name in rows.names if re.fullmatch(r">>[^<>]+<<", name)]
    tags = {name: TAG.format(name[2:-2]) for name in codes}
    return sentencepiece.build(side.model, rows.names, tags)
