"""The decoding loop: the only place where a model and a search meet."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from seq2seq.attention.pages import PagePool
from seq2seq.decoding.head import top_candidates
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.search import Frontier, Search
from seq2seq.decoding.stats import Stats
from seq2seq.models import Encoded, Seq2Seq
from seq2seq.models.state import DecodeState
from seq2seq.symbols import BOS, PAD

CACHED = 2048  # padded source pieces whose activations stay near the processor

Found = list[tuple[int, list[Hypothesis]]]  # numbers of sentences, and their hypotheses, best first


class Running:
    """The sentences that are being decoded, K hypotheses each: B * K rows of one batch.

    A sentence whose search is done gives its hypotheses at once. Without pages it is dropped a
    little later, when one sentence of eight is done.

    Args:
        model: in evaluation mode.
        search: how hypotheses are chosen.
        pages: where tokens are remembered; None = in tensors of equal length, and then no sentence
            can join others that have begun.
        stats: counts what happens here.

    Attributes:
        numbers: of the sentences, given by whoever let them join, in the order of the rows.
    """

    def __init__(
        self,
        model: Seq2Seq,
        search: Search,
        pages: PagePool | None = None,
        stats: Stats | None = None,
    ):
        self.model, self.search, self.pages = model, search, pages
        self.stats = stats or Stats()
        self.numbers: list[int] = []
        self._state: DecodeState
        self._frontier: Frontier
        self._tokens: Tensor  # (N,) the last of every row
        self._answered: set[int] = set()  # places of sentences that are not dropped yet

    def __len__(self) -> int:
        return len(self.numbers)

    def join(
        self,
        source: Tensor,
        numbers: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None = None,
        drawn: Sequence[int] | None = None,
    ) -> None:
        """Begin with sentences.

        Args:
            source: ids (B, S), each row ending in eos and padded at the right.
            numbers: by which `step` answers, B.
            prefixes: the tokens that each translation must begin with.
            drawn: what random choices depend on, B; None = the numbers.
        """
        with self.stats.timed("encode"):
            encoded = encode(self.model, source)
            state = self.model.start(encoded, self.search.beams, self.pages)
        frontier = self.search.start(
            (source != PAD).sum(1) - 1,
            longest=self.model.max_length,
            numbers=torch.tensor(numbers if drawn is None else drawn, device=source.device),
            prefixes=prefixes,
        )
        tokens = source.new_full((len(source) * self.search.beams,), BOS)
        if len(self):
            self._state.merge(state)
            self._frontier.merge(frontier)
            self._tokens = torch.cat((self._tokens, tokens))
        else:
            self._state, self._frontier, self._tokens = state, frontier, tokens
        self.numbers = [*self.numbers, *numbers]

    def reserve(self) -> bool:
        """Make room for one more token of every row. False if there is none."""
        if self._state.reserve(1):
            return True
        if not self._answered:
            return False
        self._drop_done()
        return self.reserve()

    def step(self) -> Found:
        """One more token of every hypothesis. Returns what was found of sentences now done."""
        self.stats.steps += 1
        self.stats.rows += len(self._tokens)
        self.stats.live += len(self._tokens) - self.search.beams * len(self._answered)
        with self.stats.timed("step"):
            step = self.model.step(self._tokens[:, None], self._state, self.search.reads_weights)
        if self.pages is not None:
            self.stats.held += self.pages.used * self.pages.page_size
            self.stats.written += self._state.written
            self.stats.high_water = self.pages.high_water
        with self.stats.timed("choose"):
            candidates = top_candidates(self.model, step.hidden[:, -1], self._frontier.ask())
            parents, self._tokens, done = self._frontier.advance(*candidates, step.weights)
        with self.stats.timed("fork"):
            if parents is not None:
                self._state.fork(parents)
        return self._answer(done.tolist())

    def _answer(self, done: list[bool]) -> Found:
        places = [i for i, is_done in enumerate(done) if is_done and i not in self._answered]
        if not places:
            return []
        results = self._frontier.results(places)
        found = [(self.numbers[i], hyps) for i, hyps in zip(places, results, strict=True)]
        self._answered.update(places)
        # Without pages, to drop one sentence is to copy what is remembered of all others.
        share = 8 if self.pages is None else len(self)
        if share * len(self._answered) >= len(self):
            self._drop_done()
        return found

    def _drop_done(self) -> None:
        self.keep(i for i in range(len(self)) if i not in self._answered)

    def keep(self, sentences: Iterable[int]) -> None:
        """Drop all other sentences; places among `numbers`, ascending."""
        kept = list(sentences)
        index = torch.tensor(kept, dtype=torch.long, device=self._tokens.device)
        with self.stats.timed("drop"):
            self._state.keep(index)
            self._frontier.keep(index)
        self._tokens = self._tokens.view(-1, self.search.beams)[index].flatten()
        self._answered = {place for place, i in enumerate(kept) if i in self._answered}
        self.numbers = [self.numbers[i] for i in kept]


def encode(model: Seq2Seq, source: Tensor) -> Encoded:
    """`model.encode`, on a CPU in parts of like lengths that its caches can hold: that is twice as
    fast as at once.
    """
    S = source.shape[1]
    size = max(1, CACHED // S) if source.device.type == "cpu" else len(source)
    widths = [int((rows != PAD).sum(1).max()) for rows in source.split(size)]
    batches = zip(source.split(size), widths, strict=True)
    parts = [model.encode(rows[:, :width]) for rows, width in batches]
    groups = [part.groups for part in parts if part.groups is not None]
    return Encoded(
        stacked([part.states for part in parts], S),
        stacked([part.mask for part in parts], S),
        stacked(groups, S) if groups else None,
    )


def stacked(parts: list[Tensor], S: int) -> Tensor:
    """Each (B', S', ...), below each other and filled up with zeros, (B, S, ...)."""
    whole = parts[0].new_zeros(sum(map(len, parts)), S, *parts[0].shape[2:])
    for part, rows in zip(parts, whole.split([len(part) for part in parts]), strict=True):
        rows[:, : part.shape[1]] = part
    return whole


@torch.no_grad()
def decode(
    model: Seq2Seq,
    source: Tensor,
    search: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch. Sentences leave it as they are done.

    Args:
        model: in evaluation mode, unless dropout is wanted.
        source: ids (B, S), each row ending in eos and padded at the right.
        search: how hypotheses are chosen.
        prefixes: the tokens that each translation must begin with.

    Returns: for each sentence, in order, its hypotheses, best first.
    """
    if not len(source):
        return []
    running = Running(model, search)
    running.join(source, range(len(source)), prefixes)
    found: dict[int, list[Hypothesis]] = {}
    while len(running):
        found.update(running.step())
    return [found[number] for number in range(len(source))]
