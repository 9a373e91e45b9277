"""Transformers computed by the native decoder, with the same memories as on torch."""

from collections.abc import Sequence
from ctypes import pointer
from threading import Lock
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory, Memory, StateMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Dot, ScaledDot
from seq2seq.attention.slab import SlabMemory
from seq2seq.attention.ssru import SSRU
from seq2seq.decoding.native.base import MAX_STEPS, NativeModel, embedding_struct, kv_view
from seq2seq.decoding.native.layout import constants, structs
from seq2seq.decoding.native.linear import Packer
from seq2seq.models.base import Memories
from seq2seq.models.layers.layer import ACTIVATIONS, FeedForward
from seq2seq.models.layers.positions import POSITIONS, PositionScheme
from seq2seq.models.state import DecodeState
from seq2seq.models.transformer import Transformer

NORMS = {nn.LayerNorm: constants.LAYER_NORM, nn.RMSNorm: constants.RMS_NORM}
ACTIVATION_NUMBERS = {
    ACTIVATIONS[name]: getattr(constants, name.upper()) for name in ("relu", "gelu", "silu")
}
FIRST_POSITIONS = 256
OWN_POSITIONS = {POSITIONS[name] for name in POSITIONS.ours}  # without those of plug-ins


def is_covered(model: nn.Module) -> TypeGuard[Transformer]:
    """True if the native decoder can compute both stacks of this model, in float32 on a CPU."""
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
        and {type(model.encoder_position), type(model.decoder_position)} <= OWN_POSITIONS
        and all(type(norm) in NORMS for norm in norms)
    )


class NativeTransformer(NativeModel):
    """A Transformer with a native encoder and decoder."""

    model: Transformer

    def __init__(self, model: Transformer, packer: Packer):
        super().__init__(model, packer)
        self.source_stack = NativeStack(packer, model, "encoder")
        self.encoder, self.encode_batch = self.source_stack.struct, self.library.s2s_encode
        self.stack = NativeStack(packer, model, "decoder")
        self.decoder = structs.Decoder(stack=pointer(self.stack.struct))
        self.embedding = self.stack.embedding
        # Maps to the keys and values of the source in each layer.
        crosses = [layer.cross for layer in model.decoder]
        self.source_kv = [packer.pack(cross.k, cross.v) for cross in crosses]
        attention = self.stack.layers[0].self_attn
        example = torch.empty(1, 1, attention.n_kv_heads, attention.head_dim)
        self._like = {"k": example, "v": example}  # the keys and values of a token in each row

    def encode(self, source: Tensor) -> Encoded:
        self._check_length(source.shape[1], "source")
        self.source_stack.extend_tables(source.shape[1])
        return super().encode(source)

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        """As in the model, with one product for the keys and values of a layer."""
        B, S, _ = encoded.states.shape
        attention = self.stack.layers[0].cross_attn
        states = encoded.states.flatten(0, 1)
        shape = B, S, 2, attention.n_kv_heads, attention.head_dim
        sources: list[Memory] = []
        for source_kv in self.source_kv:
            # (2, B, G, S, D), the layout of the native decoder. Large, so one layer at a time.
            k, v = source_kv.product(states).view(shape).permute(2, 0, 3, 1, 4).contiguous()
            streams = {"k": k.transpose(1, 2), "v": v.transpose(1, 2)}
            sources.append(DenseMemory.of(streams, encoded.mask))
        return Memories(sources, [layer.attention.new_memory() for layer in self.model.decoder])

    def describe_past(self, step: Any, pasts: Sequence[Any], positions: Tensor) -> Any:
        if type(pasts[0]) is not StateMemory:
            return self._extend_caches(step, pasts)
        for past in pasts:
            past.state = past.state or {"c": torch.zeros(step.rows, self.stack.dim)}
        self.stack.extend_tables(int(positions.max()) + MAX_STEPS)
        return super().describe_past(step, pasts, positions)

    def spare_steps(self, state: DecodeState) -> int:
        first: Any = state.past[0]
        places: int = self.embedding.max_positions
        if self.max_length is not None:
            places = min(places, self.max_length)
        if type(first) is StateMemory:
            return places - state.length
        if type(first) not in (DenseMemory, SlabMemory):
            return 0  # other memories need work between steps
        room: int = first.storage["k"].shape[2] // first.beams
        return min(room, places) - state.length

    def _extend_caches(self, step: Any, pasts: Sequence[Any]) -> Any:
        """Reserve a token per row. Returns: references that must outlive the call."""
        first, rows = pasts[0], step.rows // pasts[0].beams
        like = self._like  # read once, since other threads may replace it
        if like["k"].shape[0] != rows:
            example = like["k"][:1].expand(rows, -1, -1, -1)
            self._like = like = {"k": example, "v": example}
        for past in pasts:
            past.extend(like, first.beams)
        step.self_view, held = kv_view(first, step.rows)
        step.self_caches = self.cache_structs(pasts, "pasts")
        self.stack.extend_tables(step.self_view.length)
        return held

    def count_tokens(self, pasts: Sequence[Any], steps: int) -> None:
        for past in pasts:
            if type(past) is not StateMemory:
                past.extend(self._like, steps * past.beams)


class NativeStack:
    """One stack of a covered model: `encoder` or `decoder`.

    Attributes:
        struct: stack as a structure of the native decoder.
        embedding: structure of its embedding.
    """

    def __init__(self, packer: Packer, model: Transformer, side: str):
        self.packer = packer
        self.held: list[Any] = []  # references to everything that the structures point to
        self._lock = Lock()  # for `extend_tables`
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
        """Extend the position tables to this many positions. Other threads may still decode with
        the shorter tables, which stay alive; a single write replaces each by a longer one.
        """
        if positions <= self.embedding.max_positions:
            return
        with self._lock:
            if positions <= self.embedding.max_positions:  # another thread was faster
                return
            scheme = self.position
            P = scheme.max_length or max(positions, 2 * self.embedding.max_positions)
            places = torch.arange(P)
            if scheme.hook == "embed":
                zeros = torch.zeros(1, P, self.dim)
                self.embedding.positions = self._keep(scheme.embed(zeros, places)[0])
            attentions = [layer.self_attn for layer in self.layers if layer.self_attn.n_heads]
            if attentions and scheme.hook in ("bias", "relate"):  # all layers have as many heads
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
            # Last, since threads that see the new maximum read the new tables.
            self.embedding.max_positions = P

    def _relative_bias(self, H: int, D: int, P: int) -> Any:
        """Tables of the terms that the position scheme adds to scores, for H heads of width D and
        distances up to P.
        """
        distance = torch.arange(-P, P + 1)[None]
        if self.position.hook == "bias":
            bias = self.position.bias(distance, H)
            assert bias is not None
            return structs.RelativeBias(self._keep(bias[:, 0]), None, 2 * P + 1)
        # The terms are affine in the query: a query of zero gives the bias, and unit queries give
        # the bias plus the vectors.
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
