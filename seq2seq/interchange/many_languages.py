"""Import models of many languages from folders of Hugging Face: M2M-100 and NLLB.

Fan et al. 2020, arXiv:2010.11125; NLLB Team 2022, arXiv:2207.04672.

The symbol of the source language precedes a source, and that of the target language is the first
token of a translation, after `</s>`. Sinusoids begin at position 2. Rows of the matrices that no
piece has, and symbols that are not languages, become control symbols: they keep their share of the
probability, and no text contains them.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from seq2seq.base.errors import DataError
from seq2seq.base.symbols import BOS, EOS, NAMES, PAD
from seq2seq.interchange import huggingface, imported
from seq2seq.interchange.files import Folder
from seq2seq.interchange.huggingface import Configs
from seq2seq.interchange.imported import ImportedModel, SideVocabulary, read_integer, shorten
from seq2seq.text.tokenization import piece_model
from seq2seq.text.tokenization.directions import Codes, Directions
from seq2seq.text.tokenization.piece_model import BPE, NORMAL, Piece, PieceModel
from seq2seq.text.tokenization.tokenizer import TAG, Tokenizers

MODEL, VOCAB, LIBRARY = "sentencepiece.bpe.model", "vocab.json", "tokenizer.json"
CONFIG, TOKENIZATION = "config.json", "tokenizer_config.json"
POSITION = {"name": "sinusoidal", "endpoint": True, "offset": 2}
# The languages of M2M-100 and of its models for WMT 2021, in the order of their ids.
CODES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga "
    "gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
LANGUAGE = re.compile("[a-z]{2,3}_[A-Z][a-z]{3}")  # in NLLB
KINDS = {"BPE", "Metaspace", "Precompiled", "Replace", "Strip"}  # parts of tokenizers


def read_many_languages(folder: Folder, configs: Configs, languages: Codes) -> ImportedModel:
    """Read the folder of a model of many languages.

    Args:
        languages: default source and target language; None = no default.

    Raises: DataError naming the file and what is wrong with it; ConfigError for a language that the
        model does not know.
    """
    path, config = str(folder.path), configs[CONFIG]
    where, described = f"{path}/{CONFIG}", configs.get(TOKENIZATION, {})
    wrong = {"legacy_behaviour": (described, False), "tie_word_embeddings": (config, True)}
    for name, (content, right) in wrong.items():
        if content.get(name, right) is not right:
            raise DataError(f"{path}: {name}={shorten(content[name])} should be {right}")
    nodes = huggingface.convert_config({"scale_embedding": True, **config}, where)
    nodes["model"]["norm_order"], nodes["position"] = "pre", dict(POSITION)
    side, codes = read_m2m100(folder, described) if VOCAB in folder else read_nllb(folder)
    if NAMES[PAD] not in side.ids or not codes:
        raise DataError(f"{path}: the vocabulary should have {NAMES[PAD]} and symbols of languages")
    tensors = huggingface.read_weights(folder)
    size = read_integer(config, "vocab_size", where, len(side.ids), 2**24)
    if size not in {len(each) for each in tensors.values() if each.dim()}:
        raise DataError(f"{where}: vocab_size={size}, but the weights lack a matrix of {size} rows")
    unnamed = {TAG.format(f"row {i}"): i for i in range(len(side.ids), size)}
    tags = {NAMES[BOS]: TAG.format(NAMES[BOS]), **dict(zip(unnamed, unnamed, strict=True))}
    pad, end = (side.ids[NAMES[symbol]] for symbol in (PAD, EOS))
    ids, tags = {**side.ids, **unnamed}, {**(side.tags or {}), **tags}
    side = side._replace(ids=ids, tags=tags, start=end, pad=pad)
    starts = ("decoder_start_token_id", "eos_token_id", "forced_eos_token_id")
    expected = [("pad_token_id", NAMES[PAD], pad), *((name, NAMES[EOS], end) for name in starts)]
    huggingface.check_ids(configs, expected, path)
    tensors = huggingface.without_positions(tensors, path, pad)
    tensors[huggingface.BIAS] = torch.zeros(size)  # as transformers, which reads none
    nodes |= huggingface.read_other_nodes(configs, languages, where, 1024)
    names = partial(huggingface.list_huggingface_names, nodes)
    named = imported.Tensors(path, tensors, names)
    model = imported.assemble(nodes, [side, side], named, folder.read)
    data = {"languages": codes, "language_tags": "both"}
    tokenizers = Tokenizers(model.saved.source, model.saved.target)
    known = Directions(data, tokenizers, languages=languages)
    model.saved.config["data"] |= data | known.defaults
    return model._replace(piece_models=[each for each in model.piece_models if each])


def read_m2m100(folder: Folder, described: Mapping[str, Any]) -> tuple[SideVocabulary, list[str]]:
    """The vocabulary of M2M-100, and its languages: SentencePiece, with ids by the name of a piece,
    and after them those of the languages.

    Args:
        described: content of tokenizer_config.json.
    """
    kind = described.get("language_codes", "m2m100")
    if not isinstance(kind, str) or kind not in CODES:
        options = " or ".join(CODES)
        raise DataError(f"{folder.path}: language_codes={shorten(kind)} should be {options}")
    where, path, codes = f"{folder.path}/{VOCAB}", folder.find(MODEL), CODES[kind].split()
    ids = dict(imported.check_numbering(folder.json(VOCAB), where))
    tags = {f"__{code}__": TAG.format(code) for code in codes}
    if known := [name for name in tags if name in ids]:
        raise DataError(f"{where} has {known[0]}: the ids of languages should follow its pieces")
    ids |= {name: i for i, name in enumerate(tags, start=len(ids))}
    return SideVocabulary(piece_model.read_piece_model(path), path.read_bytes(), ids, tags), codes


def read_nllb(folder: Folder) -> tuple[SideVocabulary, list[str]]:
    """The vocabulary of NLLB in tokenizer.json, and its languages."""
    if LIBRARY not in folder:
        raise DataError(
            f"{folder.path / LIBRARY} is missing. To write it: "
            f"AutoTokenizer.from_pretrained({str(folder.path)!r}).save_pretrained(...)"
        )
    content, where = folder.json(LIBRARY), str(folder.path / LIBRARY)
    try:
        model = content["model"]
        symbols = {str(each["content"]): each["id"] for each in content["added_tokens"]}
        normal = content["normalizer"] or {}
        steps = {each["type"]: each for each in normal.get("normalizers", [normal]) if each}
        charsmap = b64decode(steps.get("Precompiled", {}).get("precompiled_charsmap", ""))
        kinds = {model["type"], content["pre_tokenizer"]["type"], *steps}
        split = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
        merges = [(first, second) for first, second in split]
        pieces = [Piece(name, 0.0, NORMAL) for name in model["vocab"] if name not in symbols]
        ids = dict(imported.check_numbering({**model["vocab"], **symbols}, where))
        known = {piece.text for piece in pieces}
        lacking = [pair for pair in merges if not {*pair, "".join(pair)} <= known]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{where} does not describe a tokenizer: {error!r:.200}") from error
    if lacking or not {"BPE", "Metaspace"} <= kinds <= KINDS or model.get("byte_fallback"):
        parts = f"merges pieces that it lacks: {lacking[0]}" if lacking else f"has {sorted(kinds)}"
        raise DataError(f"{where} {parts}: expected a tokenizer of NLLB, BPE with Metaspace")
    found = PieceModel(pieces, BPE, charsmap, prefix=True, collapse="Replace" in steps)
    piece_model.check_symbols(found)
    codes = [name for name in symbols if LANGUAGE.fullmatch(name)]
    tags = {name: TAG.format(name) for name in symbols if name not in NAMES}
    return SideVocabulary(found, b"", ids, tags, merges), codes
