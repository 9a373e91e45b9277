"""The text of a file in parts, each a document, and the way back to a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seq2seq.text.documents.document import Document
from seq2seq.text.documents.markup import Reader

Change = tuple[int, int, str]  # the begin and end of a span of a text, and what is to stand there


@dataclass(frozen=True)
class Contents:
    """The texts of a file, to be translated.

    Attributes:
        documents: its texts, in their order.
        write: makes the file from the translations of these texts, one for each. Raises DataError
            if the result could not be read again.
        problems: what `write` could not put into the file, a message for each.
    """

    documents: list[Document]
    write: Callable[[Sequence[str]], bytes]
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cutter:
    """Cuts the texts of a file into sentences.

    Attributes:
        language, whole: as of `Document.of`.
        fuzzy: mark the messages that are filled in a .po file as `fuzzy`, for a person to check.
    """

    language: str | None
    whole: bool = True
    fuzzy: bool = False

    def __call__(self, text: str, read: Reader | None = None) -> Document:
        return Document.of(text, self.language, read=read, whole=self.whole)


def splice(text: str, changes: Sequence[Change]) -> str:
    """A text with other texts in place of some of its spans, which follow one another."""
    parts, place = [], 0
    for begin, end, new in changes:
        parts += [text[place:begin], new]
        place = end
    return "".join([*parts, text[place:]])
