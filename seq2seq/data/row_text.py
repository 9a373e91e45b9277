"""The text of a corpus's rows, from their pieces and back."""

from typing import NamedTuple

import numpy as np

from seq2seq.alignment.links import Links
from seq2seq.data.augmented_text import SentencePair
from seq2seq.data.corpus import Corpus
from seq2seq.data.guided_links import RowLinks, as_entries, project
from seq2seq.data.piece_links import ENTRY
from seq2seq.symbols import UNK
from seq2seq.tokenization.tokenizer import Tokenizers


class TaggedPair(NamedTuple):
    """A pair, and the tag before its source if there is one."""

    tag: list[int]
    pair: SentencePair


class RowText:
    """Reads the text of rows from their pieces, and encodes text as it was encoded for them.

    Args:
        corpus: of pieces, without subword regularization.
        tokenizers: those of the corpus.
        links: between the words of the rows; None: there are none.
        to_end: see `project`.
    """

    def __init__(
        self, corpus: Corpus, tokenizers: Tokenizers, links: RowLinks | None, to_end: bool
    ):
        self._sides, self._tokenizers = (corpus.source, corpus.target), tokenizers
        self._links, self._to_end = links, to_end

    def read(self, row: int) -> TaggedPair | None:
        """The text of a row; None if its pieces do not say it exactly: if they are others when it
        is encoded again, or if the row's links are of other words.
        """
        tag: list[int] = []
        texts: list[str] = []
        for read, tokenizer in zip(self._sides, self._tokenizers, strict=True):
            ids = read(row).tolist()
            (text,) = tokenizer.decode_batch([ids])
            (again,) = tokenizer.encode_batch([text])
            if not texts:  # no target has a tag
                tag = ids[: min(1, len(ids) - len(again))]
                again = [*tag, *again]
            if UNK in ids or again != ids:
                return None
            texts.append(text)
        source, target = texts
        links = Links(set(), set())
        if self._links is not None:
            of_row = self._links.of_texts(row, source, target)
            if of_row is None:
                return None
            links = of_row
        return TaggedPair(tag, SentencePair(source, target, links))

    def encode(self, text: TaggedPair) -> list[list[int]]:
        """The pieces of a source with its tag, and of a target."""
        (source,) = self._tokenizers.source.encode_batch([text.pair.source])
        (target,) = self._tokenizers.target.encode_batch([text.pair.target])
        return [[*text.tag, *source], target]

    def project(self, text: TaggedPair) -> np.ndarray:
        """The links of a pair between its pieces; none if the corpus has no links."""
        if self._links is None:
            return np.empty(0, ENTRY)
        source, target, links = text.pair
        spans = self._tokenizers.source.spans(source), self._tokenizers.target.spans(target)
        shares = project(links, source, target, *spans, to_end=self._to_end)
        return as_entries(shares, len(text.tag))
