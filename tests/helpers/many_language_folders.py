"""Folders of NLLB and M2M-100 with random weights, written by transformers."""

import json
import random
from pathlib import Path
from typing import Any

import torch

from helpers.interchange_models import SIZES, texts_of

LANGUAGES = ["eng_Latn", "deu_Latn", "zho_Hans", "fra_Latn"]


def train_pieces(folder: Path, kind: str, size: int = 160) -> Path:
    """A SentencePiece model trained on random words. Returns: its file."""
    import sentencepiece

    (folder / "text.txt").write_text("\n".join(texts_of(5, 2000)), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / kind),
        vocab_size=size,
        model_type=kind,
        minloglevel=2,
    )
    return folder / f"{kind}.model"


def nllb_tokenizer(folder: Path) -> Any:
    """Write a tokenizer in the form of NLLB, and return it."""
    import transformers

    raw = folder / "raw"
    raw.mkdir(parents=True)
    train_pieces(raw, "bpe").rename(raw / "sentencepiece.bpe.model")
    described = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": LANGUAGES}
    (raw / "tokenizer_config.json").write_text(json.dumps(described))
    tokenizer = transformers.NllbTokenizer.from_pretrained(raw)
    tokenizer.save_pretrained(folder)
    return tokenizer


def m2m_tokenizer(folder: Path, kind: str = "unigram") -> Any:
    """Write a tokenizer in the form of M2M-100, and return it. Its ids are not those of
    SentencePiece, and it lacks one of the pieces.
    """
    import sentencepiece
    import transformers

    raw = folder / "raw"
    raw.mkdir(parents=True)
    model = train_pieces(raw, kind)
    judge = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pieces = [judge.id_to_piece(i) for i in range(3, judge.get_piece_size())]
    random.Random(1).shuffle(pieces)
    ids = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces[1:]])}
    (raw / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    tokenizer = transformers.M2M100Tokenizer(str(raw / "vocab.json"), str(model))
    tokenizer.save_pretrained(folder)
    return tokenizer


def write_model(folder: Path, named: int, spare: int = 3, seed: int = 0, **changes: Any) -> Any:
    """Write a random model, and return it in evaluation mode.

    Args:
        named: number of pieces and symbols of the tokenizer.
        spare: further rows of the matrices.
        changes: options of `M2M100Config`, and `max_shard_size` or `dtype`.
    """
    import transformers

    saved = {name: changes.pop(name) for name in ("max_shard_size",) if name in changes}
    dtype = changes.pop("dtype", torch.float32)
    options = {
        "vocab_size": named + spare,
        **SIZES,
        "max_position_embeddings": 128,
        **changes,
    }
    torch.manual_seed(seed)
    config = transformers.M2M100Config(**options)
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(0, 0.15 if "shared" in name else 0.4)
            if "norm" in name and name.endswith("weight"):
                value.add_(1.0)
        # Most sentences end, and what no text contains is improbable.
        shared = model.model.shared.weight
        shared[[0, 1, 3]] *= 0.05
        shared[2] *= 0.6
        model.model.decoder.layer_norm.bias.copy_(4 * shared[2] / shared[2].norm())
    model.to(dtype).save_pretrained(folder, **saved)
    return model.to(torch.float32)


def nllb_folder(folder: Path, **changes: Any) -> tuple[Any, Any]:
    """Write an NLLB model. Returns: the model and its tokenizer, of transformers."""
    tokenizer = nllb_tokenizer(folder)
    return write_model(folder, len(tokenizer), **changes), tokenizer


def m2m_folder(folder: Path, **changes: Any) -> tuple[Any, Any]:
    """Write an M2M-100 model. Returns: the model and its tokenizer, of transformers."""
    tokenizer = m2m_tokenizer(folder, changes.pop("kind", "unigram"))
    return write_model(folder, tokenizer.vocab_size + 100, **changes), tokenizer
