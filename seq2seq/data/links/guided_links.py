"""Links between words, from files beside a corpus: check, project onto pieces, and cache, also as
they are, since those of changed text are projected anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, compress, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seq2seq.alignment.links import (
    Links,
    Span,
    Word,
    check_line_count,
    check_pair_links,
    parse_links,
    piece_shares,
    words,
)
from seq2seq.base.errors import DataError
from seq2seq.base.progress import show_progress
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.corpus.piece_links import ENTRY, PieceLinks, write_links
from seq2seq.data.corpus.ragged_array import RaggedArray, RaggedWriter
from seq2seq.data.text.lines import (
    MissingFileError,
    check_rereadable,
    count_lines,
    read_lines,
    similar_names,
)
from seq2seq.data.text.windows import windows
from seq2seq.text.tokenization.tokenizer import Tokenizers

WINDOW = 4096  # pairs tokenized together
FORMAT = "2"  # part of every cache's name: raise it when the entries change their format
WORD_ENTRY = np.dtype([("source", "<i4"), ("target", "<i4"), ("sure", "?")])


class LinkFiles(NamedTuple):
    """Files with a line of links for each pair of a part, `0-0 1-2`, in Pharaoh format.

    Attributes:
        train: the file, or the files of several corpora by name; None for no links.
        valid: likewise.
        to_end: a target word without links is linked to the source's EOS, see `project`.
    """

    train: str | dict[str, str] | None = None
    valid: str | dict[str, str] | None = None
    to_end: bool = True


NO_LINKS = LinkFiles()


def find_links(
    files: LinkFiles, components: Mapping[str, Sequence[Component]], memo: FileMemo
) -> dict[str, list[Path | None]]:
    """The file of links of each corpus, None without one, by parts that have links; all checked.

    Links are checked against the text before anything is computed: encoding may take hours.

    Raises: DataError for a missing file, a wrong number of lines, a malformed link, or a link to a
        word that does not exist.
    """
    found: dict[str, list[Path | None]] = {}
    for part, spec in (("train", files.train), ("valid", files.valid)):
        if spec is None:
            continue
        by_name = spec if isinstance(spec, dict) else {"": spec}
        found[part] = []
        for component in components[part]:
            name = by_name.get(component.name)
            file = None if name is None else Path(name).expanduser()
            if file is not None:
                check_lines(component, file, memo)
                text = digest(component.text.fingerprint(memo))
                memo.recall(file, f"fits {text}", partial(check_link_file, component))
            found[part].append(file)
    return found


def check_lines(component: Component, file: Path, memo: FileMemo) -> None:
    """Raises: DataError unless there is one line of links per pair."""
    check_rereadable(file)
    if not file.is_file():
        raise MissingFileError(f"the links {file} do not exist. {similar_names(file)}")
    lines = memo.recall(file, "lines", count_lines)
    pairs = component.text.check(memo)
    check_line_count(file, lines, pairs, " and ".join(str(path) for path in component.text.files))


def check_link_file(component: Component, file: Path) -> int:
    """Check all links against the text. Returns: how many lines there are. Raises: DataError."""
    with show_progress("checking the links", "lines") as tally:
        for source, target, links in tally.count(pairs_with_links(component, file)):
            where = f"{file}:{tally.done + 1}"
            sizes = len(words(source)), len(words(target))
            check_pair_links(parse_links(links, where), sizes, where, "the text")
    return tally.done


def pairs_with_links(component: Component, file: Path | None) -> Iterator[tuple[str, str, str]]:
    """Source, target and the line of links of each pair."""
    lines = repeat("") if file is None else read_lines(file)
    for (source, target), links in zip(component.text.pairs(), lines, strict=False):
        yield source, target, links


def read_piece_links(
    corpus: Corpus,
    components: Sequence[Component],
    files: Sequence[Path | None],
    tokenizers: Tokenizers,
    *,
    to_end: bool,
    cache_dir: Path,
) -> PieceLinks:
    """The links of a corpus between pieces, computed once.

    Args:
        components: those of the corpus.
        files: the links of each.
        to_end: see `LinkFiles`.

    Raises: DataError if no pair that is kept has a link.
    """

    def write(folder: Path) -> None:
        parts = zip(components, files, corpus.pair_masks(), strict=True)
        of_components = (link_entries(*part, tokenizers, to_end) for part in parts)
        with show_progress("dividing the links among pieces", "pairs", len(corpus)) as tally:
            write_links(folder, tally.count(chain.from_iterable(of_components)))

    memo = FileMemo(cache_dir)
    settings = [corpus.key, FORMAT, str(to_end)]
    settings += ["" if file is None else memo.sha256(file) for file in files]
    links = PieceLinks(compute_once(cache_dir, f"links-{digest(settings)}", write))
    assert len(links.linked) == len(corpus), "links and corpus leave out different pairs"
    if not links.linked.any():
        names = ", ".join(str(file) for file in files if file is not None)
        raise DataError(
            f"no pair that is kept has a link in {names}: there is nothing to train a head on. "
            "A line holds links i-j between words counted from 0, source first: 0-0 1-2"
        )
    return links


def link_entries(
    component: Component, file: Path | None, kept: np.ndarray, tokenizers: Tokenizers, to_end: bool
) -> Iterator[np.ndarray]:
    """The entries of each pair that is kept, in order. The links were checked by `find_links`."""
    tag = int(component.tag is not None)  # a piece before every source
    texts = compress(pairs_with_links(component, file), kept)
    for window in windows(texts, WINDOW, lambda text: len(text[0]) + len(text[1])):
        sources = tokenizers.source.spans_batch([source for source, _, _ in window])
        targets = tokenizers.target.spans_batch([target for _, target, _ in window])
        for (source, target, links), *spans in zip(window, sources, targets, strict=True):
            shares = project(parse_links(links), source, target, *spans, to_end=to_end)
            yield as_entries(shares, tag)


def project(
    links: Links,
    source: str,
    target: str,
    source_spans: Sequence[Span],
    target_spans: Sequence[Span],
    *,
    to_end: bool,
    known_words: tuple[Sequence[Word], Sequence[Word]] | None = None,
) -> Tensor:
    """Links between words as a target distribution of attention for each target piece.

    The weight of a target piece is divided evenly over the words that its word is linked to, and
    that of a word evenly over its pieces; a piece of several words counts for each in proportion to
    the overlap. Possible links count only for target words without a sure link. A pair without
    links gives all zeros.

    Args:
        source_spans, target_spans: spans of the S and the T pieces in the two texts.
        to_end: a target word without links attends to the source's EOS, which says that no source
            word corresponds to it. Otherwise its row is 0.
        known_words: of source and target; None = those between spaces.

    Returns: (T, S + 1), the last column for EOS. Each row sums to 1 or is 0.
    """
    source_words, target_words = known_words or (words(source), words(target))
    of_words = torch.zeros(len(target_words), len(source_words) + 1)
    certain = {j for _, j in links.sure}
    for i, j in links.sure | {link for link in links.possible if link[1] not in certain}:
        of_words[j, i] = 1
    if to_end and links.possible:
        of_words[of_words.sum(1) == 0, -1] = 1
    of_words /= of_words.sum(1, keepdim=True).clamp(min=1)
    among = piece_shares(source_spans, source_words)  # (S, source words)
    among /= among.sum(0).clamp(min=1e-9)
    rows = piece_shares(target_spans, target_words) @ of_words  # (T, source words + 1)
    shares = torch.cat([rows[:, :-1] @ among.T, rows[:, -1:]], 1)
    return shares / shares.sum(1, keepdim=True).clamp(min=1e-9)


def as_entries(shares: Tensor, prefix: int) -> np.ndarray:
    """Shares (T, S + 1) as entries; the source has `prefix` more pieces in front."""
    places = shares.nonzero()
    links = np.empty(len(places), ENTRY)
    links["target"], links["source"] = places[:, 0].numpy(), places[:, 1].numpy() + prefix
    links["share"] = shares[shares > 0].numpy()
    return links


class RowLinks:
    """The links of all rows of a corpus; the first entry of a row holds its numbers of words."""

    def __init__(self, folder: Path):
        self._entries = RaggedArray(folder, "words", WORD_ENTRY)

    def of_texts(self, row: int, source: str, target: str) -> Links | None:
        """The links of a row; None if its texts, read from pieces, have other words."""
        (*sizes, _), *entries = self._entries[row].tolist()
        if sizes != [len(words(source)), len(words(target))]:
            return None
        return Links({(i, j) for i, j, sure in entries if sure}, {(i, j) for i, j, _ in entries})


def read_word_links(
    corpus: Corpus, components: Sequence[Component], files: Sequence[Path | None], cache_dir: Path
) -> RowLinks:
    """The links of a corpus between words, computed once; arguments as of `read_piece_links`."""

    def write(folder: Path) -> None:
        with ExitStack() as stack:
            writer = RaggedWriter(stack, folder, "words")
            for component, file, kept in zip(components, files, corpus.pair_masks(), strict=True):
                for source, target, line in compress(pairs_with_links(component, file), kept):
                    links = parse_links(line)
                    entries = [(*link, link in links.sure) for link in sorted(links.possible)]
                    sizes = len(words(source)), len(words(target)), False
                    row = np.array([sizes, *entries], WORD_ENTRY)
                    writer.append(row, np.array([len(row)]))

    memo = FileMemo(cache_dir)
    settings = [corpus.key, *("" if file is None else memo.sha256(file) for file in files)]
    return RowLinks(compute_once(cache_dir, f"word-links-{digest(settings)}", write))
