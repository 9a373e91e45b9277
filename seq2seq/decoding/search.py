"""The base of all searches: their options, their state, and the resulting hypotheses. No search
calls a model; `DecodingBatch` does.

The state is small and read in many short operations, so it is in NumPy, whatever the device of the
model: on a few rows, an operation of torch takes two to ten times as long.
"""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.base.registry import options_of
from seq2seq.base.symbols import BOS, EOS, NAMES, PAD
from seq2seq.decoding.constraints.guide import Guide, Guides, RowTokens
from seq2seq.decoding.options import SearchOptions
from seq2seq.models.candidates import CandidateRequest

Array = NDArray[Any]


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    ids: list[int]  # without bos and eos
    score: float  # log-probability / length penalty, by which searches rank; higher is better
    log_probability: float  # sum over all tokens, eos included
    truncated: bool = False  # stopped by the length limit, not by eos
    token_logp: Sequence[float] = ()  # of each token, eos included; their sum is log_probability


FREE = -1  # in place of a forced token: the search chooses
NO_LIST = np.zeros(0, dtype=np.int64)  # an empty list of tokens: all may be used


class SentenceOptions(NamedTuple):
    """The options of one sentence of a batch.

    Attributes:
        search: search of the batch's kind.
        prefix: tokens that the translation must begin with, or `certain` of them.
        draw_id: number that random draws depend on, so that they are the same in any batch.
        guide: guide of its hypotheses; None = no guide.
        tokens: tokens that it may use, ascending; empty = all.
    """

    search: "Search"
    prefix: Sequence[int] = ()
    draw_id: int = 0
    guide: Guide | None = None
    tokens: Array = NO_LIST


class StepChoice(NamedTuple):
    """The choice of one step, for N = B * K rows."""

    parents: Tensor | None  # (N,) the row that each row continues; None = itself
    tokens: Tensor  # (N,) the next token of each row
    done: Array  # (B,) bool: the search of this sentence is over


@dataclass(frozen=True, kw_only=True)
class Search(SearchOptions):
    """The rule by which hypotheses are chosen. It holds options only, so many states can share it.

    Length limits depend only on the source of the sentence, so a translation does not change with
    its batch. The tokens of a forced prefix may repeat n-grams.
    """

    search_state: ClassVar[type["SearchState"]]
    # Options in which the searches of the sentences in one batch may differ.
    of_sentence: ClassVar[tuple[str, ...]] = tuple(options_of(SearchOptions))

    @cached_property
    def kind(self) -> Self:
        """This search with all options that may differ between sentences reset to their defaults.
        Sentences can share a batch if their searches have equal kinds.
        """
        kind = copy(self)  # the options are already checked
        for field in fields(self):
            if field.name in self.of_sentence:
                object.__setattr__(kind, field.name, field.default)
        return kind

    @property
    def beams(self) -> int:
        """The number of rows per sentence, K."""
        raise NotImplementedError

    @property
    def candidates(self) -> int:
        """The number of best next tokens of each row that `SearchState.advance` needs, C."""
        raise NotImplementedError

    @property
    def reads_weights(self) -> bool:
        """True if `SearchState.advance` needs the weights of cross-attention."""
        return False

    def start(
        self,
        source_lengths: Tensor,
        sentences: Sequence[SentenceOptions] | None = None,
        max_length: int | None = None,
    ) -> "SearchState":
        """The state of B new sentences with `source_lengths` pieces (B,), eos not counted.

        Args:
            sentences: options of each sentence; None = this search, and draw ids from 0.
            max_length: maximum tokens that the model can write, eos included; None = no limit.

        Raises: ValueError for a prefix that contains pad, bos or eos, or is too long for the model.
        """
        if sentences is None:
            sentences = [SentenceOptions(self, draw_id=i) for i in range(len(source_lengths))]
        for prefix in filter(len, (each.prefix for each in sentences)):
            check_prefix(prefix, max_length)
        return self.search_state(source_lengths, sentences, max_length)

    def limit(self, source_length: int, model_limit: int | None = None, prefix: int = 0) -> int:
        """Maximum tokens of a translation, eos included.

        If a forced prefix is longer than length_ratio * source_length, its length is used instead,
        so that there is room to continue it.

        Args:
            model_limit: maximum tokens that the model can write; None = no limit.
            prefix: number of forced tokens.
        """
        limit = int(max(self.length_ratio * source_length, prefix) + self.length_extra)
        caps = [cap for cap in (model_limit, self.max_length) if cap is not None]
        return max(1, min([limit, *caps]))

    def min_length(self, source_length: int) -> int:
        """Minimum tokens of a translation, eos included."""
        return math.ceil(self.min_length_ratio * source_length + self.min_length_extra)


class SearchState:
    """The K live hypotheses of each of B sentences, and the finished ones.

    The first axis of every array attribute is the sentence. Sentences share nothing, so they can be
    added and removed independently, each with its own length.

    Attributes:
        search: kind of search.
        searches: search of each sentence, with its own options.
        length: tokens chosen so far, (B,).
        steps: the largest `length`.
        tokens, logp: chosen tokens and their log-probabilities, (B, K, room); only the first
            `length` are valid.
        listed: tokens that each sentence may use, (B, W), FREE after the last; W = 0: all.
        device: device of the model.
    """

    ROOM = 32  # tokens at first; doubled when full

    def __init__(
        self,
        source_lengths: Tensor,
        sentences: Sequence[SentenceOptions],
        max_length: int | None,
    ):
        searches = [each.search for each in sentences]
        prefixes = [each.prefix for each in sentences]
        self.search, self.searches = searches[0].kind, searches
        self.guides = Guides([each.guide for each in sentences], self.search.beams)
        self.device = source_lengths.device
        integers = partial(np.array, dtype=np.int64)
        self.draw_ids = integers([each.draw_id for each in sentences])
        self.source_lengths = source_lengths.cpu().numpy()
        B, K = len(source_lengths), self.search.beams
        pieces: list[int] = self.source_lengths.tolist()
        sizes = list(zip(searches, pieces, map(len, prefixes), strict=True))
        self.limits = integers([search.limit(n, max_length, prefix) for search, n, prefix in sizes])
        minimums = [search.min_length(n) for search, n, _ in sizes]
        self.min_lengths = np.minimum(integers(minimums), self.limits)
        self.listed = pad_lists([each.tokens for each in sentences])
        # (B, P + 1): the longest prefix, too, is followed by a FREE column
        self.prefixes = pad_lists([[*prefix, FREE] for prefix in prefixes])
        self.length = np.zeros(B, dtype=np.int64)
        self.tokens = np.zeros((B, K, self.ROOM), dtype=np.int64)
        self.logp = np.zeros((B, K, self.ROOM))
        self.no_repeat_ngram = self.option_values("no_repeat_ngram", np.int64)
        self.finished: list[list[Hypothesis]] = [[] for _ in range(B)]
        self.steps = 0

    @property
    def has_constraints(self) -> bool:
        """True if a guide or `no_repeat_ngram` restricts the tokens of any sentence."""
        return bool(self.guides.guided or np.count_nonzero(self.no_repeat_ngram))

    def arrays(self) -> list[tuple[str, Array]]:
        """All arrays by name, including the arrays of derived classes."""
        return [(name, x) for name, x in vars(self).items() if isinstance(x, np.ndarray)]

    def option_values(self, name: str, dtype: type = np.float64) -> Array:
        """The values of a numeric option, one per sentence, (B,)."""
        return np.array([getattr(search, name) for search in self.searches], dtype=dtype)

    def to_tensor(self, x: Array) -> Tensor:
        """A tensor for the model. It may share the memory of x."""
        return torch.from_numpy(x).to(self.device)

    def per_row(self, x: Array) -> Tensor:
        """Values of sentences (B,) repeated for each of their rows, (N,)."""
        return self.to_tensor(x.repeat(self.search.beams))

    def first_tokens(self) -> Tensor:
        """The token that the first step reads in each row, (N,); pad in rows that are not live."""
        return self.to_tensor(np.full(self.tokens[..., 0].size, BOS))

    def request(self) -> CandidateRequest:
        """The candidates that the next `advance` needs."""
        forced = self._prefix_tokens() if self.prefixes.shape[1] > 1 else None
        no_eos = None
        if np.count_nonzero(self.min_lengths):
            no_eos = self.per_row(self.length + 1 < self.min_lengths)
        tokens = self.next_tokens() if self.has_constraints else RowTokens()
        lists, K = self.token_lists, self.search.beams
        listed = None if lists is None else lists.repeat_interleave(K, dim=0)
        return CandidateRequest(self.search.candidates, forced, no_eos, *tokens, listed)

    def next_tokens(self) -> RowTokens:
        """The tokens that constraints ban, allow and require next in each row."""
        tokens = self.guides.next_tokens() if self.guides.guided else RowTokens()
        if np.count_nonzero(self.no_repeat_ngram):
            repeats = self._repeats()
            banned = repeats if tokens.banned is None else torch.cat((tokens.banned, repeats))
            tokens = tokens._replace(banned=banned)
        return RowTokens(*(x if x is None else x.to(self.device) for x in tokens))

    @property
    def token_lists(self) -> Tensor | None:
        """The tokens that each sentence may use, as in `listed`; None = all tokens."""
        return self.to_tensor(self.listed) if self.listed.shape[1] else None

    def _prefix_tokens(self) -> Tensor:
        """The next token of each row's prefix, FREE after its end, (N,)."""
        place = np.minimum(self.length, self.prefixes.shape[1] - 1)
        return self.per_row(self.prefixes[np.arange(len(place)), place])

    def _repeats(self) -> Tensor:
        """Pairs of a row and a token that would repeat an n-gram, (M, 2)."""
        B, K = self.tokens.shape[:2]
        tokens = self.tokens[..., : self.steps].reshape(B * K, self.steps)
        of_rows = (self.per_row(x) for x in (self.length, self.no_repeat_ngram))
        return find_repeats(self.to_tensor(tokens), *of_rows)

    def advance(self, logp: Tensor, ids: Tensor, weights: Tensor | None = None) -> StepChoice:
        """Choose the next tokens.

        Args:
            logp, ids: log-probabilities and ids of the candidates that `request` asked for, best
                first, (N, C).
            weights: cross-attention weights of this step, (L, N, H, 1, S), if the search reads
                them.
        """
        raise NotImplementedError

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences and their results; ascending indices (B',)."""
        chosen, index = sentences.tolist(), sentences.cpu().numpy()
        for name, array in self.arrays():
            setattr(self, name, array[index])
        self.searches = [self.searches[i] for i in chosen]
        self.finished = [self.finished[i] for i in chosen]
        self.guides.keep(chosen)
        # The room may shrink with the longest sentence; reordering beams copies all of it.
        self.steps = int(self.length.max()) if self.finished else 0
        room = self.ROOM << (self.steps // self.ROOM).bit_length()
        self.tokens, self.logp = self.tokens[..., :room], self.logp[..., :room]

    def merge(self, other: Self) -> None:
        """Append the sentences of another state.

        Raises: ValueError if the other state is of another kind of search.
        """
        if other.search != self.search:
            raise ValueError(
                f"only states of one kind of search can merge: {self.search}, {other.search}"
            )
        for name, array in self.arrays():
            setattr(self, name, concat_padded(array, getattr(other, name)))
        self.searches += other.searches
        self.finished += other.finished
        self.guides.merge(other.guides)
        self.steps = max(self.steps, other.steps)

    def best_so_far(self, sentence: int) -> list[int]:
        """The tokens of the best open hypothesis of the sentence at this index."""
        ids: list[int] = self.tokens[sentence, 0, : int(self.length[sentence])].tolist()
        return ids

    def results(self, sentences: Iterable[int]) -> list[list[Hypothesis]]:
        """The finished hypotheses of these sentences (by their current index), best first.

        Hypotheses cut off at the limit that depends on the source come after all that ended, since
        an endless repetition can score higher. Hypotheses cut off at `max_length` may be good
        beginnings, so they are ranked by score alone.
        """
        return [rank_hypotheses(self.finished[i], self.searches[i].max_length) for i in sentences]

    def grow(self) -> None:
        """Count one more token in every row, and make room for it."""
        self.make_room()
        self.length = self.length + 1

    def make_room(self) -> bool:
        """Make room for one token per row. Returns: True if the arrays were reallocated."""
        room = self.tokens.shape[2]
        is_full = self.steps == room
        if is_full:
            self.tokens, self.logp = (pad_width(x, 2 * room) for x in (self.tokens, self.logp))
        self.steps += 1
        return is_full

    def write(self, tokens: Array, logp: Array) -> None:
        """Store the new token of each row, (B, K), and its log-probability."""
        place: Any = ..., self.steps - 1
        if np.count_nonzero(self.length != self.steps):
            place = np.arange(len(self.length)), slice(None), self.length - 1
        self.tokens[place], self.logp[place] = tokens, logp

    def record(
        self,
        sentences: Array,
        tokens: Array,
        logp: Array,
        scores: Array | None = None,
        lengths: Array | None = None,
    ) -> None:
        """Record M hypotheses that are finished.

        Args:
            sentences: sentence of each hypothesis, (M,).
            tokens, logp: tokens and log-probabilities, eos included, (M, room).
            scores: scores that rank them, (M,); None = log-probability / length.
            lengths: number of their tokens, (M,); None = all that their sentences have so far.
        """
        lengths = self.length[sentences] if lengths is None else lengths
        rows = [x.tolist() for x in (sentences, tokens, logp, lengths)]
        given = [None] * len(sentences) if scores is None else scores.tolist()
        for sentence, ids, values, n, score in zip(*rows, given, strict=True):
            ends = ids[n - 1] == EOS
            total = sum(values[:n])
            hypothesis = Hypothesis(
                ids[: n - ends], total / n if score is None else score, total, not ends, values[:n]
            )
            self.finished[sentence].append(hypothesis)


def rank_hypotheses(hypotheses: list[Hypothesis], max_length: int | None) -> list[Hypothesis]:
    """The hypotheses of one sentence, best first; see `SearchState.results`."""
    return sorted(hypotheses, key=lambda h: (h.truncated and len(h.ids) != max_length, -h.score))


def find_repeats(tokens: Tensor, length: Tensor, sizes: Tensor) -> Tensor:
    """The tokens that would complete an n-gram that their row already contains.

    Args: as for `completes_ngram`.

    Returns: pairs of a row and a token, (M, 2), possibly with duplicates.
    """
    again = completes_ngram(tokens, length, sizes, int(sizes.max()))
    return torch.stack((again.nonzero()[:, 0], tokens[again]), 1)


def completes_ngram(tokens: Tensor, length: Tensor, sizes: Tensor, largest: int) -> Tensor:
    """Mask of the tokens (N, T) that, said again, would complete an n-gram of their row.

    Args:
        tokens: tokens of N rows, (N, T).
        length: number of valid tokens in each row, (N,).
        sizes: n of each row, (N,); 0 = anything may repeat.
        largest: at least the largest of them.
    """
    length, sizes = length[:, None], sizes[:, None]
    place = torch.arange(tokens.shape[1], device=tokens.device)
    # True where the n-gram that ends here begins with the last n - 1 tokens of its row.
    again = (place < length) & (place >= sizes - 1) & (sizes > 0)
    for back in range(1, min(largest, tokens.shape[1])):
        last = tokens.gather(1, (length - back).clamp(min=0))
        again &= (tokens.roll(back, 1) == last) | (back >= sizes)
    return again


def check_prefix(prefix: Sequence[int], max_length: int | None) -> None:
    """Check a forced prefix. Raises: ValueError if no translation can begin with it."""
    for symbol in {PAD, BOS, EOS}.intersection(prefix):
        raise ValueError(
            f"a prefix should not contain {NAMES[symbol]}, which no text contains: {prefix}"
        )
    if max_length is not None and len(prefix) >= max_length:
        raise ValueError(
            f"a prefix of {len(prefix)} tokens should have at most {max_length - 1}: this model "
            f"can write {max_length}, including the end symbol"
        )


def concat_padded(first: Array, second: Array) -> Array:
    """Concatenate along the first axis, with the last axis padded to the wider of the two."""
    if first.ndim > 1:
        width = max(first.shape[-1], second.shape[-1])
        first, second = pad_width(first, width), pad_width(second, width)
    return np.concatenate((first, second))


def pad_lists(lists: Sequence[Array | Sequence[int]]) -> Array:
    """Lists of tokens as rows, (B, W), FREE after the last of each."""
    rows = np.full((len(lists), max(map(len, lists), default=0)), FREE)
    for row, tokens in zip(rows, lists, strict=True):
        row[: len(tokens)] = tokens
    return rows


def pad_width(x: Array, width: int) -> Array:
    """Pad the last axis to a width with FREE."""
    free = ((0, 0),) * (x.ndim - 1)
    return np.pad(x, (*free, (0, width - x.shape[-1])), constant_values=FREE)
