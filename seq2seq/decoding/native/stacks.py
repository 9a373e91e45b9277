"""A Transformer's stacks as structures of the C, if it covers them."""

from ctypes import pointer
from threading import Lock
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Dot, ScaledDot
from seq2seq.attention.ssru import SSRU
from seq2seq.decoding.native.layout import constants, structs
from seq2seq.decoding.native.linear import Packer
from seq2seq.models.layers.layer import ACTIVATIONS, FeedForward
from seq2seq.models.layers.positions import (
    ALiBi,
    Learned,
    PositionScheme,
    Rotary,
    Sinusoidal,
    T5Bias,
    TransformerXL,
)
from seq2seq.models.transformer import Transformer

NORMS = {
    nn.Identity: constants.NO_NORM,
    nn.LayerNorm: constants.LAYER_NORM,
    nn.RMSNorm: constants.RMS_NORM,
}
ACTIVATION_NUMBERS = {
    ACTIVATIONS[name]: getattr(constants, name.upper()) for name in ("relu", "gelu", "silu")
}
SCHEMES = (Sinusoidal, Learned, Rotary, ALiBi, T5Bias, TransformerXL, PositionScheme)
FIRST_POSITIONS = 256


def embedding_struct(weight: Tensor, scale: float) -> Any:
    """Vectors of ids (V, E) for the C."""
    return structs.Embedding(weight.data_ptr(), scale, None, len(weight))


def is_covered(model: nn.Module) -> TypeGuard[Transformer]:
    """Does the C compute both stacks of this model?"""
    if type(model) is not Transformer:
        return False
    self_attn = [layer.attention for layer in model.decoder]
    plain = [layer.attention for layer in model.encoder] + [layer.cross for layer in model.decoder]
    if any(type(each) is not SSRU for each in self_attn):
        plain += self_attn
    layers = [*model.encoder, *model.decoder]
    norms = [m for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.RMSNorm))]
    return (
        all(type(each) is MultiHead and isinstance(each.q, nn.Linear) for each in plain)
        and all(type(each.score) in (Dot, ScaledDot) for each in plain)
        and all(type(layer.feed) is FeedForward for layer in layers)
        and {type(model.encoder_position), type(model.decoder_position)} <= {*SCHEMES}
        and all(type(norm) in NORMS for norm in norms)
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in model.parameters())
    )


class NativeStack:
    """One stack of a model that is covered: `encoder` or `decoder`.

    Attributes:
        struct: the same for the C.
        embedding: the same of its embedding.
    """

    def __init__(self, packer: Packer, model: Transformer, side: str):
        self.packer = packer
        self.held: list[Any] = []  # what the structures point to
        self._lock = Lock()  # of `extend_tables`
        layers = list(getattr(model, side))
        self.position: PositionScheme = getattr(model, f"{side}_position")
        embedding = model.embeddings.target if side == "decoder" else model.embeddings.source
        self.dim = model.embeddings.dim
        self.layers = (structs.Layer * len(layers))()
        for struct, layer in zip(self.layers, layers, strict=True):
            self._fill(struct, layer)
        self.struct = structs.Stack(
            dim=self.dim,
            n_layers=len(layers),
            is_pre_norm=layers[0].around_feed.pre,
            layers=self.layers,
            final_norm=self._norm(getattr(model, f"{side}_norm")),
            embedding=embedding_struct(embedding.weight, model.embeddings.scale),
        )
        self.embedding = self.struct.embedding
        self.extend_tables(FIRST_POSITIONS)

    def extend_tables(self, positions: int) -> None:
        """Have tables for so many positions. Other threads may decode with the shorter ones: those
        stay, and a longer one takes their place in one write.
        """
        if positions <= self.embedding.max_positions:
            return
        with self._lock:
            if positions <= self.embedding.max_positions:  # another thread has made them meanwhile
                return
            scheme = self.position
            P = scheme.max_length or max(positions, 2 * self.embedding.max_positions)
            places = torch.arange(P)
            if scheme.hook == "embed":
                zeros = torch.zeros(1, P, self.dim)
                self.embedding.positions = self._keep(scheme.embed(zeros, places)[0])
            attentions = [layer.self_attn for layer in self.layers if layer.self_attn.n_heads]
            if attentions and scheme.hook in ("bias", "relate"):  # of as many heads in every layer
                relative = self._relative_bias(attentions[0].n_heads, attentions[0].head_dim, P)
                self.held.append(relative)
            for attention in attentions:
                if scheme.hook == "rotate":
                    half = attention.head_dim // 2
                    ones = torch.cat((torch.ones(P, half), torch.zeros(P, half)), 1)
                    table = scheme.rotate(ones[None, None], places)[0, 0]
                    attention.rope_table = self._keep(table)
                if scheme.hook in ("bias", "relate"):
                    attention.relative_bias = pointer(relative)
            # Last, since who sees it reads the tables.
            self.embedding.max_positions = P

    def _relative_bias(self, H: int, D: int, P: int) -> Any:
        """Tables of the terms that the scheme adds to the scores of H heads of width D at distances
        up to P.
        """
        distance = torch.arange(-P, P + 1)[None]
        if self.position.hook == "bias":
            bias = self.position.bias(distance, H)
            assert bias is not None
            return structs.RelativeBias(self._keep(bias[:, 0]), None, 2 * P + 1)
        # They are affine in the query: those of zero are the bias, and what unit queries add to it
        # the vectors.
        queries = torch.cat((torch.zeros(1, D), torch.eye(D))).expand(1, H, -1, -1)
        scores = self.position.relate(queries, distance.expand(D + 1, -1))
        assert scores is not None
        bias, keys = scores[0, :, 0], (scores[0, :, 1:] - scores[0, :, :1]).transpose(1, 2)
        return structs.RelativeBias(self._keep(bias), self._keep(keys), 2 * P + 1)

    def _keep(self, tensor: Tensor) -> int:
        tensor = tensor.detach().contiguous()
        self.held.append(tensor)
        return tensor.data_ptr()

    def _fill(self, struct: Any, layer: Any) -> None:
        attention, feed, pack = layer.attention, layer.feed, self.packer.pack
        norm = self._norm(layer.around_attention.norm)
        if type(attention) is SSRU:
            struct.ssru = structs.SSRU(pack(attention.x, attention.gate).struct, norm)
        else:
            maps = attention.q, attention.k, attention.v
            struct.self_attn = self._attention(attention, norm, *maps)
        if hasattr(layer, "cross"):
            norm = self._norm(layer.around_cross.norm)
            struct.cross_attn = self._attention(layer.cross, norm, layer.cross.q)
        struct.ffn = structs.FeedForward(
            up=pack(feed.up).struct,
            down=pack(feed.down).struct,
            norm=self._norm(layer.around_feed.norm),
            activation=ACTIVATION_NUMBERS[feed.activation],
        )
        if feed.gate is not None:
            struct.ffn.gate = pack(feed.gate).struct

    def _attention(self, attention: MultiHead, norm: Any, *maps: nn.Module) -> Any:
        return structs.Attention(
            in_proj=self.packer.pack(*maps).struct,
            out_proj=self.packer.pack(attention.out).struct,
            norm=norm,
            n_heads=attention.num_heads,
            n_kv_heads=attention.num_kv_heads,
            head_dim=attention.width,
            scale=attention.score.scale,
        )

    def _norm(self, norm: Any) -> Any:
        if type(norm) is nn.Identity:
            return structs.Norm()
        bias = getattr(norm, "bias", None)
        weight, bias = self._keep(norm.weight), None if bias is None else self._keep(bias)
        return structs.Norm(NORMS[type(norm)], norm.eps, weight, bias)
