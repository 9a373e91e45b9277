"""Models to exchange with other programs, written here with random weights."""

import json
import random
from pathlib import Path
from typing import Any

import torch

from helpers.piece_models import model_bytes
from helpers.tiny_runs import TINY_MODEL, save_model
from seq2seq import checkpoint
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.interchange.ctranslate2 import NEVER

LETTERS = "abcdefghijklmnop"
# Of small models of transformers.
SIZES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}


def pieces_of(seed: int, count: int) -> dict[str, float]:
    """Random pieces with scores, among them every letter and the mark of a word."""
    chance = random.Random(seed)
    texts = ["\u2581", *LETTERS]
    while len(texts) < count:
        text = "".join(chance.choices(LETTERS, k=chance.randint(2, 4)))
        texts.append(chance.choice(["", "\u2581"]) + text)
        texts = list(dict.fromkeys(texts))
    return {text: float(-chance.uniform(2, 12)) for text in texts}


def texts_of(seed: int, count: int) -> list[str]:
    """Random texts of one to nine words."""
    chance = random.Random(seed)

    def word() -> str:
        return "".join(chance.choices(LETTERS, k=chance.randint(1, 8)))

    return [" ".join(word() for _ in range(chance.randint(1, 9))) for _ in range(count)]


def marian_folder(folder: Path, separate: bool = False, seed: int = 0, **changes: Any) -> Any:
    """Write the folder of a MarianMTModel with random weights, in evaluation mode."""
    import transformers

    sides = [pieces_of(seed, 60), pieces_of(seed + 1, 70)]
    folder.mkdir(parents=True, exist_ok=True)
    for side, pieces in zip(("source", "target"), sides, strict=True):
        (folder / f"{side}.spm").write_bytes(model_bytes(pieces))
    union = list(dict.fromkeys([*sides[0], *sides[1]]))
    random.Random(seed).shuffle(union)
    vocabularies = sides if separate else [union]
    names = ["vocab.json", "target_vocab.json"][: len(vocabularies)]
    sizes = []
    for name, vocabulary in zip(names, vocabularies, strict=True):
        listed = ["</s>", "<unk>", *vocabulary, "<pad>"]
        if separate:  # their ids of pad are equal
            listed = ["</s>", "<unk>", "<pad>", *vocabulary]
        ids = {piece: i for i, piece in enumerate(listed)}
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
        sizes.append(len(listed))
    pad = 2 if separate else sizes[0] - 1
    torch.manual_seed(seed)
    options = {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[-1],
        **SIZES,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 128,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
        "share_encoder_decoder_embeddings": not separate,
        **changes,
    }
    model = transformers.MarianMTModel(transformers.MarianConfig(**options)).eval()
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if "embed_positions" not in name:
                value.normal_(0, 0.3 if "embed" in name or "shared" in name else 0.2)
                if "norm" in name and name.endswith("weight"):
                    value.add_(1.0)
        # Some sentences end.
        model.final_logits_bias[0, 0] = 2.5 if options["scale_embedding"] else 1.5
    model.generation_config = transformers.GenerationConfig(
        num_beams=4,
        max_length=128,
        bad_words_ids=[[pad]],
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
    )
    model.save_pretrained(folder)
    return model


def random_checkpoint(path: Path, *overrides: str) -> checkpoint.Saved:
    """A checkpoint of random weights, also in biases, norms and positions, so that each of them
    matters. The symbols pad, bos and unk are so improbable that leaving them out changes no score.
    """
    torch.manual_seed(1)
    save_model(path, *TINY_MODEL, "model.tie=none", *overrides)
    content = torch.load(path, weights_only=True)
    weights = content["state_dict"]
    for name, value in weights.items():
        value.mul_(1.5)
        if any(part in name for part in ("bias", "norm", "position")):
            value.add_(0.3 * torch.randn(value.shape))
    bias = weights["model.embeddings.output.bias"]
    bias[[PAD, BOS, UNK]] = NEVER
    bias[EOS] = 3.0
    torch.save(content, path)
    return checkpoint.read(path)
