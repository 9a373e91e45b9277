"""The base of models whose steps are computed by the C: what all of them do alike."""

from collections.abc import Sequence
from ctypes import pointer
from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.layout import WORKSPACE, structs
from seq2seq.decoding.native.linear import PackedMatrix, Packer
from seq2seq.errors import DataError
from seq2seq.models.base import Decoded, Layers, Seq2Seq
from seq2seq.models.candidates import CandidateRequest, Candidates
from seq2seq.models.token_lists import TokenLists
from seq2seq.symbols import EOS, NEVER_GENERATED, PAD

MAX_CANDIDATES = 64  # that are found while the head is computed
BANNED = torch.tensor(NEVER_GENERATED)


class NativeModel(Seq2Seq):
    """A model, faster: what it remembers, and so what searches do with it, is the same.

    Args:
        model: covered; it computes what the C does not, such as the weights of cross-attention.
        packer: of its linear maps.
    """

    def __init__(self, model: Seq2Seq, packer: Packer):
        super().__init__()
        self.model, self.embeddings = model, model.embeddings
        self.max_length, self.group_marks = model.max_length, model.group_marks
        self.packer, self.library = packer, packer.library

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the same matrices, and makes structures of its own."""
        packer = self.packer
        return load_native, (type(self), self.model, packer.matrices, packer.int8)

    def forward(self, source: Tensor, target: Tensor, need_weights: Layers = False) -> Decoded:
        return self.model.forward(source, target, need_weights)

    def encode(self, source: Tensor) -> Encoded:
        self._check_length(source.shape[1], "source")
        (B, S), dim = source.shape, self.embeddings.dim
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
        self.run_encoder(batch, tokens, positions, states)
        if not is_full:
            real, states = states, states.new_zeros(B, S, dim)
            states[mask] = real
        return Encoded(states.view(B, S, dim), mask, self.groups(source))

    def run_encoder(self, batch: Any, tokens: Tensor, positions: Tensor, states: Tensor) -> None:
        """Hidden states (rows, E) of the tokens of a batch, which points to those and to their
        positions. Raises: DataError for those that the model lacks.
        """
        raise NotImplementedError

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


def shortlist_struct(head: Any, lists: TokenLists, sentences: Tensor) -> Any:
    """The lists that rows choose from, for the C."""
    sizes, addresses = lists.ids.shape, (lists.lengths.ctypes.data, lists.ids.ctypes.data)
    return structs.Shortlist(head.rows.data_ptr(), *sizes, *addresses, sentences.data_ptr())


def check_listed(code: int) -> None:
    """Raises: DataError for the error of the C that tells of a list."""
    if code < 0:
        raise DataError("a list of tokens should hold ids of the target's pieces, one at least")


def load_native(
    kind: type[NativeModel], model: Seq2Seq, matrices: Sequence[PackedMatrix], int8: bool
) -> NativeModel:
    return kind(model, Packer(load_library(), int8, matrices))
