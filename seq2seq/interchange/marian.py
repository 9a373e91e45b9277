"""Import models of Marian (`.npz` or `.bin`): named arrays, one of which is a description in YAML.

Models with a recurrent unit in the decoder (SSRU) are the kind that Firefox translates with.
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

from seq2seq.base.errors import DataError
from seq2seq.base.symbols import NAMES, UNK
from seq2seq.interchange import imported
from seq2seq.interchange.files import WEIGHTS, Folder, read_npz
from seq2seq.interchange.imported import NEVER, ImportedModel, SideVocabulary
from seq2seq.interchange.marian_binary import INPUT_MULTIPLIER, is_binary, read_binary
from seq2seq.interchange.marian_options import convert_options
from seq2seq.text.tokenization import piece_model
from seq2seq.text.tokenization.directions import Codes

DESCRIPTION = "special:model.yml"
SMALL = 2**16  # maximum size of a description in bytes; usual ones have 5,000
OUTPUT = "decoder_ff_logit_out"
SUBLAYERS = {"attention": "self", "cross": "context", "feed": "ffn"}


def read_marian(path: Path, vocabularies: Sequence[Path], languages: Codes) -> ImportedModel:
    """Read a model and its vocabularies.

    Args:
        vocabularies: one SentencePiece model for both sides or one for each; if the pieces are
            numbered in other files (OPUS-MT), also one or two `vocab.yml`.
        languages: source and target language; None if unknown.

    Raises: DataError naming everything that is wrong or not supported.
    """
    folder = Folder(path.parent)
    where = f"{path}: {DESCRIPTION}"
    file = folder.find(path.name, WEIGHTS)
    arrays = read_binary(file) if is_binary(file) else read_npz(file)
    sides, files = read_marian_vocabularies(vocabularies)
    config = {k: v for k, v in read_description(arrays, where).items() if v is not None}
    sizes = [len(side.ids) for side in sides]
    nodes = convert_options(config, sizes, languages, where)
    # Marian has neither a pad nor a start symbol: the decoder begins with zeros, which
    # `convert_weights` adds after the last row.
    weights = convert_weights(arrays, path)
    tensors = imported.Tensors(str(path), weights, partial(candidate_names, nodes))
    return imported.assemble(nodes, sides, tensors, folder.read | files)


def read_marian_vocabularies(paths: Sequence[Path]) -> tuple[list[SideVocabulary], dict[str, str]]:
    """The vocabularies of source and target, the same object twice if they share one; and the
    SHA-256 of each file.
    """
    numbered = [path for path in paths if path.suffix in (".yml", ".yaml")]
    pieces = [path for path in paths if path not in numbered]
    if len(pieces) not in (1, 2) or len(numbered) not in (0, 1, len(pieces)):
        raise DataError(
            f"{len(pieces)} SentencePiece models and {len(numbered)} YAML files: expected one or "
            "two models, and at most as many YAML files: --vocab source.spm target.spm vocab.yml"
        )
    files: dict[str, str] = {}
    sides = []
    for place, path in enumerate(pieces):
        data = Folder(path.parent, files).find(path.name).read_bytes()
        model = piece_model.read_piece_model(path)
        # A piece's index is its id, unless a file gives it another.
        names = [
            NAMES[UNK] if kind == piece_model.UNKNOWN else text for text, _, kind in model.pieces
        ]
        ids = imported.check_numbering({name: i for i, name in enumerate(names)}, str(path))
        if numbered:
            beside = numbered[min(place, len(numbered) - 1)]
            ids = imported.read_yaml_ids(Folder(beside.parent, files), beside.name)
        sides.append(SideVocabulary(model, data, ids))
    return [sides[0], sides[-1]], files


def read_description(arrays: Mapping[str, np.ndarray], where: str) -> dict[str, Any]:
    """The options that the model was trained with.

    Raises: DataError if the description is missing or contains more than plain values.
    """
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


def candidate_names(nodes: Mapping[str, Any], ours: str) -> list[str]:
    """The names that a parameter may have in Marian: `decoder.0.cross.q.weight` ->
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
    if stack == "embeddings" and nodes["model"]["tie"] == "all":
        return ["Wemb"]
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


def convert_weights(arrays: Mapping[str, np.ndarray], path: Path) -> dict[str, Tensor]:
    """Convert the arrays into our shapes: linear maps are transposed, and vectors get a single
    dimension. Tables over a vocabulary get one more row, of zeros, with which the decoder begins.

    Raises: DataError if an array is not a matrix of floats.
    """
    weights = {}
    for name, array in arrays.items():
        if name == DESCRIPTION or name.endswith(INPUT_MULTIPLIER):
            continue
        if array.dtype.kind != "f" or array.ndim != 2:
            raise DataError(
                f"{path}: {name} is {array.shape} of {array.dtype}, not a matrix of floats: take "
                "the model as it was trained, before it was quantised or packed"
            )
        is_map = re.search(r"_W[qkvof12]?$", name)
        ours = array.T if is_map else array[0] if len(array) == 1 else array
        if name.endswith("Wemb") or name.startswith(OUTPUT):
            last = np.full_like(ours[:1], NEVER if name == f"{OUTPUT}_b" else 0)
            ours = np.concatenate((ours, last))
        weights[name] = torch.from_numpy(ours.astype(np.float32))
    return weights
