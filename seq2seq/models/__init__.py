"""The models, and functions that build one from plain values."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention import Role
from seq2seq.attention.base import Encoded as Encoded
from seq2seq.base.registry import Table, check_options, options_of
from seq2seq.models.base import Decoded as Decoded
from seq2seq.models.base import Memories as Memories
from seq2seq.models.base import PassOptions as PassOptions
from seq2seq.models.base import Seq2Seq as Seq2Seq
from seq2seq.models.ensemble import Ensemble as Ensemble
from seq2seq.models.layers.embedding import Embeddings
from seq2seq.models.layers.positions import POSITIONS, Positions
from seq2seq.models.rnn import RNN, LuongRNN
from seq2seq.models.state import DecodeState as DecodeState
from seq2seq.models.transformer import Transformer

MODELS: Table[Any] = Table("model", {"transformer": Transformer, "rnn": RNN, "rnn_luong": LuongRNN})

# Keys of conf/model that no model reads: they are there for the presets of conf/attn.
FOR_ATTENTION = ("num_heads", "project_scores", "attention_dropout")


def build_model(
    config: Mapping[str, Any],
    source_size: int,
    target_size: int,
    group_marks: Tensor | None = None,
    unpositioned: Tensor | None = None,
) -> Seq2Seq:
    """Build a model with fresh parameters.

    Args:
        config: plain values: `model` and `position`, which are nodes of conf/, and `attention`,
            which maps each role of the model to the options of its mechanism.
        source_size, target_size: numbers of pieces in the two vocabularies.
        group_marks: group marks of the source pieces, see `data.groups`.
        unpositioned: (V,) bool, True for source pieces that `model.unpositioned` names.

    Raises: ConfigError if anything cannot work; the message says what to type.
    """
    options = {k: v for k, v in config["model"].items() if k not in FOR_ATTENTION}
    model_class = MODELS.find(options.pop("name"))
    parts: dict[type[Any], dict[str, Any]] = {}
    for part in (Embeddings, *model_class.option_classes):
        parts[part] = {key: options.pop(key) for key in options_of(part) if key in options}
        check_options(part, parts[part], "model")
    check_options(model_class, options, "model")
    scheme = POSITIONS.configure(config["position"], "position")
    embeddings = Embeddings(source_size, target_size, **parts.pop(Embeddings))
    attention = {Role(role): chosen for role, chosen in config["attention"].items()}
    positions = Positions(*(scheme(causal, embeddings.dim) for causal in (False, True)))
    built = [part(**kwargs) for part, kwargs in parts.items()]
    model: Seq2Seq = model_class(embeddings, attention, positions, *built, **options)
    model.group_marks, model.unpositioned = group_marks, unpositioned
    return model


def check_model(config: Mapping[str, Any]) -> Seq2Seq:
    """Build the model on the meta device, to find every mistake before any data is read.

    Returns: the model, with shapes but without values.
    Raises: ConfigError if anything cannot work, like `build_model`.
    """
    with torch.device("meta"):
        return build_model(config, source_size=4, target_size=4)
