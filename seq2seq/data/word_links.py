"""Links between the words of each row, on disk: those of changed text are projected anew."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import compress
from pathlib import Path

import numpy as np

from seq2seq.alignment.links import Links, parse_links, words
from seq2seq.data.cache import compute_once, digest
from seq2seq.data.corpus import Corpus
from seq2seq.data.file_memo import FileMemo
from seq2seq.data.guided_links import pairs_with_links
from seq2seq.data.mixture import Component
from seq2seq.data.ragged_array import RaggedArray, RaggedWriter

ENTRY = np.dtype([("source", "<i4"), ("target", "<i4"), ("sure", "?")])


class RowLinks:
    """The links of all rows of a corpus; the first entry of a row holds its numbers of words."""

    def __init__(self, folder: Path):
        self._entries = RaggedArray(folder, "words", ENTRY)

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
                    writer.append(np.array([sizes, *entries], ENTRY), np.array([1 + len(entries)]))

    memo = FileMemo(cache_dir)
    settings = [corpus.key, *("" if file is None else memo.sha256(file) for file in files)]
    return RowLinks(compute_once(cache_dir, f"word-links-{digest(settings)}", write))
