"""Import Marian models from folders of Hugging Face; also its names for our parameters."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.base.errors import DataError
from seq2seq.base.symbols import EOS, NAMES, PAD
from seq2seq.functional.positions import sinusoid
from seq2seq.interchange import imported
from seq2seq.interchange.files import WEIGHTS, Folder, read_safetensors, read_torch_tensors
from seq2seq.interchange.imported import ImportedModel, SideVocabulary, read_integer, shorten
from seq2seq.text.tokenization import piece_model
from seq2seq.text.tokenization.directions import Codes

Configs = Mapping[str, Mapping[str, Any]]  # contents of the configuration files, by name
PARTS = {
    "attention": "self_attn",
    "cross": "encoder_attn",
    "around_attention.norm": "self_attn_layer_norm",
    "around_cross.norm": "encoder_attn_layer_norm",
    "around_feed.norm": "final_layer_norm",
    "feed.up": "fc1",
    "feed.down": "fc2",
    **{name: f"{name}_proj" for name in ("q", "k", "v", "out")},
}
BIAS = "final_logits_bias"  # the output bias
# Options that no known model of this kind uses.
ABSENT = ("normalize_before", "normalize_embedding", "add_final_layer_norm")


def huggingface_name(ours: str) -> str:
    """Hugging Face's name for a parameter of a layer or a final norm: `encoder.0.feed.up.bias` ->
    `model.encoder.layers.0.fc1.bias`.
    """
    stack, _, rest = ours.partition(".")
    if stack.endswith("_norm"):
        return f"model.{stack.removesuffix('_norm')}.layer_norm.{rest}"
    layer, _, inside = rest.partition(".")
    part, _, kind = inside.rpartition(".")
    names = [part] if part in PARTS else part.split(".")
    return ".".join(["model", stack, "layers", layer, *(PARTS[n] for n in names), kind])


def list_huggingface_names(nodes: Mapping[str, Any], ours: str) -> list[str]:
    """The names that a parameter may have in a Hugging Face folder.

    Args:
        nodes: configuration of the model.
        ours: our name for the parameter.
    """
    tie = nodes["model"]["tie"]
    part, _, kind = ours.removeprefix("embeddings.").partition(".")
    own = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
    if not ours.startswith("embeddings."):
        return [huggingface_name(ours)]
    if kind == "bias":
        return [BIAS]
    if tie == "all":
        return ["model.shared.weight", "lm_head.weight", *own.values()]
    if tie == "target" and part != "source":
        return [own["decoder"], "lm_head.weight"]
    return [{"source": own["encoder"], "target": own["decoder"], "output": "lm_head.weight"}[part]]


def read_opus_mt(folder: Folder, configs: Configs, languages: Codes) -> ImportedModel:
    """Read the folder of a Marian model.

    Args:
        languages: source and target language; None = as in the folder.

    Raises: DataError naming the file and what is wrong with it.
    """
    path, config = str(folder.path), configs["config.json"]
    where = f"{path}/config.json"
    for name in ABSENT:
        if config.get(name):
            raise DataError(f"{where}: {name}={shorten(config[name])} is not supported")
    vocabularies = with_starts(read_vocabularies(folder), configs, path)
    nodes = convert_config(config, where)
    known = configs.get("tokenizer_config.json", {})
    given = [known.get(f"{side}_lang") for side in ("source", "target")]
    sides = [str(typed or found or "") for typed, found in zip(languages, given, strict=True)]
    nodes |= read_other_nodes(configs, sides, where, 512)
    weights = without_positions(read_weights(folder), path)
    tensors = imported.Tensors(path, weights, partial(list_huggingface_names, nodes))
    return imported.assemble(nodes, vocabularies, tensors, folder.read)


def read_other_nodes(
    configs: Configs, languages: Sequence[str | None], where: str, longest: int
) -> dict[str, Any]:
    """The nodes `decode` and `data`.

    Args:
        longest: length of the longest sentence if the configuration does not say it.
    """
    config = configs["config.json"]
    longest = read_integer(config, "max_position_embeddings", where, 2, 2**20, default=longest)
    search = configs.get("generation_config.json", config)
    beams = read_integer(search, "num_beams", where, 1, 1000, default=1)
    penalty = search.get("length_penalty", 1.0)
    return imported.build_other_nodes(languages, longest, beams, penalty)


def read_vocabularies(folder: Folder) -> list[SideVocabulary]:
    """The vocabularies of source and target, whose ids are equal if they share a file."""
    names = ["vocab.json", "target_vocab.json" if "target_vocab.json" in folder else "vocab.json"]
    sides = []
    for side, name in zip(("source", "target"), names, strict=True):
        ids = imported.check_numbering(folder.json(name), f"{folder.path}/{name}")
        path = folder.find(f"{side}.spm")
        sides.append(SideVocabulary(piece_model.read_piece_model(path), path.read_bytes(), ids))
    return sides


def convert_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert a Hugging Face configuration into the nodes of ours."""
    activation = config.get("activation_function")
    if not isinstance(activation, str) or activation not in imported.ACTIVATIONS:
        raise DataError(
            f"{where}: activation_function={shorten(activation)} should be "
            f"{' or '.join(imported.ACTIVATIONS)}"
        )
    scale = config.get("scale_embedding", False)
    if not isinstance(scale, bool):
        raise DataError(f"{where}: scale_embedding={shorten(scale)} should be true or false")
    stacks = ("encoder", "decoder")
    heads = [read_integer(config, f"{s}_attention_heads", where, 1, 2**10) for s in stacks]
    widths = {read_integer(config, f"{s}_ffn_dim", where, 1, 2**20) for s in stacks}
    if len(widths) > 1:
        raise DataError(f"{where}: encoder_ffn_dim and decoder_ffn_dim differ: {widths}")
    shared = config.get("share_encoder_decoder_embeddings", True)
    tied = config.get("tie_word_embeddings", True)
    return imported.build_model_nodes(
        heads,
        dropout=config.get("dropout", 0.0),
        activation_dropout=config.get("activation_dropout", 0.0),
        attention_dropout=config.get("attention_dropout", 0.0),
        dim=read_integer(config, "d_model", where, 2, 2**16),
        encoder_layers=read_integer(config, "encoder_layers", where, 1, 128),
        decoder_layers=read_integer(config, "decoder_layers", where, 1, 128),
        ffn_dim=widths.pop(),
        activation=imported.ACTIVATIONS[activation],
        norm_order="post",
        tie="none" if not tied else "all" if shared else "target",
        scale=scale,
    )


def read_weights(folder: Folder) -> dict[str, Tensor]:
    """All tensors of the model by name, with the output bias as a vector."""
    readers = {"model.safetensors": read_safetensors, "pytorch_model.bin": read_torch_tensors}
    for name, read in readers.items():
        if name in folder or f"{name}.index.json" in folder:
            whole = name in folder
            tensors = read(folder.find(name, WEIGHTS)) if whole else read_shards(folder, name, read)
            return {n: x.flatten() if n == BIAS else x for n, x in tensors.items()}
    raise DataError(
        f"{folder.path} has neither model.safetensors nor pytorch_model.bin, nor the index of "
        "several such files"
    )


def read_shards(
    folder: Folder, name: str, read: Callable[[Path], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """The tensors of weights that are split into several files.

    Args:
        name: name of the whole file; an index lists the file of each tensor.
        read: function that reads one of the files.

    Raises: DataError if a file is missing or outside the folder, or does not hold what is listed.
    """
    index = f"{name}.index.json"
    listed, where = folder.json(index).get("weight_map"), folder.path / index
    if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
        raise DataError(f"{where} should hold the file of each tensor in a weight_map")
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(listed.values())):
        if file != Path(file).name:
            raise DataError(f"{where} lists {shorten(file)}: expected files in the same folder")
        own = {tensor for tensor in listed if listed[tensor] == file}
        found = read(folder.find(file, WEIGHTS))
        if differing := sorted(own ^ {*found}):
            raise DataError(f"{where} and {file} disagree on which file has {differing[0]:.80}")
        tensors |= found
    return tensors


def without_positions(
    tensors: dict[str, Tensor], where: str, pad: int | None = None
) -> dict[str, Tensor]:
    """Remove the tables of positions, which this program computes itself.

    Args:
        pad: row of zeros in a table whose longest wavelength is exactly 2 pi * 10,000; None = the
            usual wavelengths, and no such row.

    Raises: DataError if a table does not hold the usual sinusoids.
    """
    for name in [name for name in tensors if ".embed_positions.weight" in name]:
        table = tensors.pop(name)
        usual = sinusoid(torch.arange(len(table)), table.shape[-1], pad is not None)
        if pad is not None:
            usual[pad] = 0
        # In float16 the error is up to 5e-4.
        if table.shape != usual.shape or (table.float() - usual).abs().max() > 1e-3:
            raise DataError(f"{where}: the positions in {name} should be the usual sinusoids")
    return tensors


def with_starts(
    sides: Sequence[SideVocabulary], configs: Configs, where: str
) -> list[SideVocabulary]:
    """The vocabularies of source and target with `<pad>` as their start.

    Args:
        sides: vocabularies of source and target.
        where: folder, for messages.

    Raises: DataError if a configuration file and the vocabulary disagree on the id of a symbol.
    """
    config, target = configs["config.json"], sides[1].ids
    starts = []
    for side in sides:
        last = len(side.ids) - 1
        given = side.ids.get(NAMES[PAD])
        at = f"{where}/config.json"
        starts.append(read_integer(config, "pad_token_id", at, 0, last) if given is None else given)
    expected = [("pad_token_id", NAMES[PAD], start) for start in starts]
    expected += [("decoder_start_token_id", NAMES[PAD], starts[1])]
    names = ("eos_token_id", "forced_eos_token_id")
    expected += [(name, NAMES[EOS], target[NAMES[EOS]]) for name in names]
    check_ids(configs, expected, where)
    return [side._replace(start=start) for side, start in zip(sides, starts, strict=True)]


def check_ids(configs: Configs, expected: Sequence[tuple[str, str, int]], where: str) -> None:
    """Check the ids of symbols in configuration files.

    Args:
        expected: an option, a symbol and its id in the vocabulary, for each id to check.

    Raises: DataError if a configuration file gives another id.
    """
    for file, content in configs.items():
        for name, symbol, place in expected:
            if content.get(name) not in (None, place, [place]):
                raise DataError(
                    f"{where}/{file}: {name}={shorten(content[name])} should be {place}, the id of "
                    f"{symbol} in the vocabulary"
                )
