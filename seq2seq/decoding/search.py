"""What every search is: options that begin a frontier of live hypotheses, and bookkeeping over
candidates. Neither ever calls a model; the loop in `engine` does.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.errors import ConfigError
from seq2seq.symbols import BOS, EOS, NAMES, PAD
from seq2seq.tables import check_range


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    ids: list[int]  # without bos and eos
    score: float  # what a search ranks by: log-probability by the length penalty; higher is better
    log_probability: float  # of all tokens, eos included
    truncated: bool = False  # stopped by the length limit, not by eos
    token_logp: Sequence[float] = ()  # of each token, eos included; their sum is log_probability

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its tokens, in [0, 1], whatever the length.

        Tokens that were forced count like all others.
        """
        return math.exp(self.log_probability / len(self.token_logp))


FREE = -1  # in place of a forced token


@dataclass(frozen=True)
class CandidateRequest:
    """What the next choice needs to see, for N = B * K rows."""

    count: int  # C: candidates of each row; all, if there are not so many
    forced: Tensor | None = None  # (N,) the token that a row must take, -1 = free; None = all are
    unending: Tensor | None = None  # (N,) bool: rows that may not end yet; None = all may


class StepChoice(NamedTuple):
    """What was chosen in one step, for N = B * K rows."""

    parents: Tensor | None  # (N,) the row each row goes on from; None = itself
    tokens: Tensor  # (N,) the next token of each row
    done: Tensor  # (B,) bool: nothing more is wanted of this sentence


@dataclass(frozen=True, kw_only=True)
class Search:
    """How hypotheses are chosen: options only, so one search serves any number of frontiers.

    Lengths depend on the sentence's own source only, so a translation does not change with its
    batch. They count tokens with eos, for a source of S pieces without eos.

    Args:
        length_ratio, length_extra: a translation has at most length_ratio * S + length_extra
            tokens,
        max_length: and never more than that, whatever its source; None = any number,
        min_length_ratio, min_length_extra: and at least min_length_ratio * S + min_length_extra.

    Raises: ConfigError for a value out of range.
    """

    length_ratio: float = 1.5
    length_extra: int = 10
    max_length: int | None = None
    min_length_ratio: float = 0.0
    min_length_extra: int = 0

    search_state: ClassVar[type["SearchState"]]
    # The least and the greatest value of each option that is a number.
    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "length_ratio": (0, 1000),
        "length_extra": (1, 1_000_000),
        "max_length": (1, 1_000_000),
        "min_length_ratio": (0, 1000),
        "min_length_extra": (0, 1_000_000),
    }

    def __post_init__(self) -> None:
        for name, (least, most) in self.ranges.items():
            check_range(f"decode.{name}", getattr(self, name), least, maximum=most)
        for fewest, name in (
            ("min_length_ratio", "length_ratio"),
            ("min_length_extra", "length_extra"),
            ("min_length_extra", "max_length"),
        ):
            least, most = getattr(self, fewest), getattr(self, name)
            if most is not None and least > most:
                raise ConfigError(
                    f"decode.{fewest}={least} should be at most decode.{name}={most}: else some "
                    "translation has no length that is allowed"
                )

    @property
    def beams(self) -> int:
        """Rows of each sentence, K."""
        raise NotImplementedError

    @property
    def candidates(self) -> int:
        """How many of the best next tokens of each row `SearchState.advance` wants to see, C."""
        raise NotImplementedError

    @property
    def reads_weights(self) -> bool:
        """Does `SearchState.advance` want the weights of cross-attention?"""
        return False

    def start(
        self,
        source_lengths: Tensor,
        *,
        longest: int | None = None,
        numbers: Tensor | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> "SearchState":
        """Begin with B sentences of so many pieces (B,), eos not counted.

        Args:
            longest: most tokens that the model can write, eos included; None = any number.
            numbers: which sentence of the run each is, (B,); None = 0 to B - 1. What is drawn at
                random depends on it, and on nothing else of the batch.
            prefixes: the tokens that each translation must begin with.

        Raises: ValueError for a prefix that contains pad, bos or eos, or that the model cannot
            write and end.
        """
        if prefixes is None:
            prefixes = [()] * len(source_lengths)
        for prefix in prefixes:
            check_prefix(prefix, longest)
        if numbers is None:
            numbers = torch.arange(len(source_lengths), device=source_lengths.device)
        return self.search_state(self, source_lengths, longest, numbers, prefixes)

    def limit(self, source_length: int, longest: int | None = None, prefix: int = 0) -> int:
        """Most tokens of a translation, eos included.

        A forced prefix that is long for its source stands for the length the source lets expect:
        who gives it wants to see how it goes on.
        """
        most = int(max(self.length_ratio * source_length, prefix) + self.length_extra)
        caps = [cap for cap in (longest, self.max_length) if cap is not None]
        return max(1, min([most, *caps]))

    def least(self, source_length: int) -> int:
        """Fewest tokens of a translation, eos included."""
        return math.ceil(self.min_length_ratio * source_length + self.min_length_extra)


class SearchState:
    """The live hypotheses of B sentences, K each, and what has finished of each sentence.

    All tensors have the sentence as their first axis, and nothing is shared between sentences: so
    they come and go, and each has its own age.

    Attributes:
        length: tokens chosen so far, (B,).
        tokens, logp: what was chosen, and its log-probability, (B, K, room); the first `length`
            are meant.
    """

    ROOM = 32  # tokens at first; doubled when full
    # The tensors by their names.
    rows: ClassVar[tuple[str, ...]] = (
        *("numbers", "source_lengths", "limits", "least", "prefixes"),
        *("length", "tokens", "logp"),
    )

    def __init__(
        self,
        search: Search,
        source_lengths: Tensor,
        longest: int | None,
        numbers: Tensor,
        prefixes: Sequence[Sequence[int]],
    ):
        self.search = search
        self.numbers, self.source_lengths = numbers, source_lengths
        B, K, device = len(source_lengths), search.beams, source_lengths.device
        pieces: list[int] = source_lengths.tolist()
        integers = partial(torch.tensor, dtype=torch.int64, device=device)
        limits = map(search.limit, pieces, repeat(longest), map(len, prefixes))
        self.limits = integers(list(limits))
        self.least = integers([search.least(n) for n in pieces]).minimum(self.limits)
        # (B, P + 1): behind the longest prefix, too, there is a column that says `free`
        width = 1 + max(map(len, prefixes), default=0)
        forced = [[*prefix, *[FREE] * (width - len(prefix))] for prefix in prefixes]
        self.prefixes = integers(forced).view(B, width)
        self.length = torch.zeros(B, dtype=torch.int64, device=device)
        self.tokens = torch.empty(B, K, self.ROOM, dtype=torch.int64, device=device)
        self.logp = torch.empty(B, K, self.ROOM, dtype=torch.float64, device=device)
        self.finished: list[list[Hypothesis]] = [[] for _ in range(B)]
        self._steps = 0  # tokens of the longest

    def request(self) -> CandidateRequest:
        """What the next `advance` needs."""
        K, search = self.search.beams, self.search
        forced = unending = None
        last = self.prefixes.shape[1] - 1
        if last:
            forced = self.prefixes.gather(1, self.length.clamp(max=last)[:, None])
            forced = forced.expand(-1, K).flatten()
        if search.min_length_ratio > 0 or search.min_length_extra > 1:
            unending = (self.length + 1 < self.least).repeat_interleave(K)
        return CandidateRequest(search.candidates, forced, unending)

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        """Choose the next tokens.

        Args:
            logp, ids: log-probabilities (N, C) of candidates (N, C), best first, as `ask` wanted.
            weights: of cross-attention in this step, (L, N, H, 1, S), if the search reads them.
        """
        raise NotImplementedError

    def keep(self, sentences: Tensor) -> None:
        """Drop all other sentences and their results; (B',), ascending."""
        for name in self.rows:
            setattr(self, name, getattr(self, name).index_select(0, sentences))
        self.finished = [self.finished[i] for i in sentences.tolist()]
        # Without the oldest, less room may do; it is copied whenever beams change places.
        self._steps = int(self.length.max()) if self.finished else 0
        room = self.ROOM << (self._steps // self.ROOM).bit_length()
        self.tokens, self.logp = self.tokens[..., :room], self.logp[..., :room]

    def merge(self, other: Self) -> None:
        """The other's sentences come after these.

        Raises: ValueError if the other is of a search with other options.
        """
        if other.search != self.search:
            raise ValueError(f"only frontiers of one search merge: {self.search}, {other.search}")
        for name in self.rows:
            setattr(self, name, stack(getattr(self, name), getattr(other, name)))
        self.finished += other.finished
        self._steps = max(self._steps, other._steps)

    def results(self, sentences: Iterable[int]) -> list[list[Hypothesis]]:
        """What has finished of these sentences (by their present rows), best first.

        What the source's limit cut off comes after all that ended: a loop that never ends can have
        the better score. What `max_length` cut off may be a good beginning, and its score decides.
        """
        most = self.search.max_length
        ranked = partial(sorted, key=lambda h: (h.truncated and len(h.ids) != most, -h.score))
        return [ranked(self.finished[i]) for i in sentences]

    def _grow(self) -> None:
        """Every row becomes one token longer: count it, and make room for it."""
        room = self.tokens.shape[2]
        if self._steps == room:
            self.tokens, self.logp = pad(self.tokens, (0, room)), pad(self.logp, (0, room))
        self._steps += 1
        self.length = self.length + 1

    def _write(self, tokens: Tensor, logp: Tensor) -> None:
        """The token that each row grew by, (B, K), and its log-probability."""
        place = (self.length - 1)[:, None, None].expand(-1, self.search.beams, 1)
        self.tokens.scatter_(2, place, tokens[..., None])
        self.logp.scatter_(2, place, logp[..., None])

    def _record(
        self, sentences: Tensor, tokens: Tensor, logp: Tensor, scores: Tensor | None = None
    ) -> None:
        """Keep M hypotheses that finish in this step.

        Args:
            sentences: whose they are, (M,).
            tokens, logp: what they consist of, eos included, as in the attributes, (M, room).
            scores: what they are ranked by, (M,); None = log-probability by length.
        """
        rows = [x.tolist() for x in (sentences, tokens, logp, self.length[sentences])]
        given = [None] * len(sentences) if scores is None else scores.tolist()
        for sentence, ids, values, n, score in zip(*rows, given, strict=True):
            ends = ids[n - 1] == EOS
            total = sum(values[:n])
            hypothesis = Hypothesis(
                ids[: n - ends], total / n if score is None else score, total, not ends, values[:n]
            )
            self.finished[sentence].append(hypothesis)


def check_prefix(prefix: Sequence[int], longest: int | None) -> None:
    """Raises: ValueError for a prefix that no translation can begin with."""
    for symbol in {PAD, BOS, EOS}.intersection(prefix):
        raise ValueError(
            f"a prefix is the beginning of a text, in which there is no {NAMES[symbol]}: {prefix}"
        )
    if longest is not None and len(prefix) >= longest:
        raise ValueError(
            f"a prefix of {len(prefix)} tokens should have at most {longest - 1}: this model "
            f"writes {longest}, its end included"
        )


def stack(first: Tensor, second: Tensor) -> Tensor:
    """Both along the first axis; the last axis is filled up to the wider one's."""
    if first.dim() > 1:
        width = max(first.shape[-1], second.shape[-1])
        first, second = (pad(x, (0, width - x.shape[-1]), value=FREE) for x in (first, second))
    return torch.cat((first, second))
