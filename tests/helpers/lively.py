"""Models whose outputs differ."""

from pathlib import Path

import torch

from helpers.tiny_runs import TINY_MODEL, save_model
from seq2seq import checkpoint
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.interchange.ctranslate2 import NEVER


def lively_model(path: Path, *overrides: str) -> checkpoint.Saved:
    """A checkpoint in which every weight counts: biases, norms and positions are not those of the
    start, and pad, bos and unk are so improbable that leaving them out changes no score.
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
