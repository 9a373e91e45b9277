"""A Transformer whose stacks are computed by the C, with the memories of the others."""

from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory, Memory, StateMemory
from seq2seq.attention.paged import PagedMemory, PagedSource
from seq2seq.attention.slab import SlabMemory
from seq2seq.decoding.native import is_required
from seq2seq.decoding.native.layout import WORK, address, structs
from seq2seq.decoding.native.linear import Packed, Packer
from seq2seq.decoding.native.stacks import NativeStack
from seq2seq.models.base import Decoded, Layers, Seq2Seq
from seq2seq.models.candidates import Candidates
from seq2seq.models.transformer import Transformer
from seq2seq.symbols import BOS, EOS, PAD, UNK

MOST = 64  # candidates that are found while the head is computed
NEVER = torch.tensor([PAD, BOS, UNK])  # symbols that no text contains
SIDES = ("encoder", "decoder")


class NativeTransformer(Seq2Seq):
    """The same model, faster: what it remembers, and so what searches do with it, is the same.

    Args:
        model: covered; it computes what the C does not, such as the weights of cross-attention.
        packer: of its linear maps.
    """

    def __init__(self, model: Transformer, packer: Packer):
        super().__init__()
        self.model, self.embeddings = model, model.embeddings
        self.max_length, self.group_marks = model.max_length, model.group_marks
        self.packer, self.functions = packer, packer.functions
        self.encoder, self.decoder = (NativeStack(packer, model, side) for side in SIDES)
        own = self.decoder.struct.layer[0].own
        self._known: dict[str, tuple[Tensor, Any]] = {}  # for `_stores`
        example = torch.empty(1, 1, own.groups, own.width)
        self._like = {"k": example, "v": example}  # the keys and values of a token in each row

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the same matrices, and makes structures of its own."""
        return unpickled, (self.model, self.packer.made, self.packer.int8)

    def encode(self, source: Tensor) -> Encoded:
        self._check_length(source.shape[1], "source")
        (B, S), dim = source.shape, self.encoder.dim
        mask = source != PAD
        lengths, positions = mask.sum(1), torch.arange(S)
        is_full = bool(mask.all())
        tokens = source.contiguous() if is_full else source[mask]
        positions = positions.repeat(B) if is_full else positions.expand(B, S)[mask]
        states = torch.empty(len(positions), dim)
        self.encoder.reach(S)
        self.encoder.check(tokens, positions)
        WORK.run(
            *(self.functions.encode, self.encoder.struct, B, address(lengths), len(positions), S),
            *(address(tokens), address(positions), address(states)),
        )
        if not is_full:
            real, states = states, states.new_zeros(B, S, dim)
            states[mask] = real
        return Encoded(states.view(B, S, dim), mask, self.groups(source))

    def forward(self, source: Tensor, target: Tensor, need_weights: Layers = False) -> Decoded:
        return self.model.forward(source, target, need_weights)

    def memories(self, encoded: Encoded, beams: int) -> tuple[list[Memory], list[Memory]]:
        """As the model's; keys and values of all layers are one product."""
        B, S, _ = encoded.states.shape
        L, own = len(self.model.decoder), self.decoder.struct.layer[0].cross
        assert self.decoder.of_source is not None
        of_all = self.decoder.of_source.product(encoded.states.flatten(0, 1))
        # (2 L, B, G, S, D)
        parts = of_all.view(B, S, 2 * L, own.groups, own.width).permute(2, 0, 3, 1, 4).contiguous()
        streams = parts.transpose(2, 3).unbind()
        sources: list[Memory] = [
            DenseMemory.of({"k": streams[2 * i], "v": streams[2 * i + 1]}, encoded.mask)
            for i in range(L)
        ]
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
        N, dim = tokens.shape[0], self.decoder.dim
        tokens, positions = tokens.contiguous(), positions.contiguous()
        step = structs.step(N, tokens.data_ptr(), positions.data_ptr(), positions.dim() - 1)
        step.source, also_held = readable(sources[0], sources[0].rows)
        step.sources = self._stores(sources, "sources")
        if type(pasts[0]) is StateMemory:
            held = states_of(pasts, N, dim)
            step.states = (c_void_p * len(held))(*map(address, held))
            self.decoder.reach(int(positions.max()) + 1)
        else:
            held = self._grow(step, pasts)
        self.decoder.check(tokens, positions)
        hidden = torch.empty(N, 1, dim)
        WORK.run(self.functions.decode, self.decoder.struct, step, hidden.data_ptr())
        return Decoded(hidden, None)

    def _grow(self, step: Any, pasts: Sequence[Any]) -> Any:
        """Have room for a token in every row. Returns: what must stay alive."""
        own, rows = pasts[0], step.rows // pasts[0].beams
        like = self._like  # other threads may decode, too
        if like["k"].shape[0] != rows:
            example = like["k"][:1].expand(rows, -1, -1, -1)
            self._like = like = {"k": example, "v": example}
        for past in pasts:
            past.extend(like, own.beams)
        step.own, held = readable(own, step.rows)
        step.pasts = self._stores(pasts, "pasts")
        self.decoder.reach(step.own.columns // own.beams)
        return held

    def _stores(self, memories: Sequence[Any], kind: str) -> Any:
        """Where the keys and values of each layer are: found again only when they have moved."""
        known, array = self._known.get(kind, (None, None))
        first = memories[0].storage["k"]
        if first is not known:
            array = (structs.memory * len(memories))()
            for i, memory in enumerate(memories):
                k, v = memory.storage["k"], memory.storage["v"]
                array[i] = structs.memory(address(k), address(v), k.shape[0], *k.stride()[:3])
            self._known[kind] = first, array
        return array

    def logits(self, hidden: Tensor) -> Tensor:
        return self.model.logits(hidden)

    def candidates(self, hidden: Tensor, count: int, unending: Tensor | None = None) -> Candidates:
        """`top_candidates` of hidden states (N, E), at most `MOST`, without writing all logits.

        Args:
            unending: rows that may not end yet, (N,) bool; None = all may.
        """
        head: Any = self.model.embeddings.output
        N, C = hidden.shape[0], min(count, head.packed.outputs)
        hidden = hidden.contiguous()
        values, ids = torch.empty(N, C), torch.empty(N, C, dtype=torch.int64)
        best = structs.best(
            *(C, address(NEVER), NEVER.shape[0], EOS, address(unending)),
            *(values.data_ptr(), ids.data_ptr()),
        )
        WORK.run(self.functions.best_outputs, head.packed.struct, hidden.data_ptr(), N, best)
        return Candidates(values, ids)


def readable(memory: Any, rows: int) -> tuple[Any, Any]:
    """What rows read of a memory, line by line, and what must stay alive for that."""
    if type(memory) in (PagedMemory, PagedSource):  # `isinstance` of a protocol is slow
        view = memory.table.view
        mask, where = view.mask, (view.slots.data_ptr(), view.slots.stride(0))
        return structs.readable(rows, view.slots.shape[1], address(mask), *where), view
    mask = memory.table.read if type(memory) is SlabMemory else memory.mask
    if mask is not None:
        mask = mask.contiguous()
    return structs.readable(rows, memory.length, address(mask)), mask


def states_of(pasts: Sequence[Any], rows: int, dim: int) -> list[Tensor]:
    """What recurrent layers remember, (N, E) each, for the C to write; zeros at first."""
    for past in pasts:
        c = past.state.get("c")
        past.state = {"c": torch.zeros(rows, dim) if c is None else c.contiguous()}
    return [past.state["c"] for past in pasts]


def unpickled(model: Transformer, made: Sequence[Packed], int8: bool) -> NativeTransformer:
    return NativeTransformer(model, Packer(is_required(), int8, made))
