"""Cuts a text that is too long for a model into parts."""

import re

from seq2seq.text.tokenization.tokenizer import Tokenizer

# The end of a sentence: a mark with white space after it, or a full-width mark.
SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*\s+|[。！？]+[”’」』）]*\s*")


def split_into_parts(text: str, tokenizer: Tokenizer, max_pieces: int) -> list[str]:
    """Cut a text into parts of at most `max_pieces` pieces, as long as possible. No character is
    lost.

    A part ends after the last sentence that fits, else after the last space, else between two
    pieces. A single character is never cut, even if it has more pieces than that.

    Raises: ValueError unless max_pieces >= 1.
    """
    if max_pieces < 1:
        raise ValueError(f"a part needs at least one piece, not {max_pieces}")
    ends = [end for _, end in tokenizer.spans(text)]
    parts, start, piece = [], 0, 0
    while len(ends) - piece > max_pieces:
        # A character (a Chinese one can have three pieces) fits only if its last piece does, unless
        # it is the only one.
        within = [end for end in ends[piece : piece + max_pieces] if end < ends[piece + max_pieces]]
        reach = text[start : within[-1] if within else ends[piece]]
        stops = [m.end() for m in SENTENCE_END.finditer(reach)] or [reach.rfind(" ") + 1]
        cut = start + (stops[-1] or len(reach))
        parts.append(text[start:cut])
        while piece < len(ends) and ends[piece] <= cut:
            piece += 1
        start = cut
    return [*parts, text[start:]] if start < len(text) or not parts else parts
