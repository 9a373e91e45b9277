"""Limit on the structure of a document, counted while it is parsed, before memory is taken."""

from seq2seq.base.errors import DataError

# Elements, tags, cues, messages, blocks or paragraphs of a file. Each costs about a kilobyte and
# some microseconds, so that a file of a few kilobytes could otherwise take gigabytes.
MAX_ELEMENTS = 200_000


def check_count(count: int, what: str = "elements") -> None:
    """Raises: DataError if a file has more than MAX_ELEMENTS of something."""
    if count > MAX_ELEMENTS:
        raise DataError(f"it has more than {MAX_ELEMENTS:,} {what}: cut it into several files")
