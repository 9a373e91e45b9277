"""The part of a text that a tokenizer is learnt from."""

from collections.abc import Iterable, Iterator

# Far above the average length of a piece: a line with more characters than this for every piece
# allowed is not worth the time, whatever the tokenizer.
CHARACTERS_PER_PIECE = 20
# The time to learn merges grows superlinearly in the longest run of characters without a space.
LONGEST_PART = 1000


def select_text(lines: Iterable[str], max_length: int) -> Iterator[str]:
    """The lines that a tokenizer should be learnt from.

    A line of more than 20 * `max_length` characters is left out: hardly any tokenizer makes at most
    `max_length` pieces of it. Lines of more than 1,000 characters are cut into parts, before spaces
    if possible; nothing is lost between them. If all lines are too long, the beginning of the first
    is used, because a tokenizer is needed to decide which pairs are kept.

    Args:
        lines: of one or both sides of the training text.
        max_length: maximum pieces of a sentence, EOS included.
    """
    instead, given = "", False
    for line in lines:
        if len(line) <= CHARACTERS_PER_PIECE * max_length:
            given = given or bool(line.strip())
            yield from cut_line(line)
        else:
            instead = instead or line[:LONGEST_PART]
    if not given and instead:
        yield instead


def cut_line(line: str) -> Iterator[str]:
    """A line in parts of at most 1,000 characters, as long as possible, cut before spaces."""
    start = 0
    while len(line) - start > LONGEST_PART:
        # Not at the start itself: the part would be empty.
        space = line.rfind(" ", start + 1, start + LONGEST_PART + 1)
        end = space if space > start else start + LONGEST_PART
        yield line[start:end]
        start = end
    yield line[start:]
