"""Pure tensor mathematics of attention: no state, no parameters created, nothing but torch.

Letters, here and everywhere:

    B sentences    K beams        N = B * K rows    T queries (target)    S keys (source)
    E model width  H query heads  G key/value heads, G divides H
    D head width of queries and keys    M head width of values    A width of a score's hidden layer
    V vocabulary   L layers

Queries are (B, H, T, D), keys (B, G, S, D), values (B, G, S, M); query head h reads key head h //
(H / G). A mask is always bool, and True always means a real token that may be attended to. A query
that may attend to nothing gets zeros: output, weights and gradients.
"""

from seq2seq.functional.dropout import dropout
from seq2seq.functional.flash import flash_additive_attention, flash_attention
from seq2seq.functional.fused import fused_attention
from seq2seq.functional.softmax import attend, causal_mask, explicit_attention, masked_softmax

__all__ = [
    "attend",
    "causal_mask",
    "dropout",
    "explicit_attention",
    "flash_additive_attention",
    "flash_attention",
    "fused_attention",
    "masked_softmax",
]
