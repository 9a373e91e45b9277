"""A recurrent model whose decoder is computed by the C, with the memories of the others."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import Memory, StateMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Additive, Concat, Dot, General, ScaledDot
from seq2seq.decoding.native.base import NativeModel
from seq2seq.decoding.native.caches import kv_cache, kv_view
from seq2seq.decoding.native.layout import WORKSPACE, structs
from seq2seq.decoding.native.linear import Packer
from seq2seq.errors import DataError
from seq2seq.models.base import Decoded, Layers
from seq2seq.models.rnn import RNN, LuongRNN, Recurrent

WITH_TANH = Additive, Concat  # u . tanh(Wq q + what is remembered)


def is_covered_rnn(model: nn.Module) -> TypeGuard[Recurrent]:
    """Does the C compute the decoder of this model?"""
    if type(model) not in (RNN, LuongRNN):
        return False
    cross: Any = model.cross
    return (
        type(cross) is MultiHead
        and type(cross.score) in (Dot, ScaledDot, General, *WITH_TANH)
        # Each head has keys of its own after these scores, and values must lie as keys do.
        and (cross.num_kv_heads == cross.num_heads or type(cross.score) not in WITH_TANH)
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in model.parameters())
    )


class NativeRNN(NativeModel):
    """A recurrent model with its decoder in the C; its encoder is torch's."""

    model: Recurrent

    def __init__(self, model: Recurrent, packer: Packer):
        super().__init__(model, packer)
        assert isinstance(model.cross, MultiHead)
        embeddings, pack = model.embeddings, packer.pack_float32
        cells = (structs.Cell * model.layers)()
        cell: Any
        for struct, cell in zip(cells, model.cells, strict=True):
            struct.input_gates = pack(cell.weight_ih, cell.bias_ih).struct
            struct.hidden_gates = pack(cell.weight_hh, cell.bias_hh).struct
        self.struct = structs.RecurrentDecoder(
            dim=embeddings.dim,
            n_layers=model.layers,
            is_lstm="cell" in model.state_names,
            is_input_feeding=type(model) is LuongRNN,
            cells=cells,
            attention=attention_struct(packer, model.cross),
            readout=packer.pack(model.readout).struct,
            token_embedding=embeddings.target.weight.data_ptr(),
            embedding_scale=embeddings.scale,
            vocab_size=len(embeddings.target.weight),
        )
        matrix = query_matrix(model.cross)
        if matrix is not None:
            self.struct.score_proj = pack(matrix, None).struct

    def encode(self, source: Tensor) -> Encoded:
        return self.model.encode(source)

    def memories(self, encoded: Encoded, beams: int) -> tuple[list[Memory], list[Memory]]:
        return self.model.memories(encoded, beams)

    def decode(
        self,
        tokens: Tensor,
        sources: Sequence[Memory],
        pasts: Sequence[Memory | None],
        positions: Tensor,
        need_weights: Layers = False,
    ) -> Decoded:
        if tokens.shape[1] > 1 or need_weights:
            return self.model.decode(tokens, sources, pasts, positions, need_weights)
        source, memory, N = sources[0], pasts[0], len(tokens)
        assert isinstance(memory, StateMemory)
        tokens, hidden = tokens.contiguous(), torch.empty(N, 1, self.embeddings.dim)
        memory.state = {name: x.contiguous() for name, x in memory.state.items()}
        view, _held = kv_view(source, source.rows)
        step = structs.RecurrentStep(
            rows=N, tokens=tokens.data_ptr(), source_view=view, source=kv_cache(source)
        )
        for name, x in memory.state.items():
            setattr(step, name, x.data_ptr())
        run = self.library.s2s_decode_recurrent
        if WORKSPACE.run(run, self.struct, step, hidden.data_ptr()) < 0:
            wrong = int(tokens.min()) if tokens.min() < 0 else int(tokens.max())
            raise DataError(
                f"an id of {wrong} was given to a model of {self.struct.vocab_size:,} pieces"
            )
        return Decoded(hidden, None)


def attention_struct(packer: Packer, attention: MultiHead) -> Any:
    """The attention to the source, without what its score does to queries."""
    score: Any = attention.score
    struct = structs.Attention(
        n_heads=attention.num_heads,
        n_kv_heads=attention.num_kv_heads,
        head_dim=attention.width,
        scale=getattr(score, "scale", 1.0),
        score_vector=score.u.data_ptr() if type(score) in WITH_TANH else None,
    )
    if not isinstance(attention.q, nn.Identity):
        struct.in_proj = packer.pack(attention.q).struct
        struct.out_proj = packer.pack(attention.out).struct
    return struct


def query_matrix(attention: MultiHead) -> Tensor | None:
    """The matrix by which the score multiplies queries, all heads at once; None for those that
    compare queries as they are.
    """
    H, D, score = attention.num_heads, attention.width, attention.score
    if type(score) in (Dot, ScaledDot):
        return None
    images: Tensor = score.queries(torch.eye(D).expand(1, H, D, D))[0]
    matrix: Tensor = torch.block_diag(*images.mT)
    return matrix
