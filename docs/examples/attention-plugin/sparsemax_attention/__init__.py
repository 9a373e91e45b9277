"""Attention whose weights are exactly zero for most keys: maps without haze."""

from typing import Any

import torch
from torch import Tensor

from seq2seq.attention import Cost, Place, Role
from seq2seq.attention.heads import position_bias
from seq2seq.attention.memory import TokenMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.functional.softmax import attend, intersect_masks, past_mask, upcast


class Sparsemax(MultiHead):
    """Multi-head attention with the Euclidean projection onto the simplex in the place of the
    softmax. Source: Martins and Astudillo 2016, arXiv:1602.02068.
    """

    absent_options = {"kernel": "it has one way to compute its weights"}
    usual_cost = Cost(time="T S (D + log S)", memory="T S", remembers="k, v (2 G D) a token")

    def __init__(self, place: Place, **options: Any):
        super().__init__(place, **options)
        self.folds = False  # in a decoder, every hypothesis has a row of its own

    @classmethod
    def cost(cls, options: Any) -> Cost:
        return cls.usual_cost

    def attend_heads(
        self, q: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        streams, mask = memory.read()
        k, v = streams["k"].transpose(1, 2), streams["v"].transpose(1, 2)  # (N, G, S, D)
        T, S = q.shape[2], k.shape[2]
        bias = position_bias(self.place, q, positions, S)  # of queries that are not rotated
        scores = self.score(self.place.rotate(self.score.queries(q), positions), k)  # (N, H, T, S)
        mask = None if mask is None else mask[:, None, None]
        if self.place.role is Role.DECODER:
            mask = intersect_masks(mask, past_mask(positions, T, S))
        weights = sparsemax(scores if bias is None else scores + bias, mask)
        dropped = torch.dropout(weights, self.dropout_now, self.training)
        return attend(dropped, v), weights if need_weights else None


def sparsemax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """max(scores - threshold, 0) over the last axis, with the threshold that makes the sum one."""
    wide = upcast(scores)  # sums in float32 at least
    if mask is not None:
        wide = wide.masked_fill(~mask, -1e4)
    highest = wide.sort(descending=True).values
    excess = highest.cumsum(-1) - 1  # of the k highest scores
    count = torch.arange(1, wide.shape[-1] + 1, device=wide.device)
    support = (count * highest > excess).sum(-1, keepdim=True)
    weights = (wide - excess.gather(-1, support - 1) / support).clamp(min=0)
    return (weights if mask is None else weights * mask).to(scores.dtype)
