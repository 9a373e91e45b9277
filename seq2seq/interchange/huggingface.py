"""Hugging Face's Marian and Pegasus folders: their names for our parameters, and their import."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.errors import DataError
from seq2seq.functional.positions import sinusoid
from seq2seq.interchange import imported
from seq2seq.interchange.files import WEIGHTS, Folder, safetensors_of, torch_tensors
from seq2seq.interchange.imported import Imported, Tensors, brief, number, other_nodes
from seq2seq.interchange.vocabularies import (
    FolderSide,
    build_side_tokenizer,
    check_side_ids,
    shared_or_not,
)
from seq2seq.symbols import EOS, NAMES, PAD
from seq2seq.tokenization import piece_model

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


def names_in_folder(nodes: Mapping[str, Any], ours: str) -> list[str]:
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


def read_folder(path: Path, languages: tuple[str | None, str | None]) -> Imported:
    """Read the folder of a Marian model. Raises: DataError naming the file and what is wrong."""
    folder, where = Folder(path), f"{path}/config.json"
    names = ["config.json", "generation_config.json", "tokenizer_config.json"]
    configs = {name: folder.json(name) for name in names if name in folder or name == names[0]}
    config = configs["config.json"]
    search = configs.get("generation_config.json", config)
    if (kind := config.get("model_type")) != "marian":
        raise DataError(f"{where}: model_type={brief(kind)} should be 'marian'")
    vocabularies = read_vocabularies(folder)
    nodes = folder_options(config, where)
    tensors = Tensors(str(path), without_positions(read_weights(folder), str(path)))
    known = configs.get("tokenizer_config.json", {})
    given = [known.get(f"{side}_lang") for side in ("source", "target")]
    sides = [str(typed or found or "") for typed, found in zip(languages, given, strict=True)]
    beams = number(search, "num_beams", where, 1, 1000, default=1)
    longest = number(config, "max_position_embeddings", where, 2, 2**20, default=512)
    starts = starts_of(vocabularies, configs, str(path))
    rows = [each.rows(start) for each, start in zip(vocabularies, starts, strict=True)]
    rows = shared_or_not(vocabularies, rows)
    source, target = map(build_side_tokenizer, vocabularies, rows)
    return Imported(
        nodes | other_nodes(sides, longest, beams, search.get("length_penalty", 1.0)),
        source,
        target,
        imported.our_weights(nodes, rows, tensors, partial(names_in_folder, nodes)),
        folder.read,
        [each.data for each in vocabularies],
    )


def read_vocabularies(folder: Folder) -> list[FolderSide]:
    """Source and target; equal ids if they share one file."""
    names = ["vocab.json", "target_vocab.json" if "target_vocab.json" in folder else "vocab.json"]
    sides = []
    for side, name in zip(("source", "target"), names, strict=True):
        ids = check_side_ids(folder.json(name), f"{folder.path}/{name}")
        path = folder.find(f"{side}.spm")
        sides.append(FolderSide(piece_model.read_model(path), path.read_bytes(), ids))
    return sides


def folder_options(config: Mapping[str, Any], where: str) -> dict[str, Any]:
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
        elif f"{name}.index.json" in folder:
            tensors = read_shards(folder, f"{name}.index.json", read)
        else:
            continue
        return {n: x.flatten() if n == BIAS else x for n, x in tensors.items()}
    raise DataError(f"{folder.path} has neither model.safetensors nor pytorch_model.bin")


def read_shards(
    folder: Folder, index: str, read: Callable[[Path], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """The tensors of several files. Raises: DataError if they are not those of the index."""
    places = folder.json(index).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) and Path(file).name == file for file in places.values()
    ):
        raise DataError(f"{folder.path}/{index}: weight_map should name a file beside it for each")
    tensors: dict[str, Tensor] = {}
    paths = {file: folder.find(file, WEIGHTS) for file in sorted(set(places.values()))}
    for file, path in paths.items():
        found = read(path)
        if other := found.keys() ^ {name for name, place in places.items() if place == file}:
            raise DataError(f"{folder.path}/{file} and {index} differ in the tensor {min(other)}")
        tensors |= found
    return tensors


def without_positions(tensors: dict[str, Tensor], where: str) -> dict[str, Tensor]:
    """The tensors without the tables of positions, which are computed here.

    Raises: DataError for a table that does not hold the sinusoids.
    """
    for name in [name for name in tensors if name.endswith(".embed_positions.weight")]:
        table = tensors.pop(name)
        usual = sinusoid(torch.arange(len(table)), table.shape[-1])
        # In float16 they are 5e-4 off.
        if table.shape != usual.shape or (table.float() - usual).abs().max() > 1e-3:
            raise DataError(f"{where}: {name} holds other positions than the sinusoids")
    return tensors


def starts_of(
    sides: Sequence[FolderSide], configs: Mapping[str, Mapping[str, Any]], where: str
) -> list[int]:
    """The ids of `<pad>` in source and target; with the latter the decoder begins.

    Args:
        sides: source and target.
        configs: config.json and those beside it, by their names.
        where: the folder, in messages.

    Raises: DataError if a configuration gives another id to one of the symbols.
    """
    config, target = configs["config.json"], sides[1].ids
    starts = []
    for side in sides:
        last = len(side.ids) - 1
        given = side.ids.get(NAMES[PAD])
        at = f"{where}/config.json"
        starts.append(number(config, "pad_token_id", at, 0, last) if given is None else given)
    expected = [("pad_token_id", NAMES[PAD], start) for start in starts]
    expected += [("decoder_start_token_id", NAMES[PAD], starts[1])]
    names = ("eos_token_id", "forced_eos_token_id")
    expected += [(name, NAMES[EOS], target[NAMES[EOS]]) for name in names]
    for file, content in configs.items():
        for name, symbol, place in expected:
            if content.get(name) not in (None, place, [place]):
                raise DataError(
                    f"{where}/{file}: {name}={brief(content[name])} should be {place}, the id of "
                    f"{symbol} in the vocabulary"
                )
    return starts
