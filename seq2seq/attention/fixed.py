"""An encoder-decoder without attention: one vector represents the whole source."""

from typing import Literal

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Attention, Cost, Encoded, Place, Role
from seq2seq.attention.memory import StateMemory


class Fixed(Attention[StateMemory]):
    """A baseline in which every query gets the same context, one vector pooled from the source.

    Args:
        place: surroundings of the attention, a cross-attention.
        pool: `mean` is the mean over the real tokens; `final` is the final state of a bidirectional
            RNN, the last state of the forward half and the first state of the backward half. null
            is final without `project`, else mean.
        project: whether the context passes through a linear map to the decoder's width.

    Source: Sutskever et al. 2014, arXiv:1409.3215, whose decoder begins with the vector and does
    not see it again; Cho et al. 2014, arXiv:1406.1078, whose decoder sees it at every step, as
    here.
    """

    roles = frozenset({Role.CROSS})
    role_refusals = {
        Role.ENCODER: "it gives every position the same vector",
        Role.DECODER: "it gives every position the same vector, and it would pool over the future",
    }
    usual_cost = Cost(time="S", memory="1", remembers="one vector a sentence")
    shows_weights = False
    has_constant_step = True
    no_weights = "every query reads one pooled vector"
    reads_queries = False

    def __init__(
        self, place: Place, *, pool: Literal["mean", "final"] | None = None, project: bool = True
    ):
        super().__init__(place)
        self.pool = pool or ("mean" if project else "final")
        self.out_dim = place.dim if project else place.source_dim
        self.out = nn.Linear(place.source_dim, place.dim) if project else nn.Identity()

    def memory_of(self, encoded: Encoded) -> StateMemory:
        pooled = mean_state if self.pool == "mean" else final_state
        context = pooled(encoded.states, encoded.real)
        return StateMemory(context=self.out(context))

    def attend(
        self, x: Tensor, memory: StateMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        if need_weights:
            raise ValueError(f"attention 'fixed' has no weights: {self.no_weights}")
        return Attended(memory.state["context"][:, None].expand(-1, x.shape[1], -1), None)


def mean_state(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over real tokens: x (N, S, E), mask (N, S) -> (N, E), zero if there is no real token."""
    real = mask[..., None].to(x.dtype)
    return (x * real).sum(1) / real.sum(1).clamp(min=1)


def final_state(x: Tensor, mask: Tensor) -> Tensor:
    """The final state of a bidirectional RNN: the forward half at the last real token, and the
    backward half at the first.

    Args:
        x: (N, S, E).
        mask: (N, S), True = real, with padding at the end.

    Returns: (N, E), zero if a row has no real token.
    """
    forward, backward = x.chunk(2, dim=-1)
    last = (mask.sum(1) - 1).clamp(min=0)
    rows = last[:, None, None].expand(-1, 1, forward.shape[-1])
    ends = torch.cat((forward.gather(1, rows).squeeze(1), backward[:, 0]), dim=-1)
    return ends * mask.any(1, keepdim=True)
