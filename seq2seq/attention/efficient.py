"""Efficient attention: a softmax over channels and one over positions, but none over scores."""

from torch import Tensor

from seq2seq.attention.base import Attended, Cost, Encoded, Role
from seq2seq.attention.heads import HeadedAttention
from seq2seq.attention.memory import SourceMemory, StateMemory
from seq2seq.functional.efficient import efficient_attention, efficient_context, efficient_weights


class Efficient(HeadedAttention[StateMemory]):
    """Attention in which every query mixes D means of the values, one for each channel of the keys.

    The weights of a mean are the softmax of its channel over the positions; a query mixes the means
    by the softmax of its own channels.

        out = concat_h( softmax_d(q) (softmax_j(K)^T V) ) Wo

    Args:
        place: surroundings of the attention, which is not in the decoder.
        num_heads: H; divides the width.
        bias: whether the projections have biases.

    Raises: ConfigError if `num_heads` does not divide the width.
    Source: Shen et al. 2018, arXiv:1812.01243.
    """

    roles = frozenset({Role.ENCODER, Role.CROSS})
    has_constant_step = True
    role_refusals = {
        Role.DECODER: "its softmax over the positions of the keys mixes the future into the past"
    }
    usual_cost = Cost("(T + S) D^2", "(T + S) D", remembers="a D x D matrix a head")
    absent_options = {"dropout": "there are no weights to drop; leave it out, or take attn=mha"}
    position_refusals = {
        "rotate": "after its softmax over the channels of queries and the one over the positions "
        "of keys, a rotation no longer shows relative positions",
        "bias": "it never forms the scores that a bias is added to",
    }

    def memory_of(self, encoded: Encoded) -> StateMemory:
        x, mask, _ = encoded
        v, k = self.heads(self.v(x)), self.heads(self.k(x))
        return SourceMemory(x, mask, context=efficient_context(k, v, mask))

    def attend(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        q = self.heads(self.q(x))
        out, weights = efficient_attention(q, memory.state["context"]), None
        if need_weights:
            assert isinstance(memory, SourceMemory)
            source, mask = memory.tokens()
            weights = efficient_weights(q, self.heads(self.k(source)), mask)
        return Attended(self.project_out(out.to(x.dtype)), weights)
