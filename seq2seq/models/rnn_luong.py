"""The recurrent encoder-decoder that asks the source after each step of its cells."""

import torch
from torch import Tensor

from seq2seq.attention import StateMemory
from seq2seq.attention.pages import PagePool
from seq2seq.models.base import Decoded, Encoded
from seq2seq.models.recurrent import Recurrent
from seq2seq.models.state import DecodeState


class LuongRNN(Recurrent):
    """A decoder whose query is its new state, and which is fed what it attended to last.

        s_i = cell([y_{i-1}; t_{i-1}], s_{i-1})     input feeding; t_0 = 0
        a_i = softmax(e(s_i, h))                    the query is the state after the word
        c_i = sum_j a_ij h_j
        t_i = tanh(W [c_i; s_i])                    the attentional state, which gives the output

    In the second line and in the last, s is that of the last layer. Encoder, first state and
    options are those of `Recurrent`. Dropout acts on what t gives out, not on what is fed.

    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    @staticmethod
    def fed_width(dim: int, context: int) -> int:
        return dim

    @staticmethod
    def read_width(dim: int, context: int) -> int:
        return dim + context

    def start(self, encoded: Encoded, beams: int = 1, pages: PagePool | None = None) -> DecodeState:
        state = super().start(encoded, beams, pages)
        memory = state.past[0]
        assert isinstance(memory, StateMemory)
        memory.state["attentional"] = torch.zeros_like(memory.state["hidden"][:, 0])
        return state

    def step(self, tokens: Tensor, state: DecodeState, need_weights: bool = False) -> Decoded:
        memory = state.past[0]
        assert isinstance(memory, StateMemory)
        positions = state.begin(tokens.shape[1])
        embedded = self.dropout(self.embeddings.embed_target(tokens))  # (N, n, E)
        attentional, weights = [], []
        for y, position in zip(embedded.unbind(1), positions.split(1, dim=-1), strict=True):
            top = self.advance(torch.cat((y, memory.state["attentional"]), dim=-1), memory)
            context, step_weights = self.cross.consult(
                top[:, None], state.source[0], position, need_weights
            )
            read = torch.cat((context.squeeze(1), top), dim=-1)
            memory.state["attentional"] = self.readout(read).tanh()
            attentional.append(memory.state["attentional"])
            if step_weights is not None:
                weights.append(step_weights)
        state.end(tokens.shape[1])
        hidden = self.dropout(torch.stack(attentional, dim=1))
        # n x (N, H, 1, S) -> (1, N, H, n, S)
        return Decoded(hidden, torch.cat(weights, dim=2)[None] if need_weights else None)
