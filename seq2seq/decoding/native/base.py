"""The base of models with native steps, and the structures that describe them."""

from collections.abc import Sequence
from ctypes import pointer
from math import prod
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from seq2seq.attention.base import Attention, Encoded
from seq2seq.attention.paged import PagedMemory, PagedSource
from seq2seq.attention.slab import SlabMemory
from seq2seq.base.errors import DataError
from seq2seq.base.symbols import EOS, NEVER_GENERATED, PAD
from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.constraints import NativeConstraints
from seq2seq.decoding.native.layout import WORKSPACE, constants, data_ptr, structs
from seq2seq.decoding.native.linear import NativeLinear, PackedMatrix, Packer
from seq2seq.models.base import PLAIN, Decoded, Memories, PassOptions, Seq2Seq
from seq2seq.models.candidates import CandidateRequest, Candidates
from seq2seq.models.state import DecodeState

MAX_CANDIDATES = 64  # most that are found while the output layer is computed
MAX_STEPS = 16  # per call, so that new requests and cancellations do not wait long
BANNED = torch.tensor(NEVER_GENERATED)


class NativeModel(Seq2Seq):
    """A faster copy of a model, with the same memories, so that searches treat both alike.

    Args:
        model: covered model, which computes the rest, such as the weights of cross-attention.
        packer: packer of its linear maps.

    Attributes:
        encoder, decoder: structures of its encoder and decoder.
        encode_batch: native function that computes the encoder.
        embedding: structure of the decoder's embedding.
    """

    encoder: Any
    encode_batch: Any
    decoder: Any
    embedding: Any

    def __init__(self, model: Seq2Seq, packer: Packer):
        super().__init__()
        self.model, self.embeddings = model, model.embeddings
        self.max_length = model.max_length
        self.depth = len(model.cross_attentions)  # layers: the number of memories of each kind
        self.group_marks, self.unpositioned = model.group_marks, model.unpositioned
        self.packer, self.library = packer, packer.library
        self._caches: dict[str, tuple[Any, Any]] = {}  # by `_cache_structs`

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the packed matrices, from which another process makes its own structures."""
        packer = self.packer
        return load_native, (type(self), self.model, packer.matrices, packer.int8)

    has_constant_step = False

    @property
    def cross_attentions(self) -> list[Attention[Any]]:
        return self.model.cross_attentions

    def forward(self, source: Tensor, target: Tensor, options: PassOptions = PLAIN) -> Decoded:
        return self.model.forward(source, target, options)

    def encode(self, source: Tensor) -> Encoded:
        (B, S), dim = source.shape, self.embeddings.dim
        mask = source != PAD
        lengths, positions = mask.sum(1), self.source_positions(source).expand(B, S)
        is_full = bool(mask.all())
        tokens = source.contiguous() if is_full else source[mask]
        positions = positions.flatten().contiguous() if is_full else positions[mask]
        states = torch.empty(len(positions), dim)
        batch = structs.EncodeBatch(
            rows=len(positions),
            sentences=B,
            max_length=S,
            tokens=tokens.data_ptr(),
            positions=positions.data_ptr(),
            lengths=lengths.data_ptr(),
        )
        code = WORKSPACE.run(self.encode_batch, self.encoder, batch, states.data_ptr())
        check_code(code, self.encoder.embedding, tokens, positions)
        if not is_full:
            real, states = states, states.new_zeros(B, S, dim)
            states[mask] = real
        return Encoded(states.view(B, S, dim), None if is_full else mask, self.groups(source))

    def decode(
        self, tokens: Tensor, memories: Memories, positions: Tensor, options: PassOptions = PLAIN
    ) -> Decoded:
        if tokens.shape[1] > 1 or options.need_weights or memories.pasts[0] is None:
            return self.model.decode(tokens, memories, positions, options)
        tokens, positions = tokens.contiguous(), positions.contiguous()
        step, _held = self.describe_step(tokens, *memories, positions)
        hidden = torch.empty(len(tokens), 1, self.embeddings.dim)
        code = WORKSPACE.run(self.library.s2s_decode, self.decoder, step, hidden.data_ptr())
        check_code(code, self.embedding, tokens, positions)
        return Decoded(hidden, None)

    def describe_step(
        self, tokens: Tensor, sources: Sequence[Any], pasts: Sequence[Any], positions: Tensor
    ) -> tuple[Any, Any]:
        """Describe a step, and reserve its tokens.

        Returns: the structure, and references that must outlive the call.
        """
        if not len(sources) == len(pasts) == self.depth:  # or it would read beyond the arrays
            raise ValueError(f"{len(sources)} + {len(pasts)} memories for {self.depth} layers")
        ids = PAD, tokens.data_ptr(), positions.data_ptr()
        step = structs.DecodeStep(len(tokens), *ids, positions.dim() - 1)
        step.cross_view, source_held = kv_view(sources[0], sources[0].rows)
        step.cross_caches = self.cache_structs(sources, "sources")
        return step, (source_held, self.describe_past(step, pasts, positions))

    def describe_past(self, step: Any, pasts: Sequence[Any], positions: Tensor) -> Any:
        """Fill in the step's pointers to the states or caches of the rows.

        Returns: references that must outlive the call.
        """
        step.states, step.states_count = states = state_structs(pasts)
        return states

    def spare_steps(self, state: DecodeState) -> int:
        """The number of steps that fit after the one that was described."""
        return MAX_STEPS

    def count_tokens(self, pasts: Sequence[Any], steps: int) -> None:
        """Count the tokens that further native steps have written."""

    def cache_structs(self, memories: Sequence[Any], kind: str) -> Any:
        """The structures of each layer's keys and values, rebuilt only when these have moved."""
        known, array = self._caches.get(kind, (None, None))
        first = memories[0].storage["k"], memories[0].kept
        if known is None or first[0] is not known[0] or first[1] is not known[1]:
            array = (structs.KVCache * len(memories))()
            for i, memory in enumerate(memories):
                array[i] = kv_cache(memory)
            self._caches[kind] = first, array
        return array

    def logits(self, hidden: Tensor) -> Tensor:
        return self.model.logits(hidden)

    def candidates(self, hidden: Tensor, request: CandidateRequest) -> Candidates:
        """As in `Seq2Seq`, but without storing the logits."""
        if request.count > MAX_CANDIDATES:
            return super().candidates(hidden, request)
        N, V = hidden.shape[0], self.head.outputs
        C, hidden = min(request.count, V), hidden.contiguous()
        found = Candidates(torch.empty(N, C), torch.empty(N, C, dtype=torch.int64))
        topk = self.topk_struct(*found, request.listed)
        topk.no_eos, topk.forced = data_ptr(request.no_eos), data_ptr(request.forced)
        tokens = request.banned, request.allowed, request.required
        constraints = NativeConstraints(tokens, N, V)
        topk.constraints = pointer(constraints.struct)
        arguments = self.head.struct, hidden.data_ptr(), N, topk
        check_code(WORKSPACE.run(self.library.s2s_topk, *arguments))
        if request.required is None:
            return found
        best = found.logp.numpy(), found.ids.numpy()
        return Candidates(*map(torch.from_numpy, constraints.append_required(np.arange(N), *best)))

    def topk_struct(self, logp: Tensor, ids: Tensor, listed: Tensor | None) -> Any:
        """The structure for finding the k best next tokens of N rows.

        Args:
            logp, ids: results, (N, k), which must outlive the structure.
            listed: as in `CandidateRequest`, (N, W); or (N / K, W) for K rows each.
        """
        topk = structs.TopK(
            k=ids.shape[1],
            banned=BANNED.data_ptr(),
            banned_count=len(NEVER_GENERATED),
            eos=EOS,
            log_probs=logp.data_ptr(),
            ids=ids.data_ptr(),
        )
        if listed is not None:
            lists, weight = len(listed), cast(NativeLinear, self.model.embeddings.output).rows
            rows = torch.arange(lists).repeat_interleave(len(ids) // max(1, lists))
            topk.held = parts = (listed >= 0).sum(1), listed.contiguous(), rows
            addresses = (part.data_ptr() for part in parts)
            shortlist = structs.Shortlist(weight.data_ptr(), *listed.shape, *addresses)
            topk.shortlist = pointer(shortlist)
        return topk

    @property
    def head(self) -> PackedMatrix:
        """The packed output layer."""
        return cast(PackedMatrix, self.model.embeddings.output.packed)


def embedding_struct(weight: Tensor, scale: float) -> Any:
    """The structure of an embedding matrix (V, E)."""
    return structs.Embedding(weight.data_ptr(), scale, None, len(weight))


def kv_cache(memory: Any) -> Any:
    """The structure of a memory's keys and values, which share one layout."""
    k, v, kept = memory.storage["k"], memory.storage["v"], memory.kept
    rows = k.shape[0] if kept is None else memory.rows
    return structs.KVCache(k.data_ptr(), v.data_ptr(), rows, *k.stride()[:3], data_ptr(kept))


def kv_view(memory: Any, rows: int) -> tuple[Any, Any]:
    """The structure of the slots that rows read, and a reference that must outlive it."""
    if type(memory) in (PagedMemory, PagedSource):  # `isinstance` of a protocol is slow
        view = memory.table.view
        slots = view.slots.data_ptr(), view.slots.stride(0)
        return structs.KVView(rows, view.slots.shape[1], data_ptr(view.mask), *slots), view
    if type(memory) is SlabMemory:
        table = memory.table
        slots = table.entries.data_ptr(), table.entries.stride(0)
        return structs.KVView(rows, table.length, None, *slots), table.entries
    mask = None if memory.mask is None else memory.mask.contiguous()
    return structs.KVView(rows, memory.length, data_ptr(mask)), mask


def state_structs(memories: Sequence[Any]) -> tuple[Any, int]:
    """The structures of the states of memories, which steps overwrite, and their number."""
    for memory in memories:
        memory.state = {name: x.contiguous() for name, x in memory.state.items()}
    states = [x for memory in memories for x in memory.state.values()]
    rows = ((x.data_ptr(), prod(x.shape[1:])) for x in states)
    return (structs.RowState * len(states))(*rows), len(states)


def check_code(code: int, embedding: Any = None, *ids: Tensor) -> None:
    """Check the return code of a native function.

    Args:
        ids: tokens, and perhaps positions, that it received.

    Raises: DataError for an invalid list of tokens, and for tokens and positions that the embedding
        lacks.
    """
    if code >= 0:
        return
    if code == -constants.BAD_LIST:
        raise DataError("a list of tokens should hold one or more ids, all of target pieces")
    is_token = code == -constants.BAD_TOKEN
    name, given = ("an id", ids[0]) if is_token else ("a position", ids[1])
    rows = embedding.vocab_size if is_token else embedding.max_positions
    wrong = int(given.min()) if given.min() < 0 else int(given.max())
    raise DataError(f"{name} of {wrong} is out of range: the model has {rows:,}")


def load_native(
    kind: type[NativeModel], model: Seq2Seq, matrices: Sequence[PackedMatrix], int8: bool
) -> NativeModel:
    return kind(model, Packer(load_library(), int8, matrices))
