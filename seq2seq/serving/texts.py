"""How a text of a client becomes sentences, and the text of their translations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq.documents.document import Document, Split


class Cut(NamedTuple):
    """The sentences of a text, and what puts as many translations together as the text was."""

    sentences: list[str]
    join: Callable[[Sequence[str]], str]


def cut(
    text: str, source: str, target: str, *, html: bool = False, split: Split | None = None
) -> Cut:
    """Cut a text into sentences.

    Args:
        source, target: languages of the text and of its translation.
        html, split: as in `Document.of`.
    """
    document = Document.of(text, source, html=html, split=split)
    return Cut(document.sentences, lambda found: document.join(found, target))
