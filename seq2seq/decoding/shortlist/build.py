"""Build the shortlist of a model from pairs of pieces that translate each other."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.alignment.links import Links, Word, words
from seq2seq.alignment.projection import project_links
from seq2seq.base.errors import DataError
from seq2seq.base.symbols import EOS, NEVER_GENERATED
from seq2seq.data.text.lines import read_lines
from seq2seq.data.text.windows import windows
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.text.tokenization.tokenizer import Tokenizers

Array = NDArray[Any]

WINDOW = 4096  # pairs that are cut into pieces together
LINE = "each line should be a target piece, a source piece and a probability, with spaces between"


class LinkedPair(NamedTuple):
    """A source, its translation, and the links between their words."""

    source: str
    target: str
    links: Links
    words: tuple[Sequence[Word], Sequence[Word]] | None = None  # None = split at spaces


class PieceCounts(NamedTuple):
    """The counts of M pairs of pieces that translate each other.

    Attributes:
        source, target: ids, each pair once, (M,).
        weights: count or probability of each pair, (M,).
        frequency: frequency of each target id, (V,).
    """

    source: Array
    target: Array
    weights: Array
    frequency: Array


def count_pieces(pairs: Iterable[LinkedPair], tokenizers: Tokenizers) -> PieceCounts:
    """Count linked pieces. A target piece is divided among the pieces its word is linked to."""
    V = tokenizers.target.size
    keys: Array = np.zeros(0, np.int64)
    weights: Array = np.zeros(0)
    frequency: Array = np.zeros(V)
    for window in windows(pairs, WINDOW, lambda pair: len(pair.source) + len(pair.target)):
        parts = [*piece_links(window, tokenizers, frequency)]
        keys = np.concatenate((keys, *(each for each, _ in parts)))
        keys, places = np.unique(keys, return_inverse=True)
        every = np.concatenate((weights, *(each for _, each in parts)))
        weights = np.bincount(places, every, len(keys))
    return PieceCounts(keys // V, keys % V, weights, frequency)


def piece_links(
    window: Sequence[LinkedPair], tokenizers: Tokenizers, frequency: Array
) -> Iterator[tuple[Array, Array]]:
    """The linked pieces of each pair as source id * V + target id, and their weights. Adds the
    target pieces to `frequency`.
    """
    texts = [pair.source for pair in window], [pair.target for pair in window]
    ids = [side.encode_batch(lines) for side, lines in zip(tokenizers, texts, strict=True)]
    spans = [side.spans_batch(lines) for side, lines in zip(tokenizers, texts, strict=True)]
    tags = len(tokenizers.source.prefix)
    for pair, sources, targets, *its_spans in zip(window, *ids, *spans, strict=True):
        known = pair.words or (words(pair.source), words(pair.target))
        shares = project_links(pair.links, (its_spans[0], its_spans[1]), known, to_end=False)
        t, s = (places.numpy() for places in shares.nonzero(as_tuple=True))
        target, source = np.array(targets, np.int64), np.array(sources[tags:], np.int64)
        frequency += np.bincount(target, minlength=len(frequency))
        yield source[s] * len(frequency) + target[t], shares[t, s].numpy()


def build_shortlist(
    counts: PieceCounts, tokenizers: Tokenizers, frequent: int, per_piece: int
) -> Shortlist:
    """The shortlist of a model.

    Args:
        frequent: number of the most frequent target pieces, which every sentence may use.
        per_piece: number of other pieces listed for each source piece, the likeliest first. A piece
            that both languages have (as in names and numbers) is also on its own list.
    """
    V = tokenizers.source.size
    is_text = np.ones(tokenizers.target.size, dtype=bool)
    is_text[[*NEVER_GENERATED, EOS]] = False
    order = np.argsort(-counts.frequency, kind="stable")
    anywhere = order[is_text[order]][:frequent]
    may_list = is_text.copy()
    may_list[anywhere] = False
    source, target = best_of_each(counts, may_list, per_piece)
    same = [pair for pair in identical_pieces(tokenizers) if may_list[pair[1]]]
    pairs = (
        np.stack((source, target), 1),
        np.array(same, np.int64).reshape(-1, 2),
        np.stack((np.full_like(anywhere, V), anywhere), 1),
    )
    return Shortlist.of_pairs(np.concatenate(pairs), V)


def share_listed(lists: Shortlist, sources: list[list[int]], targets: list[list[int]]) -> float:
    """The share of the pieces of targets that are on the lists of their sources."""
    pairs = zip(sources, targets, strict=True)
    return float(np.concatenate([np.isin(row, lists.tokens(of)) for of, row in pairs]).mean())


def best_of_each(counts: PieceCounts, may_list: Array, per_piece: int) -> tuple[Array, Array]:
    """The likeliest target ids of each source id, as pairs, out of those that may be listed."""
    which = may_list[counts.target]
    source, target, weights = (x[which] for x in (counts.source, counts.target, counts.weights))
    order = np.lexsort((target, -weights, source))
    source, target = source[order], target[order]
    rank = np.arange(len(source)) - np.searchsorted(source, source)
    return source[rank < per_piece], target[rank < per_piece]


def identical_pieces(tokenizers: Tokenizers) -> list[tuple[int, int]]:
    """The ids of each piece that both languages have."""
    targets = {name: i for i, name in enumerate(tokenizers.target.symbols())}
    names = enumerate(tokenizers.source.symbols())
    return [(i, targets[name]) for i, name in names if name in targets]


def read_lexicon(path: Path, tokenizers: Tokenizers) -> tuple[PieceCounts, int]:
    """Read a Marian lexicon, text or gzipped, with lines of the form `target source probability`.

    A lexicon has no frequencies of target pieces; since vocabularies begin with the most frequent
    ones, ids stand in for them.

    Returns: the pairs, and the number of pairs left out because the model lacks one of the pieces.

    Raises: DataError for a line of another form, and if no pair consists of the model's pieces.
    """
    known = [{name: i for i, name in enumerate(side.symbols())} for side in tokenizers]
    pairs: dict[tuple[int, int], float] = {}
    left_out = 0
    for line_no, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        weight = parse_probability(fields)
        if weight is None:
            raise DataError(f"{path}, line {line_no}: {LINE}: Haus house 0.8")
        source, target = known[0].get(fields[1]), known[1].get(fields[0])
        if source is None or target is None:
            left_out += 1
        else:
            pairs[source, target] = weight
    if not pairs:
        raise DataError(
            f"{path}: none of its {left_out:,} pairs consists of pieces of this model; {LINE}, and "
            "pieces should have the same names as in the model"
        )
    ids = np.array([*pairs], dtype=np.int64)
    frequency = -np.arange(tokenizers.target.size, dtype=np.float64)
    weights = np.array([*pairs.values()])
    return PieceCounts(ids[:, 0], ids[:, 1], weights, frequency), left_out


def parse_probability(fields: list[str]) -> float | None:
    """The last of three fields as a number from 0 to 1; None for anything else."""
    try:
        value = float(fields[2]) if len(fields) == 3 else math.nan
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
