"""A Transformer whose stacks are computed by the C, with the memories of the others."""

from collections.abc import Sequence
from ctypes import c_void_p, pointer
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory, Memory, StateMemory
from seq2seq.attention.paged import PagedMemory, PagedSource
from seq2seq.attention.slab import SlabMemory
from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.layout import WORKSPACE, structs
from seq2seq.decoding.native.linear import PackedMatrix, Packer
from seq2seq.decoding.native.stacks import NativeStack
from seq2seq.errors import DataError
from seq2seq.models.base import Decoded, Layers, Seq2Seq
from seq2seq.models.candidates import CandidateRequest, Candidates
from seq2seq.models.token_lists import TokenLists
from seq2seq.models.transformer import Transformer
from seq2seq.symbols import EOS, NEVER_GENERATED, PAD

MAX_CANDIDATES = 64  # that are found while the head is computed
BANNED = torch.tensor(NEVER_GENERATED)


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
        self.packer, self.library = packer, packer.library
        self.encoder = NativeStack(packer, model, "encoder")
        self.decoder = NativeStack(packer, model, "decoder")
        # The keys and values of the source in all layers: k and v of the first, and so on.
        crosses = [layer.cross for layer in model.decoder]
        self.source_kv = packer.pack(*(m for cross in crosses for m in (cross.k, cross.v)))
        self._caches: dict[str, tuple[Any, Any]] = {}  # by `_cache_structs`
        attention = self.decoder.layers[0].self_attn
        example = torch.empty(1, 1, attention.n_kv_heads, attention.head_dim)
        self._like = {"k": example, "v": example}  # the keys and values of a token in each row

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the same matrices, and makes structures of its own."""
        return load_transformer, (self.model, self.packer.matrices, self.packer.int8)

    def encode(self, source: Tensor) -> Encoded:
        self._check_length(source.shape[1], "source")
        (B, S), dim = source.shape, self.encoder.dim
        mask = source != PAD
        lengths, positions = mask.sum(1), torch.arange(S)
        is_full = bool(mask.all())
        tokens = source.contiguous() if is_full else source[mask]
        positions = positions.repeat(B) if is_full else positions.expand(B, S)[mask]
        states = torch.empty(len(positions), dim)
        batch = structs.EncodeBatch(
            rows=len(positions),
            sentences=B,
            max_length=S,
            tokens=tokens.data_ptr(),
            positions=positions.data_ptr(),
            lengths=lengths.data_ptr(),
        )
        self.encoder.extend_tables(S)
        self.encoder.run(self.library.s2s_encode, tokens, positions, batch, states.data_ptr())
        if not is_full:
            real, states = states, states.new_zeros(B, S, dim)
            states[mask] = real
        return Encoded(states.view(B, S, dim), mask, self.groups(source))

    def forward(self, source: Tensor, target: Tensor, need_weights: Layers = False) -> Decoded:
        return self.model.forward(source, target, need_weights)

    def memories(self, encoded: Encoded, beams: int) -> tuple[list[Memory], list[Memory]]:
        """As the model's; keys and values of all layers are one product."""
        B, S, _ = encoded.states.shape
        L, attention = len(self.model.decoder), self.decoder.layers[0].cross_attn
        of_all = self.source_kv.product(encoded.states.flatten(0, 1))
        # (2 L, B, G, S, D)
        shape = B, S, 2 * L, attention.n_kv_heads, attention.head_dim
        parts = of_all.view(shape).permute(2, 0, 3, 1, 4).contiguous()
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
        step = structs.DecodeStep(N, tokens.data_ptr(), positions.data_ptr(), positions.dim() - 1)
        step.cross_view, source_held = kv_view(sources[0], sources[0].rows)
        step.cross_caches = self._cache_structs(sources, "sources")
        if type(pasts[0]) is StateMemory:
            held = ssru_states(pasts, N, dim)
            step.ssru_states = (c_void_p * len(held))(*(state.data_ptr() for state in held))
            self.decoder.extend_tables(int(positions.max()) + 1)
        else:
            held = self._extend_caches(step, pasts)
        hidden = torch.empty(N, 1, dim)
        self.decoder.run(self.library.s2s_decode, tokens, positions, step, hidden.data_ptr())
        return Decoded(hidden, None)

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

    def _cache_structs(self, memories: Sequence[Any], kind: str) -> Any:
        """The keys and values of each layer for the C, described anew only when they have moved."""
        known, array = self._caches.get(kind, (None, None))
        first = memories[0].storage["k"], memories[0].kept
        if known is None or first[0] is not known[0] or first[1] is not known[1]:
            array = (structs.KVCache * len(memories))()
            for i, memory in enumerate(memories):
                k, v = memory.storage["k"], memory.storage["v"]
                array[i] = structs.KVCache(k.data_ptr(), v.data_ptr(), k.shape[0], *k.stride()[:3])
                if first[1] is not None:
                    array[i].rows, array[i].kept = memory.rows, memory.kept.data_ptr()
            self._caches[kind] = first, array
        return array

    def logits(self, hidden: Tensor) -> Tensor:
        return self.model.logits(hidden)

    def candidates(self, hidden: Tensor, request: CandidateRequest) -> Candidates:
        """As the model's. Rows for which some token is special, as while they have a constraint,
        take the logits of all tokens; the others are as without them.
        """
        if request.count > MAX_CANDIDATES:
            return super().candidates(hidden, request)
        constrained = request.rows_with_constraints()
        if constrained is None:
            return self._top_candidates(hidden, request)
        full = super().candidates(hidden[constrained], request.select_rows(constrained))
        if len(constrained) == len(hidden):
            return full
        is_free = torch.ones(len(hidden), dtype=torch.bool).index_fill_(0, constrained, False)
        free = is_free.nonzero()[:, 0]
        found = self._top_candidates(hidden[free], request.select_rows(free))
        # What is required of constrained rows comes last, and has probability 0 elsewhere.
        shape, C = (len(hidden), full.ids.shape[1]), found.ids.shape[1]
        logp, ids = torch.full(shape, -torch.inf), torch.zeros(shape, dtype=torch.long)
        logp[constrained], ids[constrained] = full
        logp[free, :C], ids[free, :C] = found
        return Candidates(logp, ids)

    def _top_candidates(self, hidden: Tensor, request: CandidateRequest) -> Candidates:
        """The best of each row, by the C: no logits are written."""
        N, C = hidden.shape[0], min(request.count, self.head.outputs)
        hidden = hidden.contiguous()
        found = Candidates(torch.empty(N, C), torch.empty(N, C, dtype=torch.int64))
        topk = self.topk_struct(*found, request.lists, request.sentences)
        if request.no_eos is not None:
            topk.no_eos = request.no_eos.data_ptr()
        if request.forced is not None:
            topk.forced = request.forced.data_ptr()
        head = self.head.struct
        check_listed(WORKSPACE.run(self.library.s2s_topk, head, hidden.data_ptr(), N, topk))
        return found

    def topk_struct(
        self,
        logp: Tensor,
        ids: Tensor,
        lists: TokenLists | None = None,
        sentences: Tensor | None = None,
    ) -> Any:
        """The k best next tokens of N rows for the C, which it writes to logp and ids, (N, k).

        Args:
            lists, sentences: as in `CandidateRequest`; whoever uses the structure holds them.
        """
        shortlist = None
        if lists is not None and sentences is not None:
            shortlist = pointer(shortlist_struct(self.model.embeddings.output, lists, sentences))
        return structs.TopK(
            k=ids.shape[1],
            banned=BANNED.data_ptr(),
            banned_count=len(NEVER_GENERATED),
            eos=EOS,
            shortlist=shortlist,
            log_probs=logp.data_ptr(),
            ids=ids.data_ptr(),
        )

    @property
    def head(self) -> PackedMatrix:
        """The map to the outputs, as it was packed when the model's maps were replaced."""
        head: Any = self.model.embeddings.output
        packed: PackedMatrix = head.packed
        return packed


def kv_view(memory: Any, rows: int) -> tuple[Any, Any]:
    """The slots of a memory that rows read, for the C, and what must stay alive for that."""
    if type(memory) in (PagedMemory, PagedSource):  # `isinstance` of a protocol is slow
        view = memory.table.view
        mask = None if view.mask is None else view.mask.data_ptr()
        slots = view.slots.data_ptr(), view.slots.stride(0)
        return structs.KVView(rows, view.slots.shape[1], mask, *slots), view
    if type(memory) is SlabMemory:
        table = memory.table
        slots = table.entries.data_ptr(), table.entries.stride(0)
        return structs.KVView(rows, table.length, None, *slots), table.entries
    mask = memory.mask
    if mask is None:
        return structs.KVView(rows, memory.length), None
    mask = mask.contiguous()
    return structs.KVView(rows, memory.length, mask.data_ptr()), mask


def shortlist_struct(head: Any, lists: TokenLists, sentences: Tensor) -> Any:
    """The lists that rows choose from, for the C."""
    sizes, addresses = lists.ids.shape, (lists.lengths.ctypes.data, lists.ids.ctypes.data)
    return structs.Shortlist(head.rows.data_ptr(), *sizes, *addresses, sentences.data_ptr())


def check_listed(code: int) -> None:
    """Raises: DataError for the error of the C that tells of a list."""
    if code < 0:
        raise DataError("a list of tokens should hold ids of the target's pieces, one at least")


def ssru_states(pasts: Sequence[Any], rows: int, dim: int) -> list[Tensor]:
    """The states of recurrent layers, (N, E) each, for the C to write; zeros at first."""
    for past in pasts:
        c = past.state.get("c")
        past.state = {"c": torch.zeros(rows, dim) if c is None else c.contiguous()}
    return [past.state["c"] for past in pasts]


def load_transformer(
    model: Transformer, matrices: Sequence[PackedMatrix], int8: bool
) -> NativeTransformer:
    return NativeTransformer(model, Packer(load_library(), int8, matrices))
