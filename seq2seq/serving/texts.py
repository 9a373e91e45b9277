"""How a text of a client becomes sentences, and the text of their translations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq.serving.refusals import Refusal


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
    if html:
        raise Refusal(400, "html is not supported. Supported: text")
    if not text.strip():
        return Cut([], lambda _: text)
    return Cut([text], "".join)
