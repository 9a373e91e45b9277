"""A Transformer whose stacks are computed by the C, with the memories of the others."""

from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory, Memory, StateMemory
from seq2seq.attention.slab import SlabMemory
from seq2seq.decoding.native.base import NativeModel
from seq2seq.decoding.native.caches import kv_cache, kv_view
from seq2seq.decoding.native.layout import structs
from seq2seq.decoding.native.linear import Packer
from seq2seq.decoding.native.stacks import NativeStack
from seq2seq.models.base import Decoded, Layers
from seq2seq.models.transformer import Transformer
from seq2seq.symbols import PAD


class NativeTransformer(NativeModel):
    """A Transformer with both stacks in the C."""

    model: Transformer

    def __init__(self, model: Transformer, packer: Packer):
        super().__init__(model, packer)
        self.encoder = NativeStack(packer, model, "encoder")
        self.decoder = NativeStack(packer, model, "decoder")
        # The keys and values of the source in each layer.
        crosses = [layer.cross for layer in model.decoder]
        self.source_kv = [packer.pack(cross.k, cross.v) for cross in crosses]
        self._caches: dict[str, tuple[Any, Any]] = {}  # by `_cache_structs`
        attention = self.decoder.layers[0].self_attn
        example = torch.empty(1, 1, attention.n_kv_heads, attention.head_dim)
        self._like = {"k": example, "v": example}  # the keys and values of a token in each row

    def run_encoder(self, batch: Any, tokens: Tensor, positions: Tensor, states: Tensor) -> None:
        self.encoder.extend_tables(batch.max_length)
        self.encoder.run(self.library.s2s_encode, tokens, positions, batch, states.data_ptr())

    def memories(self, encoded: Encoded, beams: int) -> tuple[list[Memory], list[Memory]]:
        """As the model's; the keys and values of a layer are one product."""
        B, S, _ = encoded.states.shape
        attention = self.decoder.layers[0].cross_attn
        states = encoded.states.flatten(0, 1)
        shape = B, S, 2, attention.n_kv_heads, attention.head_dim
        sources: list[Memory] = []
        for source_kv in self.source_kv:
            # (2, B, G, S, D), as the C reads it; layer by layer, since these are large.
            k, v = source_kv.product(states).view(shape).permute(2, 0, 3, 1, 4).contiguous()
            streams = {"k": k.transpose(1, 2), "v": v.transpose(1, 2)}
            sources.append(DenseMemory.of(streams, encoded.mask))
        return sources, [layer.attention.new_memory() for layer in self.model.decoder]

    def decode(
        self,
        tokens: Tensor,
        sources: Sequence[Memory],
        pasts: Sequence[Memory | None],
        positions: Tensor,
        need_weights: Layers = False,
    ) -> Decoded:
        if tokens.shape[1] > 1 or need_weights or pasts[0] is None:
            return self.model.decode(tokens, sources, pasts, positions, need_weights)
        tokens, positions = tokens.contiguous(), positions.contiguous()
        step, _held = self.describe_step(tokens, sources, pasts, positions)
        hidden = torch.empty(tokens.shape[0], 1, self.decoder.dim)
        self.decoder.run(self.library.s2s_decode, tokens, positions, step, hidden.data_ptr())
        return Decoded(hidden, None)

    def describe_step(
        self,
        tokens: Tensor,
        sources: Sequence[Memory],
        pasts: Sequence[Memory | None],
        positions: Tensor,
    ) -> tuple[Any, Any]:
        """A step for the C, with room for its tokens, and what must stay alive for it."""
        N, ids = len(tokens), (PAD, tokens.data_ptr(), positions.data_ptr())
        step = structs.DecodeStep(N, *ids, positions.dim() - 1)
        step.cross_view, source_held = kv_view(sources[0], sources[0].rows)
        step.cross_caches = self._cache_structs(sources, "sources")
        if type(pasts[0]) is StateMemory:
            held = ssru_states(pasts, N, self.decoder.dim)
            step.ssru_states = (c_void_p * len(held))(*(state.data_ptr() for state in held))
            self.decoder.extend_tables(int(positions.max()) + 1)
        else:
            held = self._extend_caches(step, pasts)
        return step, (source_held, held)

    def spare_steps(self, pasts: Sequence[Any]) -> int:
        """Steps for which there is room after the one that was described; 0 where more must be
        done between steps than writing tokens.
        """
        first = pasts[0]
        if type(first) not in (DenseMemory, SlabMemory):
            return 0
        length: int = first.length // first.beams
        room: int = first.storage["k"].shape[2] // first.beams
        return min(room, self.decoder.positions, self.max_length or room) - length

    def _extend_caches(self, step: Any, pasts: Sequence[Any]) -> Any:
        """Have room for a token in every row. Returns: what must stay alive."""
        first, rows = pasts[0], step.rows // pasts[0].beams
        like = self._like  # other threads may decode, too
        if like["k"].shape[0] != rows:
            example = like["k"][:1].expand(rows, -1, -1, -1)
            self._like = like = {"k": example, "v": example}
        for past in pasts:
            past.extend(like, first.beams)
        step.self_view, held = kv_view(first, step.rows)
        step.self_caches = self._cache_structs(pasts, "pasts")
        self.decoder.extend_tables(step.self_view.length)
        return held

    def count_tokens(self, pasts: Sequence[Any], steps: int) -> None:
        """Count what the C has written in further steps."""
        for past in pasts:
            past.extend(self._like, steps * past.beams)

    def _cache_structs(self, memories: Sequence[Any], kind: str) -> Any:
        """The keys and values of each layer for the C, described anew only when they have moved."""
        known, array = self._caches.get(kind, (None, None))
        first = memories[0].storage["k"], memories[0].kept
        if known is None or first[0] is not known[0] or first[1] is not known[1]:
            array = (structs.KVCache * len(memories))()
            for i, memory in enumerate(memories):
                array[i] = kv_cache(memory)
            self._caches[kind] = first, array
        return array


def ssru_states(pasts: Sequence[Any], rows: int, dim: int) -> list[Tensor]:
    """The states of recurrent layers, (N, E) each, for the C to write; zeros at first."""
    for past in pasts:
        c = past.state.get("c")
        past.state = {"c": torch.zeros(rows, dim) if c is None else c.contiguous()}
    return [past.state["c"] for past in pasts]
