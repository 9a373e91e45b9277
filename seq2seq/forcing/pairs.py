"""Sentence pairs as a model reads them, or why it cannot."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from seq2seq.data.text import without_end
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.data.windows import windows
from seq2seq.unpacked import without_marks


class Pair(NamedTuple):
    """A source and its translation, as texts and as piece ids without begin and end.

    `refusal` says why a model cannot read them; None if it can.
    """

    source: str
    target: str
    source_ids: list[int]
    target_ids: list[int]
    refusal: str | None


def read_pairs(
    texts: Iterable[tuple[str, str]], tokenizers: Tokenizers, limit: int, look_ahead: int
) -> Iterator[list[Pair]]:
    """Pairs of texts in windows of at most `look_ahead`, read as they are needed.

    Args:
        limit: pieces of either side at most, end included. An empty side cannot be read, either.
    """
    clean = ((clean_line(source), clean_line(target)) for source, target in texts)
    for window in windows(clean, look_ahead, lambda pair: len(pair[0]) + len(pair[1])):
        sources = tokenizers.source.encode_batch([source for source, _ in window])
        targets = tokenizers.target.encode_batch([target for _, target in window])
        yield [
            Pair(*pair, source, target, refusal(*pair, len(source) + 1, len(target) + 1, limit))
            for pair, source, target in zip(window, sources, targets, strict=True)
        ]


def refusal(
    source: str, target: str, source_length: int, target_length: int, limit: int
) -> str | None:
    sides = (("source", source, source_length), ("target", target, target_length))
    for side, text, length in sides:
        if not text.strip():
            return f"the {side} is empty"
        if length > limit:
            return f"the {side} has {length} pieces; in training none had more than {limit}"
    return None


def clean_line(text: str) -> str:
    """A text as tokenizers take it, and as training reads it: without the end of its line, if it
    was read from a file, without byte order marks, and with U+FFFD for what UTF-8 cannot write,
    broken bytes of a command line.
    """
    whole = without_end(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return without_marks(whole)
