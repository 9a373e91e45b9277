"""The base of models whose steps are computed by the C: what all of them do alike."""

from collections.abc import Sequence
from ctypes import pointer
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.attention.base import Attention, Encoded
from seq2seq.base.errors import DataError
from seq2seq.base.symbols import EOS, NEVER_GENERATED, PAD
from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.caches import kv_cache, kv_view
from seq2seq.decoding.native.constraints import NativeConstraints
from seq2seq.decoding.native.layout import WORKSPACE, constants, structs
from seq2seq.decoding.native.linear import PackedMatrix, Packer
from seq2seq.models.base import PLAIN, Decoded, Memories, PassOptions, Seq2Seq
from seq2seq.models.candidates import CandidateRequest, Candidates
from seq2seq.models.state import DecodeState
from seq2seq.models.token_lists import TokenLists

MAX_CANDIDATES = 64  # that are found while the head is computed
MAX_STEPS = 16  # in one call: whoever waits for news, or cancels, waits no longer
BANNED = torch.tensor(NEVER_GENERATED)


class NativeModel(Seq2Seq):
    """A model, faster: what it remembers, and so what searches do with it, is the same.

    Args:
        model: covered; it computes what the C does not, such as the weights of cross-attention.
        packer: of its linear maps.

    Attributes:
        decoder: for the C.
        embedding: the decoder's.
    """

    decoder: Any
    embedding: Any

    def __init__(self, model: Seq2Seq, packer: Packer):
        super().__init__()
        self.model, self.embeddings = model, model.embeddings
        self.max_length = model.max_length
        self.depth = len(model.cross_attentions)  # a step reads as many memories of each kind
        self.group_marks, self.unpositioned = model.group_marks, model.unpositioned
        self.packer, self.library = packer, packer.library
        self._caches: dict[str, tuple[Any, Any]] = {}  # by `_cache_structs`

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the same matrices, and makes structures of its own."""
        packer = self.packer
        return load_native, (type(self), self.model, packer.matrices, packer.int8)

    @property
    def cross_attentions(self) -> list[Attention[Any]]:
        return self.model.cross_attentions

    def forward(self, source: Tensor, target: Tensor, options: PassOptions = PLAIN) -> Decoded:
        return self.model.forward(source, target, options)

    def encode(self, source: Tensor) -> Encoded:
        self._check_length(source.shape[1], "source")
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
        self.run_encoder(batch, tokens, positions, states)
        if not is_full:
            real, states = states, states.new_zeros(B, S, dim)
            states[mask] = real
        return Encoded(states.view(B, S, dim), None if is_full else mask, self.groups(source))

    def run_encoder(self, batch: Any, tokens: Tensor, positions: Tensor, states: Tensor) -> None:
        """Hidden states (rows, E) of the tokens of a batch, which points to those and to their
        positions. Raises: DataError for those that the model lacks.
        """
        raise NotImplementedError

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
        """A step for the C, with room for its tokens, and what must stay alive for it."""
        if not len(sources) == len(pasts) == self.depth:  # the C would read past the arrays
            raise ValueError(f"{len(sources)} + {len(pasts)} memories for {self.depth} layers")
        ids = PAD, tokens.data_ptr(), positions.data_ptr()
        step = structs.DecodeStep(len(tokens), *ids, positions.dim() - 1)
        step.cross_view, source_held = kv_view(sources[0], sources[0].rows)
        step.cross_caches = self.cache_structs(sources, "sources")
        return step, (source_held, self.describe_past(step, pasts, positions))

    def describe_past(self, step: Any, pasts: Sequence[Any], positions: Tensor) -> Any:
        """Describe for a step what rows remember. Returns: what must stay alive."""
        raise NotImplementedError

    def spare_steps(self, state: DecodeState) -> int:
        """Steps for which there is room after the one that was described."""
        raise NotImplementedError

    def count_tokens(self, pasts: Sequence[Any], steps: int) -> None:
        """Count what the C has written in further steps."""

    def cache_structs(self, memories: Sequence[Any], kind: str) -> Any:
        """The keys and values of each layer for the C, described anew only when they have moved."""
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
        """As the model's, by the C: no logits are written."""
        if request.count > MAX_CANDIDATES:
            return super().candidates(hidden, request)
        N, V = hidden.shape[0], self.head.outputs
        C, hidden = min(request.count, V), hidden.contiguous()
        found = Candidates(torch.empty(N, C), torch.empty(N, C, dtype=torch.int64))
        topk = self.topk_struct(*found, request.lists, request.sentences)
        if request.no_eos is not None:
            topk.no_eos = request.no_eos.data_ptr()
        if request.forced is not None:
            topk.forced = request.forced.data_ptr()
        tokens = request.banned, request.allowed, request.required
        constraints = NativeConstraints(tokens, N, V)
        topk.constraints = pointer(constraints.struct)
        arguments = self.head.struct, hidden.data_ptr(), N, topk
        check_code(WORKSPACE.run(self.library.s2s_topk, *arguments))
        if request.required is None:
            return found
        best = found.logp.numpy(), found.ids.numpy()
        return Candidates(*map(torch.from_numpy, constraints.append_required(np.arange(N), *best)))

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


def shortlist_struct(head: Any, lists: TokenLists, sentences: Tensor) -> Any:
    """The lists that rows choose from, for the C."""
    sizes, addresses = lists.ids.shape, (lists.lengths.ctypes.data, lists.ids.ctypes.data)
    return structs.Shortlist(head.rows.data_ptr(), *sizes, *addresses, sentences.data_ptr())


def check_code(code: int, embedding: Any = None, *ids: Tensor) -> None:
    """Raises: DataError for an error of the C: a list of tokens that is none, or tokens and
    positions, given as `ids`, that an embedding lacks.
    """
    if code >= 0:
        return
    if code == -constants.BAD_LIST:
        raise DataError("a list of tokens should hold ids of the target's pieces, one at least")
    is_token = code == -constants.BAD_TOKEN
    name, given = ("an id", ids[0]) if is_token else ("a position", ids[1])
    rows = embedding.vocab_size if is_token else embedding.max_positions
    wrong = int(given.min()) if given.min() < 0 else int(given.max())
    raise DataError(f"{name} of {wrong} was given to a model of {rows:,}")


def load_native(
    kind: type[NativeModel], model: Seq2Seq, matrices: Sequence[PackedMatrix], int8: bool
) -> NativeModel:
    return kind(model, Packer(load_library(), int8, matrices))
