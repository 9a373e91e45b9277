"""Greedy and plain beam searches whose steps are one call of the C."""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from seq2seq.decoding.beam import Beam, BeamState
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.native.base import MAX_STEPS, NativeModel, check_code
from seq2seq.decoding.native.layout import WORKSPACE, structs
from seq2seq.decoding.search import Search, SearchState, StepChoice
from seq2seq.models import Seq2Seq
from seq2seq.models.state import DecodeState
from seq2seq.symbols import PAD

MAX_BEAMS = 32  # of one sentence


def is_search_covered(model: Seq2Seq, search: Search) -> bool:
    """Does the C compute this search over this model, of sentences without constraints?"""
    if not isinstance(model, NativeModel):
        return False
    if type(search) is Beam:
        return search.beam_size <= MAX_BEAMS and not search.reads_weights
    return type(search) is Greedy


class NativeSearch:
    """The steps of a plain search, on the arrays of its state.

    Args:
        model: whose outputs the search chooses from.
        state: without constraints. Whoever drops sentences from it or adds some makes a new
            `NativeSearch`.
        hypotheses: of the same rows; a step forks them, too.
    """

    def __init__(self, model: NativeModel, state: SearchState, hypotheses: DecodeState):
        self.model, self.state, self.hypotheses = model, state, hypotheses
        B, K = state.tokens.shape[:2]
        self.done = np.zeros(B, dtype=bool)
        self.parents, self.tokens = (torch.empty(B * K, dtype=torch.long) for _ in range(2))
        self.counts = np.zeros(3, dtype=np.int64)  # hypotheses that finish; did any row move? Steps
        self.hidden = torch.empty(B * K, model.embeddings.dim)
        count = min(state.search.candidates, model.head.outputs)
        self.logp = torch.empty(B * K, count)
        self.ids = torch.empty(B * K, count, dtype=torch.long)
        self.listed = state.token_lists()  # what `topk` points to
        self.topk = model.topk_struct(self.logp, self.ids, *self.listed)
        self.head = model.head.struct
        self._describe()

    def _describe(self) -> None:
        """Describe the arrays for the C, after they were made anew."""
        state, search = self.state, self.state.search
        B, K, room = state.tokens.shape
        for name, array in state.arrays():
            setattr(state, name, np.ascontiguousarray(array))
        fields: dict[str, Any] = {"is_greedy": True}
        if isinstance(state, BeamState):
            assert isinstance(search, Beam)
            fields = {
                "by_score": search.stopping == "score",
                "is_gnmt": search.penalty_form == "gnmt",
                "max_finished": address(state.max_finished),
                "exponents": address(state.exponent),
                "totals": address(state.total),
                "counts": address(state.count),
                "greedy": address(state.greedy),
                "best": address(state.best),
            }
        self.struct = structs.Search(
            sentences=B,
            beams=K,
            room=room,
            pad=PAD,
            limits=address(state.limits),
            min_lengths=address(state.min_lengths),
            prefixes=address(state.prefixes),
            prefix_width=state.prefixes.shape[1],
            lengths=address(state.length),
            tokens=address(state.tokens),
            logp=address(state.logp),
            **fields,
        )
        most = B * (2 * K + 1)
        self.sentences, self.scores = np.zeros(most, dtype=np.int64), np.zeros(most)
        self.finished_tokens = np.zeros((most, room), dtype=np.int64)
        self.finished_logp = np.zeros((most, room))
        self.output = structs.StepOutput(
            parents=self.parents.data_ptr(),
            next_tokens=self.tokens.data_ptr(),
            done=address(self.done),
            finished=address(self.counts),
            is_moved=address(self.counts[1:]),
            steps=address(self.counts[2:]),
            finished_sentences=address(self.sentences),
            finished_scores=address(self.scores),
            finished_tokens=address(self.finished_tokens),
            finished_logp=address(self.finished_logp),
        )

    def step(self, tokens: Tensor) -> tuple[int, StepChoice]:
        """Read the last token of each row, (N, 1), and choose the next ones; several times, while
        no hypothesis ends and there is room. Returns: the steps, and the choice of the last.
        """
        if self.state.make_room():
            self._describe()
        model, state = self.model, self.hypotheses
        positions = model.begin(1, state).clone()  # the C counts them on
        step, _held = model.describe_step(tokens, state.source, state.past, positions)
        spare = self._describe_table(), self.state.spare_room, model.spare_steps(state)
        most = 1 + max(0, min(MAX_STEPS - 1, *spare))
        described = step, self.head, self.topk, self.struct, self.output
        arguments = model.decoder, *described, most, self.hidden.data_ptr()
        code = WORKSPACE.run(model.library.s2s_decode_steps, *arguments)
        check_code(code, model.embedding, tokens, positions)
        finished, _, steps = self.counts.tolist()
        if steps > 1:
            state.begin(steps - 1)
            model.count_tokens(state.past, steps - 1)
            self.state.count_steps(steps - 1)
        if finished:
            self._record(finished)
        return steps, StepChoice(None, self.tokens, self.done)

    def _describe_table(self) -> int:
        """Describe the table of targets for the C. Returns: the tokens that it has room for."""
        table = self.hypotheses.target_table
        if table is None:
            return MAX_STEPS
        entries, self.struct.entries_length = table.fork_view()
        self.struct.entries, self.struct.entries_stride = entries.data_ptr(), entries.stride(0)
        return entries.shape[1] - int(self.struct.entries_length)

    def _record(self, count: int) -> None:
        scores = self.scores[:count] if isinstance(self.state, BeamState) else None
        tokens, logp = self.finished_tokens[:count], self.finished_logp[:count]
        self.state.record(self.sentences[:count], tokens, logp, scores)


def native_search(
    model: Seq2Seq, state: SearchState, hypotheses: DecodeState
) -> NativeSearch | None:
    """The steps of a search over a model, if the C computes them."""
    if not is_search_covered(model, state.search) or state.has_constraints:
        return None
    return NativeSearch(cast(NativeModel, model), state, hypotheses)


def address(array: Any) -> int:
    """The address of the first number of a contiguous array."""
    found: int = array.__array_interface__["data"][0]
    return found
