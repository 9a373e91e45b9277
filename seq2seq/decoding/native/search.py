"""Greedy and plain beam searches with whole steps in one native call."""

from ctypes import pointer

import numpy as np
import torch
from torch import Tensor

from seq2seq.base.symbols import PAD
from seq2seq.decoding.beam import Beam, BeamState
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.native.base import MAX_STEPS, NativeModel, check_code
from seq2seq.decoding.native.constraints import NativeConstraints
from seq2seq.decoding.native.layout import WORKSPACE, address, structs
from seq2seq.decoding.search import Array, SearchState, StepChoice
from seq2seq.models import Seq2Seq
from seq2seq.models.state import DecodeState

MAX_BEAMS = 32  # per sentence


class NativeSearch:
    """Native steps of a search, on the arrays of its state. While there are constraints it takes
    one step per call, since Python computes them.

    Args:
        model: model whose outputs the search chooses from.
        state: state of the search. Once sentences join or leave it, a new `NativeSearch` is needed.
        hypotheses: decoder state of the same rows, which steps also fork.

    The arrays that native steps write have the names of the fields of `StepOutput`.
    """

    def __init__(self, model: NativeModel, state: SearchState, hypotheses: DecodeState):
        self.model, self.state, self.hypotheses = model, state, hypotheses
        B, K = state.tokens.shape[:2]
        self.done = np.zeros(B, dtype=bool)
        self.parents, self.next_tokens = np.zeros((2, B * K), dtype=np.int64)
        self.finished, self.is_moved, self.steps = np.zeros((3, 1), dtype=np.int64)
        self.hidden = torch.empty(B * K, model.embeddings.dim)
        count = min(state.search.candidates, model.head.outputs)
        self.logp = torch.empty(B * K, count)
        self.ids = torch.empty(B * K, count, dtype=torch.long)
        self.topk = model.topk_struct(self.logp, self.ids, state.token_lists)
        self.head = model.head.struct
        self._describe()

    def _describe(self) -> None:
        """Fill in the structures with the addresses of the arrays, whenever these have changed."""
        state, search = self.state, self.state.search
        B, K, room = state.tokens.shape
        arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays()}
        vars(state).update(arrays)
        pointers = {name for name, _ in structs.Search._fields_}.intersection(arrays)
        self.struct = structs.Search(
            sentences=B,
            beams=K,
            room=room,
            pad=PAD,
            is_greedy=not isinstance(search, Beam),
            prefix_width=state.prefixes.shape[1],
            **{name: address(arrays[name]) for name in pointers},
        )
        if isinstance(search, Beam):
            self.struct.by_score = search.stopping == "score"
            self.struct.is_gnmt = search.penalty_form == "gnmt"
        most = B * (2 * K + 1)
        self.finished_sentences, self.finished_scores = np.zeros(most, np.int64), np.zeros(most)
        self.finished_tokens = np.zeros((most, room), dtype=np.int64)
        self.finished_logp = np.zeros((most, room))
        outputs = (getattr(self, name) for name, _ in structs.StepOutput._fields_)
        self.output = structs.StepOutput(*map(address, outputs))

    def step(self, tokens: Tensor) -> tuple[int, StepChoice]:
        """Read the last token of each row, (N, 1), and choose the next ones; repeat as long as no
        hypothesis ends and there is room. Returns: the number of steps, and the last choice.
        """
        if self.state.make_room():
            self._describe()
        if self.state.has_constraints:
            self._choose(self.model.step(tokens, self.hypotheses).hidden.contiguous())
            steps = 1
        else:
            steps = self._decode_steps(tokens)
        if n := int(self.finished[0]):
            scores = self.finished_scores[:n] if isinstance(self.state, BeamState) else None
            ids, logp = self.finished_tokens[:n], self.finished_logp[:n]
            self.state.record(self.finished_sentences[:n], ids, logp, scores)
        return steps, StepChoice(None, torch.from_numpy(self.next_tokens), self.done)

    def _decode_steps(self, tokens: Tensor) -> int:
        """Take one or more native steps. Returns: their number."""
        model, state = self.model, self.hypotheses
        positions = model.begin(1, state).clone()  # the native steps increment them
        step, _held = model.describe_step(tokens, state.source, state.past, positions)
        table, room = self._describe_table(), self.struct.room - self.state.steps
        most = 1 + max(0, min(MAX_STEPS - 1, table, room, model.spare_steps(state)))
        described = step, self.head, self.topk, self.struct, self.output
        arguments = model.decoder, *described, most, self.hidden.data_ptr()
        code = WORKSPACE.run(model.library.s2s_decode_steps, *arguments)
        check_code(code, model.embedding, tokens, positions)
        steps = int(self.steps[0])
        if steps > 1:
            state.begin(steps - 1)
            model.count_tokens(state.past, steps - 1)
            self.state.steps += steps - 1
        return steps

    def _choose(self, hidden: Tensor) -> None:
        """Choose the next tokens after hidden states (N, 1, E)."""
        state, library = self.state, self.model.library
        self._describe_table()
        head, rest = (self.head, hidden.data_ptr()), (self.topk, self.struct, self.output)
        constraints = NativeConstraints(state.next_tokens(), len(hidden), self.model.head.outputs)
        self.topk.constraints = pointer(constraints.struct)
        check_code(WORKSPACE.run(library.s2s_find_candidates, *head, *rest))
        if isinstance(state, BeamState) and len(state.guides.find_required_rows()):
            progress = self._progress(state, constraints)
            self.struct.progress = address(progress)
        WORKSPACE.run(library.s2s_choose, *rest)
        self.topk.constraints = self.struct.progress = None
        B, K = state.tokens.shape[:2]
        if self.is_moved[0]:
            self.hypotheses.fork_memories(torch.from_numpy(self.parents))
        beams = self.parents.reshape(B, K) % K if isinstance(state, BeamState) else None
        state.guides.advance(beams, self.next_tokens.reshape(B, K))

    def _progress(self, state: BeamState, constraints: NativeConstraints) -> Array:
        """The progress of each hypothesis after each of its candidates, (B, K, C + R)."""
        # Candidates are stored for live rows only, without gaps.
        live = ((state.total != -np.inf) & ~self.done[:, None]).ravel()
        rows = state.guides.find_required_rows()
        rows = rows[live[rows]]
        places = live.cumsum()[rows] - 1
        best = self.logp.numpy()[places], self.ids.numpy()[places]
        gains, tokens = constraints.append_required(rows, *best)
        ids = np.zeros((len(live), tokens.shape[1]), dtype=np.int64)
        possible = np.zeros(ids.shape, dtype=bool)
        ids[rows], possible[rows] = tokens, np.isfinite(state.total.reshape(-1, 1)[rows] + gains)
        shape = *state.total.shape, -1
        return state.guides.progress(ids.reshape(shape), possible.reshape(shape))

    def _describe_table(self) -> int:
        """Fill in the table of target slots. Returns: the number of tokens that still fit."""
        table = self.hypotheses.targets
        if table is None:
            return MAX_STEPS
        entries, self.struct.entries_length = table.fork_view()
        self.struct.entries, self.struct.entries_stride = entries.data_ptr(), entries.stride(0)
        return entries.shape[1] - int(self.struct.entries_length)


def native_search(
    model: Seq2Seq, state: SearchState, hypotheses: DecodeState
) -> NativeSearch | None:
    """The native search for a state; None if the native decoder does not cover it."""
    search = state.search
    is_plain = type(search) in (Greedy, Beam) and not search.reads_weights
    if not isinstance(model, NativeModel) or not is_plain or search.beams > MAX_BEAMS:
        return None
    return NativeSearch(model, state, hypotheses)
