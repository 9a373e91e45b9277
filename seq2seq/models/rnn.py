"""The recurrent encoder-decoder that learns to align while it translates."""

import torch
from torch import Tensor

from seq2seq.attention import StateMemory
from seq2seq.models.base import Decoded
from seq2seq.models.recurrent import Recurrent
from seq2seq.models.state import DecodeState


class RNN(Recurrent):
    """A decoder that asks the source before each word.

        a_i = softmax(e(s_{i-1}, h))        the query is the state before the word
        c_i = sum_j a_ij h_j
        s_i = cell([y_{i-1}; c_i], s_{i-1})     the context enters the cell
        readout = tanh(W [s_i; c_i; y_{i-1}])

    In the first line and in the last, s is that of the last layer. Encoder, first state and options
    are those of `Recurrent`.

    Source: Bahdanau et al. 2015, arXiv:1409.0473. In their appendix A the first state is
    s_0 = tanh(Ws h_1), of the backward direction alone, where ours reads the ends of both; and the
    output is made by a layer of maxout, where ours is one tanh layer. Dropout, tied embeddings and
    the LSTM are ours, and the GRU is torch's, whose reset gate comes after the product with U.
    """

    @staticmethod
    def fed_width(dim: int, context: int) -> int:
        return context

    @staticmethod
    def read_width(dim: int, context: int) -> int:
        return 2 * dim + context

    def step(self, tokens: Tensor, state: DecodeState, need_weights: bool = False) -> Decoded:
        memory = state.past[0]
        assert isinstance(memory, StateMemory)
        positions = state.begin(tokens.shape[1])
        embedded = self.dropout(self.embeddings.embed_target(tokens))  # (N, n, E)
        tops, contexts, weights = [], [], []
        for y, position in zip(embedded.unbind(1), positions.split(1, dim=-1), strict=True):
            query = memory.state["hidden"][:, -1:]
            context, step_weights = self.cross.consult(
                query, state.source[0], position, need_weights
            )
            top = self.advance(torch.cat((y, context.squeeze(1)), dim=-1), memory)
            tops.append(top)
            contexts.append(context)
            if step_weights is not None:
                weights.append(step_weights)
        state.end(tokens.shape[1])
        read = torch.cat((torch.stack(tops, dim=1), torch.cat(contexts, dim=1), embedded), dim=-1)
        hidden = self.dropout(self.readout(read).tanh())
        # n x (N, H, 1, S) -> (1, N, H, n, S)
        return Decoded(hidden, torch.cat(weights, dim=2)[None] if need_weights else None)
