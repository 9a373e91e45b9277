"""The recurrent encoder-decoder that learns to align while it translates."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.attention import Memory, Place, Role, StateMemory, build_attention
from seq2seq.attention.fixed import final_state
from seq2seq.errors import ConfigError
from seq2seq.models.base import Attentions, Decoded, Encoded, Seq2Seq
from seq2seq.models.state import DecodeState
from seq2seq.nn.dropout import Dropout
from seq2seq.nn.embedding import Embeddings
from seq2seq.nn.positions import PositionScheme
from seq2seq.symbols import PAD
from seq2seq.tables import check_range

Cell = Literal["gru", "lstm"]


class RNN(Seq2Seq):
    """A bidirectional encoder, and a decoder that asks the source before each word.

        a_i = softmax(e(s_{i-1}, h))        the query is the state before the word
        c_i = sum_j a_ij h_j
        s_i = cell([y_{i-1}; c_i], s_{i-1})     the context enters the cell
        readout = tanh(W [s_i; c_i; y_{i-1}])
        s_0 = tanh(W0 [forward last; backward first])

    Args:
        embeddings: the matrices over vocabularies; their width is E, also that of the decoder's
            state and of the two encoder directions together.
        attention: the mechanism of the cross role; with `fixed` the context is the same for every
            word.
        position: `none`; recurrence gives the order.
        cell: gru or lstm.
        layers: of the encoder and of the decoder; the query is the state of the last.
        dropout: on embeddings, between layers, and on the readout.

    Raises: ConfigError for an odd width, or a position scheme.
    Source: Bahdanau et al. 2015, arXiv:1409.0473.
    """

    roles = frozenset({Role.CROSS})

    def __init__(
        self,
        embeddings: Embeddings,
        attention: Attentions,
        position: PositionScheme,
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
        if position.hook is not None:
            raise ConfigError(
                "an RNN takes no positions, recurrence gives the order: position=none"
            )
        self.embeddings = embeddings
        self.dropout = Dropout(dropout)
        self.layers = layers
        recurrent = nn.GRU if cell == "gru" else nn.LSTM
        self.encoder = recurrent(
            dim,
            dim // 2,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.cross = build_attention(attention[Role.CROSS], Place(Role.CROSS, dim, dim))
        context = self.cross.out_dim
        build_cell = nn.GRUCell if cell == "gru" else nn.LSTMCell
        self.cells = nn.ModuleList(
            build_cell(dim + context if layer == 0 else dim, dim) for layer in range(layers)
        )
        self.has_cell_state = cell == "lstm"
        self.first_state = nn.Linear(dim, dim * layers * (2 if self.has_cell_state else 1))
        self.readout = nn.Linear(2 * dim + context, dim)

    def encode(self, source: Tensor) -> Encoded:
        mask = source != PAD
        x = self.dropout(self.embeddings.embed_source(source))
        # Packed, so that the backward direction of each row begins at its own last token.
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=source.shape[1]
        )
        return Encoded(states, mask)

    def forward(self, source: Tensor, target: Tensor, need_weights: bool = False) -> Decoded:
        return self.step(target, self.start(self.encode(source)), need_weights)

    def start(self, encoded: Encoded, beams: int = 1) -> DecodeState:
        first = self.first_state(final_state(encoded.states, encoded.mask)).tanh()
        first = first.repeat_interleave(beams, dim=0).unflatten(-1, (-1, self.embeddings.dim))
        hidden = first[:, : self.layers]  # (N, layers, E)
        memory = StateMemory(hidden=hidden)
        if self.has_cell_state:
            memory.state["cell"] = first[:, self.layers :]
        sources: list[Memory] = [self.cross.memory_of(encoded.states, encoded.mask)]
        return DecodeState(sources, [memory], beams, encoded.states.device)

    def step(self, tokens: Tensor, state: DecodeState, need_weights: bool = False) -> Decoded:
        memory = state.past[0]
        assert isinstance(memory, StateMemory)
        positions = state.begin(tokens.shape[1])
        embedded = self.dropout(self.embeddings.embed_target(tokens))  # (N, n, E)
        tops, contexts, weights = [], [], []
        for y, position in zip(embedded.unbind(1), positions.split(1), strict=True):
            query = memory.state["hidden"][:, -1:]
            context, step_weights = self.cross.consult(
                query, state.source[0], position, need_weights
            )
            top = self._advance(torch.cat((y, context.squeeze(1)), dim=-1), memory)
            tops.append(top)
            contexts.append(context)
            if step_weights is not None:
                weights.append(step_weights)
        state.end(tokens.shape[1])
        read = torch.cat((torch.stack(tops, dim=1), torch.cat(contexts, dim=1), embedded), dim=-1)
        hidden = self.dropout(self.readout(read).tanh())
        # n x (N, H, 1, S) -> (1, N, H, n, S)
        return Decoded(hidden, torch.cat(weights, dim=2)[None] if need_weights else None)

    def _advance(self, x: Tensor, memory: StateMemory) -> Tensor:
        """One token through the stack of cells: x (N, E + context) -> the last layer's state (N,
        E).
        """
        old = {name: state.unbind(1) for name, state in memory.state.items()}
        new: dict[str, list[Tensor]] = {name: [] for name in old}
        for layer, cell in enumerate(self.cells):
            if layer > 0:
                x = self.dropout(x)
            if self.has_cell_state:
                x, c = cell(x, (old["hidden"][layer], old["cell"][layer]))
                new["cell"].append(c)
            else:
                x = cell(x, old["hidden"][layer])
            new["hidden"].append(x)
        memory.state = {name: torch.stack(states, dim=1) for name, states in new.items()}
        return x
