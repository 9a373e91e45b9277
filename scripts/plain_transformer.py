"""Two Transformers of equal sizes to compare: a tutorial's, with torch.nn.Transformer, and ours."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.base.symbols import PAD
from seq2seq.functional.positions import sinusoid
from seq2seq.models import Seq2Seq, build_model


class ModelSize(NamedTuple):
    """The widths, number of layers per stack, and number of heads of a Transformer."""

    dim: int
    ffn: int
    layers: int
    heads: int
    dropout: float = 0.1


class Plain(nn.Module):
    """A model as in a tutorial: embeddings, sinusoids, torch.nn.Transformer, output projection."""

    def __init__(self, size: ModelSize, vocabulary: int):
        super().__init__()
        dim, ffn, layers, heads, dropout = size
        self.source, self.target = nn.Embedding(vocabulary, dim), nn.Embedding(vocabulary, dim)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            dim, heads, layers, layers, ffn, dropout, batch_first=True, norm_first=True
        )
        self.output = nn.Linear(dim, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding, length = source == PAD, target.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=source.device)
        hidden = self.transformer(
            self._embed(self.source, source),
            self._embed(self.target, target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        scores: Tensor = self.output(hidden)
        return scores

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        dim = embedding.embedding_dim
        positions = sinusoid(torch.arange(ids.shape[1], device=ids.device), dim)
        embedded: Tensor = self.dropout(embedding(ids) * math.sqrt(dim) + positions)
        return embedded


def our_config(size: ModelSize, tie: str = "none", **attention: Any) -> dict[str, Any]:
    """Options for `build_model` that match the plain model: equal sizes, dropout in the same
    places, and no tied matrices.

    Args:
        tie: option of the model; `none` as in the plain model.
        attention: options of all attentions to change.
    """
    options = {
        "name": "multihead",
        "num_heads": size.heads,
        "num_kv_heads": size.heads,
        "score": "scaled_dot",
        "kernel": "auto",
        "project": True,
        "bias": True,
        "dropout": size.dropout,
        **attention,
    }
    return {
        "model": {
            "name": "transformer",
            "dim": size.dim,
            "encoder_layers": size.layers,
            "decoder_layers": size.layers,
            "ffn_dim": size.ffn,
            "tie": tie,
            "dropout": size.dropout,
        },
        "position": {"name": "sinusoidal"},
        "attention": dict.fromkeys(("encoder", "decoder", "cross"), options),
    }


def our_model(size: ModelSize, vocabulary: int, tie: str = "none", **attention: Any) -> Seq2Seq:
    return build_model(our_config(size, tie, **attention), vocabulary, vocabulary).train()
