"""Recurrent models computed by the native decoder, with the same memories as on torch."""

from ctypes import pointer
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Additive, Concat, Dot, General, ScaledDot
from seq2seq.decoding.native.base import NativeModel, embedding_struct
from seq2seq.decoding.native.layout import structs
from seq2seq.decoding.native.linear import PackedMatrix, Packer
from seq2seq.models.base import Memories
from seq2seq.models.rnn import RNN, LuongRNN, Recurrent

WITH_TANH = Additive, Concat  # u . tanh(Wq q + Wk k)


def is_covered_rnn(model: nn.Module) -> TypeGuard[Recurrent]:
    """True if the native decoder can compute this model, in float32 on a CPU."""
    if type(model) not in (RNN, LuongRNN):
        return False
    cross: Any = model.cross
    return (
        type(cross) is MultiHead
        and type(cross.score) in (Dot, ScaledDot, General, *WITH_TANH)
        # These scores give each head its own keys, and values must have the same layout as keys.
        and (cross.num_kv_heads == cross.num_heads or type(cross.score) not in WITH_TANH)
    )


class NativeRNN(NativeModel):
    """A native recurrent model. Its cells, and the matrices of its score, stay in float32."""

    model: Recurrent

    def __init__(self, model: Recurrent, packer: Packer):
        super().__init__(model, packer)
        assert isinstance(model.cross, MultiHead)
        self.attention: MultiHead = model.cross
        score: Any = self.attention.score
        query, key, bias = score.maps()
        self.key_map = None if key is None else pack_heads(packer, key, bias)
        self.encoder = encoder_struct(packer, model)
        self.encode_batch = self.library.s2s_encode_recurrent
        self.cells = decoder_struct(packer, model)
        self.cells.attention = attention_struct(packer, self.attention)
        if query is not None:
            self.cells.score_proj = pack_heads(packer, query, None).struct
        self.decoder = structs.Decoder(cells=pointer(self.cells))
        self.embedding = self.cells.embedding

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        """The memories of the model, with the key matrix of the score already applied to keys."""
        attention, (B, S, _) = self.attention, encoded.states.shape
        k, v = attention.k(encoded.states), attention.v(encoded.states)
        if self.key_map is not None:
            k = self.key_map.product(k.flatten(0, 1))
        shape = B, S, attention.num_kv_heads, attention.width
        source = DenseMemory.of({"k": k.reshape(shape), "v": v.reshape(shape)}, encoded.mask)
        return Memories([source], [self.model.first_memory(encoded, beams)])


def encoder_struct(packer: Packer, model: Recurrent) -> Any:
    encoder, embedding = model.encoder, model.embeddings.source
    layers = (structs.BidirectionalLayer * model.layers)()
    for i, layer in enumerate(layers):
        of_layer = encoder.all_weights[2 * i : 2 * i + 2]  # forward, backward
        weights, states, biases, state_biases = zip(*of_layer, strict=True)
        layer.input_gates = packer.pack_float32(torch.cat(weights), torch.cat(biases)).struct
        layer.forward_gates, layer.backward_gates = (
            packer.pack_float32(weight, bias).struct
            for weight, bias in zip(states, state_biases, strict=True)
        )
    return structs.RecurrentEncoder(
        dim=model.embeddings.dim,
        n_layers=model.layers,
        is_lstm=isinstance(encoder, nn.LSTM),
        layers=layers,
        embedding=embedding_struct(embedding.weight, model.embeddings.scale),
    )


def decoder_struct(packer: Packer, model: Recurrent) -> Any:
    """The decoder without its attention."""
    cells = (structs.Cell * model.layers)()
    cell: Any
    for struct, cell in zip(cells, model.cells, strict=True):
        struct.input_gates = packer.pack_float32(cell.weight_ih, cell.bias_ih).struct
        struct.hidden_gates = packer.pack_float32(cell.weight_hh, cell.bias_hh).struct
    return structs.RecurrentDecoder(
        dim=model.embeddings.dim,
        n_layers=model.layers,
        is_lstm=isinstance(model.encoder, nn.LSTM),
        is_input_feeding=model.is_input_feeding,
        cells=cells,
        readout=packer.pack(model.readout).struct,
        embedding=embedding_struct(model.embeddings.target.weight, model.embeddings.scale),
    )


def attention_struct(packer: Packer, attention: MultiHead) -> Any:
    """The attention to the source, without the matrix of its score."""
    score: Any = attention.score
    struct = structs.Attention(
        n_heads=attention.num_heads,
        n_kv_heads=attention.num_kv_heads,
        head_dim=attention.width,
        scale=score.scale,
        score_vector=score.u.data_ptr() if type(score) in WITH_TANH else None,
    )
    if not isinstance(attention.q, nn.Identity):
        struct.in_proj = packer.pack(attention.q).struct
        struct.out_proj = packer.pack(attention.out).struct
    return struct


def pack_heads(packer: Packer, weight: Tensor, bias: Tensor | None) -> PackedMatrix:
    """The matrices of all heads (H, A, D) as one block-diagonal matrix."""
    bias = None if bias is None else bias.flatten()
    return packer.pack_float32(torch.block_diag(*weight), bias)
