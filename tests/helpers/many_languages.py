"""A model of several languages with random weights."""

from pathlib import Path
from typing import Any

import torch

from helpers.tiny_runs import TINY_MODEL, plan_of, tokenizer
from seq2seq import checkpoint
from seq2seq.base.symbols import EOS
from seq2seq.models import Seq2Seq, build_model
from seq2seq.text.tokenization.tokenizer import SEPARATOR

LANGUAGES = ("deu_Latn", "eng_Latn", "zho_Hans", "fra_Latn")


def save_languages(path: Path, tags: str = "both", **data: Any) -> Seq2Seq:
    """Write a checkpoint of an untrained model of `LANGUAGES`, and return the model.

    Args:
        tags: `data.language_tags`.
        data: other options of the data, such as `source`, the default.
    """
    torch.manual_seed(2)
    pieces = tokenizer().with_tags([*LANGUAGES, *([SEPARATOR] if data.get("context") else [])])
    config = plan_of(path, "run_name=tiny", *TINY_MODEL).model
    model = build_model(config, pieces.size, pieces.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.embeddings.output.bias[EOS] = 2.0
    described = {"source": None, "target": None, "max_length": 128, "languages": list(LANGUAGES)}
    entry = checkpoint.make_entry(
        {
            **config,
            "decode": {"name": "greedy", "length_ratio": 1.0, "length_extra": 5},
            "data": {**described, "language_tags": tags, **data},
        },
        pieces,
        pieces,
    )
    state = {f"{checkpoint.PREFIX}{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": state, checkpoint.ENTRY: entry}, path)
    return model
