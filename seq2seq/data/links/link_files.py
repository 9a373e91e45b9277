"""Links between the words of a corpus, from separate files: checked, projected onto pieces, and
cached. Links between words are cached too, since those of augmented text are projected again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import compress, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.alignment.links import (
    Links,
    check_line_count,
    check_pair_links,
    parse_links,
    words,
)
from seq2seq.alignment.projection import SpanLists, project_links
from seq2seq.base.errors import DataError
from seq2seq.base.progress import show_progress
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.corpus.ragged_array import RaggedArray, RaggedWriter, map_array
from seq2seq.data.links.piece_links import ENTRY, PieceLinks
from seq2seq.data.text.formats import Pair
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
FORMAT = "2"  # part of every cache's name: raise it when the format of the entries changes
WORD_ENTRY = np.dtype([("source", "<i4"), ("target", "<i4"), ("sure", "?")])


class LinkFiles(NamedTuple):
    """Files with one line of links for each pair, `0-0 1-2`, in Pharaoh format.

    Attributes:
        train: file for training, or files of several corpora by name; None for no links.
        valid: the same for validation.
        to_end: True to link target words without links to the source's EOS, see `project_links`.
    """

    train: str | dict[str, str] | None = None
    valid: str | dict[str, str] | None = None
    to_end: bool = True


NO_LINKS = LinkFiles()


def find_links(
    files: LinkFiles, components: Mapping[str, Sequence[Component]], memo: FileMemo
) -> dict[str, list[Path | None]]:
    """Find and check the file of links of each corpus (None without one), by parts that have links.

    Links are checked against the text first, because encoding may take hours.

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
            name = None if component.is_reversed else by_name.get(component.corpus)
            file = None if name is None else Path(name).expanduser()
            if file is not None:
                check_file(component, file, memo)
            found[part].append(file)
    return found


def check_file(component: Component, file: Path, memo: FileMemo) -> None:
    """Check a file of links against the text, unless it was checked before. Raises: DataError."""
    check_rereadable(file)
    if component.target_tag is not None:
        raise DataError(f"{file}: links do not work with data.language_tags=both: leave them out")
    if not file.is_file():
        raise MissingFileError(f"the links {file} do not exist. {similar_names(file)}")
    lines = memo.recall(file, "lines", count_lines)
    pairs = component.text.check(memo)
    check_line_count(file, lines, pairs, " and ".join(str(path) for path in component.text.files))
    text = digest(component.text.fingerprint(memo))
    memo.recall(file, f"fits {text}", partial(check_links_of, component))


def check_links_of(component: Component, file: Path) -> int:
    """Check all links against the text. Returns: the number of lines. Raises: DataError."""
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


def texts_of_rows(
    corpus: Corpus, files: Sequence[Path | None]
) -> Iterator[tuple[Component, Iterator[tuple[str, str, str]]]]:
    """Each component with the source, the target and the line of links of each of its rows."""
    for component, file, kept in zip(corpus.components, files, corpus.pair_masks(), strict=True):
        yield component, compress(pairs_with_links(component, file), kept)


def digest_links(settings: Sequence[str], files: Sequence[Path | None], cache_dir: Path) -> str:
    """A hash of everything that the links depend on, for the name of their folder."""
    memo = FileMemo(cache_dir)
    return digest([*settings, *("" if file is None else memo.sha256(file) for file in files)])


def read_piece_links(
    corpus: Corpus,
    files: Sequence[Path | None],
    tokenizers: Tokenizers,
    *,
    to_end: bool,
    cache_dir: Path,
) -> PieceLinks:
    """Links between the pieces of a corpus, computed once and cached.

    Args:
        files: the links of each component.
        to_end: see `LinkFiles`.

    Raises: DataError if no kept pair has a link.
    """

    def write(folder: Path) -> None:
        with show_progress("dividing the links among pieces", "pairs", len(corpus)) as tally:
            write_piece_links(folder, tally.count(all_entries(corpus, files, tokenizers, to_end)))

    known = digest_links([corpus.key, FORMAT, str(to_end)], files, cache_dir)
    folder = compute_once(cache_dir, f"links-{known}", write)
    linked = map_array(folder / "linked", "<i4")
    assert len(linked) == len(corpus), "links and corpus leave out different pairs"
    if not linked.any():
        names = ", ".join(str(file) for file in files if file is not None)
        raise DataError(
            f"no pair that is kept has a link in {names}: there is nothing to train a head on. "
            "A line holds links i-j between words counted from 0, source first: 0-0 1-2"
        )
    return PieceLinks(RaggedArray(folder, "entries", ENTRY).__getitem__, linked)


def all_entries(
    corpus: Corpus, files: Sequence[Path | None], tokenizers: Tokenizers, to_end: bool
) -> Iterator[np.ndarray]:
    """The entries of each row, in order. The links were checked by `find_links`."""
    for component, texts in texts_of_rows(corpus, files):
        tags = int(component.tag is not None)  # the tag is a piece before every source
        for window in windows(texts, WINDOW, lambda text: len(text[0]) + len(text[1])):
            sources = tokenizers.source.spans_batch([source for source, _, _ in window])
            targets = tokenizers.target.spans_batch([target for _, target, _ in window])
            for (source, target, links), *spans in zip(window, sources, targets, strict=True):
                pair = source, target
                yield link_entries(parse_links(links), pair, (spans[0], spans[1]), tags, to_end)


def link_entries(
    links: Links, texts: Pair, spans: SpanLists, tags: int, to_end: bool
) -> np.ndarray:
    """Links between the pieces of a pair, as entries.

    Args:
        spans: the pieces of both texts.
        tags: number of pieces before the text of the source.
        to_end: see `LinkFiles`.
    """
    shares = project_links(links, spans, (words(texts[0]), words(texts[1])), to_end=to_end)
    places = shares.nonzero()
    entries = np.empty(len(places), ENTRY)
    entries["target"], entries["source"] = places[:, 0].numpy(), places[:, 1].numpy() + tags
    entries["share"] = shares[shares > 0].numpy()
    return entries


def write_piece_links(folder: Path, rows: Iterable[np.ndarray]) -> None:
    """Write the entries of each row, and its number of target pieces with links."""
    linked = []
    with ExitStack() as files:
        writer = RaggedWriter(files, folder, "entries")
        for row in rows:
            writer.append(row, np.array([len(row)]))
            linked.append(len(np.unique(row["target"])))
    np.array(linked, "<i4").tofile(folder / "linked")


def read_word_links(corpus: Corpus, files: Sequence[Path | None], cache_dir: Path) -> RaggedArray:
    """Links between the words of a corpus, computed once and cached; read by `word_links_of`.

    Args:
        files: the links of each component.
    """

    def write(folder: Path) -> None:
        with ExitStack() as stack:
            writer = RaggedWriter(stack, folder, "words")
            for _, texts in texts_of_rows(corpus, files):
                for source, target, line in texts:
                    links = parse_links(line)
                    entries = [(*link, link in links.sure) for link in sorted(links.possible)]
                    sizes = len(words(source)), len(words(target)), False
                    row = np.array([sizes, *entries], WORD_ENTRY)
                    writer.append(row, np.array([len(row)]))

    known = digest_links([corpus.key], files, cache_dir)
    folder = compute_once(cache_dir, f"word-links-{known}", write)
    return RaggedArray(folder, "words", WORD_ENTRY)


def word_links_of(row: np.ndarray, source: str, target: str) -> Links | None:
    """The links of a row of `read_word_links`, whose first entry holds the numbers of words; None
    if the texts, decoded from pieces, have different numbers of words.
    """
    (*sizes, _), *entries = row.tolist()
    if sizes != [len(words(source)), len(words(target))]:
        return None
    return Links({(i, j) for i, j, sure in entries if sure}, {(i, j) for i, j, _ in entries})
