"""Models that Marian wrote as `.npz`: NumPy arrays, and a description in YAML among them.

With a recurrent unit in the decoder (SSRU) they are the family that Firefox translates with.
Junczys-Dowmunt et al. 2018, arXiv:1804.00344.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.existing import sentencepiece
from seq2seq.errors import DataError
from seq2seq.interchange import imported
from seq2seq.interchange.files import TEXT, WEIGHTS, Folder, npz_arrays
from seq2seq.interchange.imported import NEVER, Imported, Rows, Tensors, brief, number, other_nodes
from seq2seq.symbols import EOS, NAMES

DESCRIPTION = "special:model.yml"
SMALL = 2**16  # bytes of a description; usual ones have 5,000
EPS = 1e-6  # of its norms
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
# Options of which only these values are supported; the first is what is meant without the option.
ONLY: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-activation": ("swish", "relu"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-train-positions": (False,),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "layer-normalization": (False,),
    "lemma-dim-emb": (0,),
}
# What is around a sub-layer: the options preprocess, postprocess and postprocess-top.
ORDERS = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
OUTPUT = "decoder_ff_logit_out"
SUBLAYERS = {"attention": "self", "cross": "context", "feed": "ffn"}


def read_model(
    path: Path, vocabularies: Sequence[Path], languages: tuple[str | None, str | None]
) -> Imported:
    """Read a `.npz` and its SentencePiece vocabularies, one for both sides or one for each.

    Raises: DataError naming what is wrong, or not supported.
    """
    if len(vocabularies) > 2:
        raise DataError(f"{len(vocabularies)} vocabularies: expected one, or source and target")
    folder = Folder(path.parent)
    arrays = npz_arrays(folder.find(path.name, WEIGHTS))
    config = description(arrays, f"{path}: {DESCRIPTION}")
    nodes = describe(config, f"{path}: {DESCRIPTION}")
    files = dict(folder.read)
    rows, tokenizers, contents = [], [], []
    for file in vocabularies:
        beside = Folder(file.parent)
        contents.append(beside.find(file.name, TEXT).read_bytes())
        files |= beside.read
        model = sentencepiece.read(file)
        rows.append(rows_of(model, str(file)))
        tokenizers.append(sentencepiece.build(model, rows[-1].names))
    tensors, sides = Tensors(str(path), turned(arrays)), [rows[0], rows[-1]]
    return Imported(
        nodes | other_nodes(languages, max_length=512, beams=5),
        tokenizers[0],
        tokenizers[-1],
        dict(imported.our_weights(nodes, sides, tensors, partial(their_names, nodes))),
        files,
        [contents[0], contents[-1]],
    )


def description(arrays: Mapping[str, np.ndarray], where: str) -> dict[str, Any]:
    """The options of the training. Raises: DataError for anything but plain values."""
    import yaml  # type: ignore[import-untyped]

    if DESCRIPTION not in arrays or arrays[DESCRIPTION].nbytes > SMALL:
        raise DataError(f"{where} is missing, or too large: the file was not written by Marian")
    try:
        content = yaml.safe_load(arrays[DESCRIPTION].tobytes().rstrip(b"\0").decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{where} is not plain YAML: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{where} should hold options, not a {type(content).__name__}")
    return content


def describe(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Their options as ours. Raises: DataError naming every one that is not supported."""
    wrong = [
        f"{name}={brief(config[name])} should be {' or '.join(map(repr, known))}"
        for name, known in ONLY.items()
        if config.get(name, known[0]) not in known
    ]
    names = [f"transformer-{name}" for name in ("preprocess", "postprocess", "postprocess-top")]
    given = (config.get(n, d) for n, d in zip(names, ("", "dan", ""), strict=True))
    around = [each if isinstance(each, str) else "?" for each in given]
    before, after, top = (each.replace("d", "") for each in around)  # dropout is of training
    order = ORDERS.get((before, after, top))
    if order is None:
        wrong.append(f"{', '.join(names)} are {around}; expected '', 'dan', '' or 'n', 'da', 'n'")
    if is_recurrent(config) and config.get("dec-cell") != "ssru":
        wrong.append(f"dec-cell={brief(config.get('dec-cell'))} should be 'ssru'")
    if wrong:
        raise DataError(f"{where}: not supported: {'; '.join(wrong)}")
    everywhere = config.get("tied-embeddings-all")
    nodes = imported.model_nodes(
        [number(config, "transformer-heads", where, 1, 2**10, default=8)] * 2,
        dim=number(config, "dim-emb", where, 4, 2**16, default=512),
        encoder_layers=number(config, "enc-depth", where, 1, 128),
        decoder_layers=number(config, "dec-depth", where, 1, 128),
        ffn_dim=number(config, "transformer-dim-ffn", where, 1, 2**20, default=2048),
        activation=ACTIVATIONS[config.get("transformer-ffn-activation", "swish")],
        norm_order=order,
        norm_eps=EPS,
        tie="all" if everywhere else "target" if config.get("tied-embeddings") else "none",
        scale=True,
        dropout=0.1,
        activation_dropout=None,
        endpoint=True,
    )
    if is_recurrent(config):
        nodes["attention"]["decoder"] = {"name": "ssru"}
    return nodes


def is_recurrent(config: Mapping[str, Any]) -> bool:
    return bool(config.get("transformer-decoder-autoreg") == "rnn")


def rows_of(model: sentencepiece.PieceModel, where: str) -> Rows:
    """Their ids of ours. They have neither pad nor a start symbol: the decoder begins with zeros,
    which stand behind their last row.
    """
    names = [piece.text for piece in model.pieces]
    kinds = [piece.kind for piece in model.pieces]
    if NAMES[EOS] not in names or sentencepiece.UNKNOWN not in kinds:
        raise DataError(f"{where} has no {NAMES[EOS]} or no unknown symbol, which Marian needs")
    eos, unk = names.index(NAMES[EOS]), kinds.index(sentencepiece.UNKNOWN)
    rest = [i for i in range(len(names)) if i not in (eos, unk)]
    return Rows([len(names), len(names), eos, unk, *rest], [names[i] for i in rest], 0)


def their_names(nodes: Mapping[str, Any], ours: str) -> list[str]:
    """The names that a parameter may have: `decoder.0.cross.q.weight` ->
    `decoder_l1_context_Wq`.
    """
    stack, _, rest = ours.partition(".")
    pre = nodes["model"]["norm_order"] == "pre"
    recurrent = nodes["attention"]["decoder"]["name"] == "ssru"
    kind = rest.rpartition(".")[2]
    norm = f"_ln_{'scale' if kind == 'weight' else 'bias'}"
    if stack.endswith("_norm"):
        return [f"{stack.removesuffix('_norm')}_top{norm}"]
    if rest.startswith("output") and (kind == "bias" or nodes["model"]["tie"] == "none"):
        return [f"{OUTPUT}_{name}" for name in (("b",) if kind == "bias" else ("W", "Wt"))]
    if stack == "embeddings":
        return [f"{'encoder' if rest.startswith('source') else 'decoder'}_Wemb", "Wemb"]
    layer, part, *inside = rest.split(".")
    part_of = part.removeprefix("around_")
    rnn = recurrent and stack == "decoder" and part_of == "attention"
    at = f"{stack}_l{int(layer) + 1}_{'rnn' if rnn else SUBLAYERS[part_of]}"
    if part.startswith("around_"):
        before = "" if rnn and pre else "_ffn" if rnn or part_of == "feed" else "_Wo"
        return [f"{at}{before}{norm}{'_pre' if pre else ''}"]
    map_name = {"up": "1", "down": "2", "out": "o", "x": "", "gate": "f"}
    return [f"{at}_{'W' if kind == 'weight' else 'b'}{map_name.get(inside[0], inside[0])}"]


def turned(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The weights as we have them: maps from inputs to outputs, vectors of one dimension, and in
    matrices over a vocabulary one more row, of zeros, with which the decoder begins.
    """
    weights = {}
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.ndim == 2:
            is_map = re.search(r"_W[qkvof12]?$", name)
            ours = array.T if is_map else array[0] if len(array) == 1 else array
            if name.endswith("Wemb") or name.startswith(OUTPUT):
                last = np.full_like(ours[:1], NEVER if name == f"{OUTPUT}_b" else 0)
                ours = np.concatenate((ours, last))
            weights[name] = torch.from_numpy(ours.astype(np.float32))
    return weights
