"""Words as labels of a picture: everything visible, nothing too long."""

from collections.abc import Sequence
from typing import NamedTuple

from seq2seq.errors import escaped

# Characters of a label and of the title at most.
LABEL, TITLE = 24, 80


class Labels(NamedTuple):
    """All that is written, ready to be drawn. Titles are none or one."""

    source: list[str]
    target: list[str]
    heads: list[str]
    title: list[str]

    @classmethod
    def of(
        cls, source: Sequence[str], target: Sequence[str], heads: Sequence[str], title: str | None
    ) -> "Labels":
        """Escape and shorten all of them."""
        return cls(
            [visible(word) for word in source],
            [visible(word) for word in target],
            [visible(name) for name in heads],
            [visible(title, TITLE)] if title else [],
        )


def visible(text: str, limit: int = LABEL) -> str:
    """A text as a label: escapes for what cannot be seen (`\\n`), an ellipsis for a long middle."""
    shown = escaped(text)
    if len(shown) <= limit:
        return shown
    tail = (limit - 1) // 2
    return shown[: limit - 1 - tail] + "…" + shown[-tail:]
