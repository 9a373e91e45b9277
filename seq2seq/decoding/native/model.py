"""A Transformer whose stacks are computed by the C, with the memories of the others."""

from collections.abc import Sequence
from ctypes import pointer
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory, Memory, StateMemory
from seq2seq.attention.slab import SlabMemory
from seq2seq.decoding.native.base import MAX_STEPS, NativeModel, check_code
from seq2seq.decoding.native.caches import kv_view, state_structs
from seq2seq.decoding.native.layout import WORKSPACE, structs
from seq2seq.decoding.native.linear import Packer
from seq2seq.decoding.native.stacks import NativeStack
from seq2seq.models.base import Memories
from seq2seq.models.state import DecodeState
from seq2seq.models.transformer import Transformer


class NativeTransformer(NativeModel):
    """A Transformer with both stacks in the C."""

    model: Transformer

    def __init__(self, model: Transformer, packer: Packer):
        super().__init__(model, packer)
        self.encoder = NativeStack(packer, model, "encoder")
        self.stack = NativeStack(packer, model, "decoder")
        self.decoder = structs.Decoder(stack=pointer(self.stack.struct))
        self.embedding = self.stack.embedding
        # The keys and values of the source in each layer.
        crosses = [layer.cross for layer in model.decoder]
        self.source_kv = [packer.pack(cross.k, cross.v) for cross in crosses]
        attention = self.stack.layers[0].self_attn
        example = torch.empty(1, 1, attention.n_kv_heads, attention.head_dim)
        self._like = {"k": example, "v": example}  # the keys and values of a token in each row

    def run_encoder(self, batch: Any, tokens: Tensor, positions: Tensor, states: Tensor) -> None:
        self.encoder.extend_tables(batch.max_length)
        arguments = self.encoder.struct, batch, states.data_ptr()
        code = WORKSPACE.run(self.library.s2s_encode, *arguments)
        check_code(code, self.encoder.embedding, tokens, positions)

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        """As the model's; the keys and values of a layer are one product."""
        B, S, _ = encoded.states.shape
        attention = self.stack.layers[0].cross_attn
        states = encoded.states.flatten(0, 1)
        shape = B, S, 2, attention.n_kv_heads, attention.head_dim
        sources: list[Memory] = []
        for source_kv in self.source_kv:
            # (2, B, G, S, D), as the C reads it; layer by layer, since these are large.
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
        step.states, step.states_count = states = state_structs(pasts)
        return states

    def spare_steps(self, state: DecodeState) -> int:
        first: Any = state.past[0]
        places: int = self.embedding.max_positions
        if self.max_length is not None:
            places = min(places, self.max_length)
        if type(first) is StateMemory:
            return places - state.length
        if type(first) not in (DenseMemory, SlabMemory):
            return 0  # more must be done between steps than writing tokens
        room: int = first.storage["k"].shape[2] // first.beams
        return min(room, places) - state.length

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
        step.self_caches = self.cache_structs(pasts, "pasts")
        self.stack.extend_tables(step.self_view.length)
        return held

    def count_tokens(self, pasts: Sequence[Any], steps: int) -> None:
        """Count what the C has written in further steps."""
        for past in pasts:
            if type(past) is not StateMemory:
                past.extend(self._like, steps * past.beams)
