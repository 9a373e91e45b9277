"""How a text of a client becomes sentences, and the text of their translations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq.documents.document import Document


class Cut(NamedTuple):
    """The sentences of a text, and what puts as many translations together as the text was."""

    sentences: list[str]
    join: Callable[[Sequence[str]], str]


def cut(text: str, source: str, target: str, *, html: bool = False, split: bool = True) -> Cut:
    """Cut a text into sentences.

    Args:
        source, target: languages of the text and of its translation.
        html: is it a document whose texts are translated, and whose tags stay?
        split: if not, the text is one sentence.
    """
    document = Document.of(text, source, html=html, split=None if split else "none")
    return Cut(document.sentences, lambda found: document.joined(found, target))
