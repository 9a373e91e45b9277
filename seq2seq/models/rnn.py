"""The recurrent encoder-decoders: `RNN`, which attends before each step (Bahdanau); `LuongRNN`,
which attends after it (Luong); `Recurrent`, the encoder, cells and state that both share.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.attention import Attention, Place, Role, StateMemory, build_attention
from seq2seq.attention.base import Attended, Encoded
from seq2seq.attention.fixed import final_state
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import PAD
from seq2seq.models.base import PLAIN, Attentions, Decoded, Memories, PassOptions, Seq2Seq
from seq2seq.models.layers.dropout import Dropout
from seq2seq.models.layers.embedding import Embeddings
from seq2seq.models.layers.positions import Positions

Cell = Literal["gru", "lstm"]
Attend = Callable[[Tensor], Attended]  # queries (N, 1, E) to the source


class Recurrent(Seq2Seq):
    """A bidirectional encoder and a stack of decoder cells. Subclasses define the decoder's step.

        h_j = [forward cell up to j; backward cell down to j]
        s_0 = tanh(W0 [forward last; backward first])

    Args:
        embeddings: matrices over vocabularies. Their width E is also the width of the decoder's
            state, and of both encoder directions together.
        attention: mechanism of the cross role; with `fixed` the context is the same for every word.
        position: position scheme, which must be `none`: recurrence gives the order.
        cell: type of the cells, gru or lstm.
        layers: number of encoder layers, and of decoder layers.
        dropout: probability of dropout on embeddings, between layers, and on the output.

    Raises: ConfigError if the width is odd, or the position scheme is not `none`.
    """

    roles = frozenset({Role.CROSS})
    is_input_feeding: ClassVar[bool] = False  # a step reads the output before it
    absent_options: ClassVar[dict[str, str]] = {
        "activation_dropout": "a recurrent model has no feed-forward networks. Use model.dropout, "
        "which applies between its layers",
        "unpositioned": "a recurrent model reads its source in order, and has no positions",
    }

    def __init__(
        self,
        embeddings: Embeddings,
        attention: Attentions,
        position: Positions,
        *,
        cell: Cell = "gru",
        layers: int = 1,
        dropout: float = 0.2,
    ):
        super().__init__()
        check_range("model.layers", layers, 1)
        dim = embeddings.dim
        if dim % 2:
            raise ConfigError(
                f"model.dim={dim} must be even: each encoder direction has half of it"
            )
        if position.encoder.hook is not None:
            raise ConfigError(
                "an RNN takes no positions, since recurrence gives the order: type position=none"
            )
        self.embeddings = embeddings
        self.dropout = Dropout(dropout)
        self.layers = layers
        recurrent = nn.GRU if cell == "gru" else nn.LSTM
        between = dropout if layers > 1 else 0.0
        self.encoder = recurrent(
            dim, dim // 2, layers, batch_first=True, bidirectional=True, dropout=between
        )
        self.cross = build_attention(attention[Role.CROSS], Place(Role.CROSS, dim, dim))
        build_cell = nn.GRUCell if cell == "gru" else nn.LSTMCell
        context = self.cross.out_dim
        # Input widths of the first cell (without the embedding) and of the output layer.
        fed, read = (dim, dim + context) if self.is_input_feeding else (context, 2 * dim + context)
        self.cells = nn.ModuleList(
            build_cell(dim + fed if layer == 0 else dim, dim) for layer in range(layers)
        )
        self.state_names = ("hidden", "cell") if cell == "lstm" else ("hidden",)
        self.first_state = nn.Linear(dim, dim * layers * len(self.state_names))
        self.readout = nn.Linear(read, dim)

    def encode(self, source: Tensor, options: PassOptions = PLAIN) -> Encoded:
        mask = source != PAD
        x = self.dropout(self.embeddings.embed_source(source, options.source_cut))
        # Packed, so that the backward direction of each row begins at its own last token.
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=source.shape[1]
        )
        return Encoded(states, mask, self.groups(source))

    def forward(self, source: Tensor, target: Tensor, options: PassOptions = PLAIN) -> Decoded:
        state = self.start(self.encode(source, options))
        positions = self.begin(target.shape[1], state)
        return self.decode(target, Memories(state.source, state.past), positions, options)

    @property
    def cross_attentions(self) -> list[Attention[Any]]:
        return [self.cross]

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        return Memories([self.cross.memory_of(encoded)], [self.first_memory(encoded, beams)])

    def first_memory(self, encoded: Encoded, beams: int) -> StateMemory:
        """The states of the cells before the first word."""
        first = self.first_state(final_state(encoded.states, encoded.real)).tanh()
        first = first.repeat_interleave(beams, dim=0).unflatten(-1, (-1, self.embeddings.dim))
        parts = first.split(self.layers, dim=1)  # (N, layers, E) each
        return StateMemory(**dict(zip(self.state_names, parts, strict=True)))

    def decode(
        self, tokens: Tensor, memories: Memories, positions: Tensor, options: PassOptions = PLAIN
    ) -> Decoded:
        # The only attention counts as layer 0.
        (source,), (memory,) = memories
        asked = options.wants_weights(0)
        embedded = self.embeddings.embed_target(tokens, options.target_cut)
        embedded = self.dropout(embedded)  # (N, n, E)
        reads, weights = [], []
        for y, position in zip(embedded.unbind(1), positions.split(1, dim=-1), strict=True):
            attend = partial(
                self.cross.attend_beams, memory=source, positions=position, need_weights=asked
            )
            read, step_weights = self.emit(y, memory, attend)
            reads.append(read)
            if step_weights is not None:
                weights.append(step_weights)
        hidden = self.dropout(self.read_out(torch.stack(reads, dim=1)))
        # n x (N, H, 1, S) -> (1, N, H, n, S)
        return Decoded(hidden, torch.cat(weights, dim=2)[None] if asked else None)

    def emit(self, y: Tensor, memory: StateMemory, attend: Attend) -> tuple[Tensor, Tensor | None]:
        """Decode one word.

        Args:
            y: embedding of the previous word, (N, E).
            memory: states of the cells, changed in place.
            attend: function that attends to the source.

        Returns: the input of `read_out` for this word, (N, ...), and attention weights (N, H, 1, S)
            or None.
        """
        raise NotImplementedError

    def read_out(self, reads: Tensor) -> Tensor:
        """The hidden states of n words: results of `emit` (N, n, ...) -> (N, n, E)."""
        return reads

    def advance(self, x: Tensor, memory: StateMemory) -> Tensor:
        """Run the stack of cells for one token: input x of the first cell -> state of the last
        layer, (N, E).
        """
        before = zip(*(memory.state[name].unbind(1) for name in self.state_names), strict=True)
        after: list[tuple[Tensor, ...]] = []
        for cell, state in zip(self.cells, before, strict=True):
            if after:
                x = self.dropout(x)
            after.append(cell(x, state) if len(state) > 1 else (cell(x, *state),))
            x = after[-1][0]
        layers = zip(*after, strict=True)
        for name, states in zip(self.state_names, layers, strict=True):
            memory.state[name] = torch.stack(states, dim=1)
        return x


class RNN(Recurrent):
    """A decoder that attends to the source before each word.

        a_i = softmax(e(s_{i-1}, h))        the query is the state before the word
        c_i = sum_j a_ij h_j
        s_i = cell([y_{i-1}; c_i], s_{i-1})     the context enters the cell
        readout = tanh(W [s_i; c_i; y_{i-1}])

    In the first and last line, s is the state of the last layer. Encoder, first state and options
    are inherited from `Recurrent`.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, with these differences. In their appendix A the
    first state is s_0 = tanh(Ws h_1), from the backward direction alone; here it reads the ends of
    both directions. Their output comes from a maxout layer; here it comes from one tanh layer.
    Dropout, tied embeddings and the LSTM are additions. The GRU is torch's, whose reset gate comes
    after the product with U.
    """

    def emit(self, y: Tensor, memory: StateMemory, attend: Attend) -> tuple[Tensor, Tensor | None]:
        context, weights = attend(memory.state["hidden"][:, -1:])
        context = context.squeeze(1)
        top = self.advance(torch.cat((y, context), dim=-1), memory)
        return torch.cat((top, context, y), dim=-1), weights

    def read_out(self, reads: Tensor) -> Tensor:
        return torch.tanh(self.readout(reads))


class LuongRNN(Recurrent):
    """A decoder that attends to the source after each step, and feeds the result to the next step.

        s_i = cell([y_{i-1}; t_{i-1}], s_{i-1})     input feeding; t_0 = 0
        a_i = softmax(e(s_i, h))                    the query is the state after the word
        c_i = sum_j a_ij h_j
        t_i = tanh(W [c_i; s_i])                    the attentional state, which gives the output

    In the second and last line, s is the state of the last layer. Encoder, first state and options
    are inherited from `Recurrent`. Dropout applies to t as output, not to t as input.

    Source: Luong et al. 2015, arXiv:1508.04025.
    """

    is_input_feeding = True

    def first_memory(self, encoded: Encoded, beams: int) -> StateMemory:
        memory = super().first_memory(encoded, beams)
        memory.state["attentional"] = torch.zeros_like(memory.state["hidden"][:, 0])
        return memory

    def emit(self, y: Tensor, memory: StateMemory, attend: Attend) -> tuple[Tensor, Tensor | None]:
        top = self.advance(torch.cat((y, memory.state["attentional"]), dim=-1), memory)
        context, weights = attend(top[:, None])
        read = torch.cat((context.squeeze(1), top), dim=-1)
        memory.state["attentional"] = self.readout(read).tanh()
        return memory.state["attentional"], weights
