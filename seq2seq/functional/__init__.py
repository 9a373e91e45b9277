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

from seq2seq.functional.dropout import dropout as dropout
from seq2seq.functional.flash import flash_additive_attention as flash_additive_attention
from seq2seq.functional.flash import flash_attention as flash_attention
from seq2seq.functional.fused import fused_attention as fused_attention
from seq2seq.functional.softmax import attend as attend
from seq2seq.functional.softmax import causal_mask as causal_mask
from seq2seq.functional.softmax import explicit_attention as explicit_attention
from seq2seq.functional.softmax import masked_softmax as masked_softmax
