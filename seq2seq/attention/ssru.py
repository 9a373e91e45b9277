"""A recurrent unit in place of the decoder's self-attention, which remembers one vector."""

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Attention, Cost, Encoded, Place, Role
from seq2seq.attention.memory import SourceMemory, StateMemory
from seq2seq.functional.ssru import gated_means


class SSRU(Attention[StateMemory]):
    """The simpler simple recurrent unit: a gated running mean of the target's tokens.

        c_t = f_t * c_{t-1} + (1 - f_t) * W x_t,   f_t = sigmoid(Wf x_t + b),   out_t = relu(c_t)

    There are no heads and no output projection, and the cost of a step does not depend on the
    length. The recurrence itself knows the order of tokens, so that position=rope is accepted but
    rotates nothing here.

    Args:
        place: surroundings of the attention, a decoder self-attention.

    Source: Kim et al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine
    Translation".
    """

    roles = frozenset({Role.DECODER})
    role_refusals = {
        Role.ENCODER: "it reads only the past, but an encoder reads both sides",
        Role.CROSS: "it has no queries that could choose among the tokens of a source",
    }
    supports = frozenset({"rotate"})
    position_refusals = {"bias": "it has no scores to add a bias to; its steps give the order"}
    absent_options = {
        "num_heads": "it has no heads; leave it out",
        "dropout": "there are no weights to drop; leave it out, or take attn=mha",
    }
    usual_cost = Cost(time="T log T E", memory="T log T", remembers="one vector (E)")
    shows_weights = False
    has_constant_step = True
    no_graph = "sums over the prefix in steps, whose number depends on the length"
    no_weights = "the decoder's past is one running mean"

    def __init__(self, place: Place):
        super().__init__(place)
        self.x = nn.Linear(place.dim, place.dim, bias=False)
        self.gate = nn.Linear(place.dim, place.dim)
        for linear in (self.x, self.gate):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.gate.bias)

    def memory_of(self, encoded: Encoded) -> StateMemory:
        return SourceMemory(encoded.states, encoded.mask)

    def new_memory(self) -> StateMemory:
        return StateMemory()

    def attend(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        if need_weights:
            raise ValueError(f"attention 'ssru' has no weights: {self.no_weights}")
        assert isinstance(memory, SourceMemory), "a decoder's memory is for `advance`"
        source, _ = memory.tokens()  # padding comes after all tokens that are read
        return Attended(self.advance(source, StateMemory(), positions)[:, -x.shape[1] :], None)

    def advance(self, x: Tensor, memory: StateMemory, positions: Tensor) -> Tensor:
        states = gated_means(self.x(x), self.gate(x), memory.state.get("c"))
        memory.state = {"c": states[:, -1]}
        return torch.relu(states).to(x.dtype)
