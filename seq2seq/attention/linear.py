"""Linear attention: only two sums are remembered, however many keys there are."""

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Cost, Encoded, Place, Role, positions_of
from seq2seq.attention.heads import HeadedAttention
from seq2seq.attention.memory import SourceMemory, StateMemory
from seq2seq.functional.features import ELU, FeatureMap
from seq2seq.functional.linear import (
    Sums,
    causal_linear_attention,
    key_sums,
    linear_attention,
    linear_weights,
)


class FeatureAttention(HeadedAttention[StateMemory]):
    """Base of attentions that read sums over features of the keys; a subclass chooses the features.

        out = concat_h( phi(q)^T U / (phi(q)^T z + eps) ) Wo
        U = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j)

    In the decoder the sums run over j <= i, and nothing else is kept between steps. For a whole
    sequence the weights can still be computed on request.
    """

    absent_options = {"dropout": "there are no weights to drop; leave it out, or take attn=mha"}
    position_refusals = {
        "rotate": "it compares queries and keys by positive features: rotated features would not "
        "be positive, and features of rotated vectors do not show relative positions",
        "bias": "it never forms the scores that a bias is added to",
    }
    sums_to_one = False  # because of eps
    has_constant_step = True

    @property
    def phi(self) -> FeatureMap:
        """The feature map."""
        raise NotImplementedError

    def memory_of(self, encoded: Encoded) -> StateMemory:
        x, mask, _ = encoded
        if self.place.role is Role.DECODER:  # each query needs different sums
            return SourceMemory(x, mask)
        k, v = self.heads_at(self.k(x), positions_of(x)), self.heads(self.v(x))
        sums = key_sums(self.phi, k, v, mask)
        return SourceMemory(x, mask, **state_of(sums))

    def new_memory(self) -> StateMemory:
        memory = StateMemory()
        memory.blank = {"level": -torch.inf}
        return memory

    def attend(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        assert isinstance(memory, SourceMemory), "a decoder's memory is for `advance`"
        source, mask = memory.tokens()
        causal = self.place.role is Role.DECODER
        q = self.heads_at(self.q(x), positions)
        if causal:
            k, v = self.heads_at(self.k(source), positions_of(source)), self.heads(self.v(source))
            out, _ = causal_linear_attention(self.phi, q, k, v, mask)
        else:
            out = linear_attention(self.phi, q, Sums(**memory.state))
        weights = None
        if need_weights:
            k = self.heads_at(self.k(source), positions_of(source))
            weights = linear_weights(self.phi, q, k, mask, causal)
        return Attended(self.project_out(out.to(x.dtype)), weights)

    def advance(self, x: Tensor, memory: StateMemory, positions: Tensor) -> Tensor:
        q, k = (self.heads_at(project(x), positions) for project in (self.q, self.k))
        before = Sums(**memory.state) if memory.state else None
        out, after = causal_linear_attention(self.phi, q, k, self.heads(self.v(x)), before=before)
        memory.state = state_of(after)
        return self.project_out(out.to(x.dtype))


class Linear(FeatureAttention):
    """Attention with phi(q) . phi(k), phi = elu + 1, in place of the exponential of q . k, so that
    the cost of a token does not depend on the length.

        out = concat_h( phi(q)^T U / (phi(q)^T z + 1e-6) ) Wo
        U = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j)

    In the decoder the sums run over j <= i. Queries and keys are not divided by sqrt(D). Rotary
    positions are not supported: rotated after phi, features are no longer positive; rotated before
    it, their products do not depend only on the distance.

    Biases of queries and keys start at -3, where phi is an exponential, which distinguishes keys
    better than the linear part above zero.

    Args:
        place: surroundings of the attention.
        num_heads: H; divides the width.
        bias: whether the projections have biases.

    Raises: ConfigError if `num_heads` does not divide the width.
    Source: Katharopoulos et al. 2020, arXiv:2006.16236.
    """

    usual_cost = Cost("(T + S) D^2", "(T + S) D", remembers="U (D x D) and z (D) a head")
    phi = ELU

    def __init__(self, place: Place, *, num_heads: int, bias: bool = True):
        super().__init__(place, num_heads=num_heads, bias=bias)
        if bias:
            nn.init.constant_(self.q.bias, -3.0)
            nn.init.constant_(self.k.bias, -3.0)


def state_of(sums: Sums) -> dict[str, Tensor]:
    """The entries of a memory that holds these sums."""
    return {name: x for name, x in sums._asdict().items() if x is not None}
