"""Cutting a text that is too long for a model into parts that are not."""

import re

from seq2seq.data.tokenizer import Tokenizer

# Where a sentence may end: a mark and white space, or a full-width mark, which needs none.
SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*\s+|[。！？]+[”’」』）]*\s*")


def segments(text: str, tokenizer: Tokenizer, most: int) -> list[str]:
    """A text in parts of at most `most` pieces, each as long as possible, without losing a
    character.

    A part ends behind the last sentence end in reach, else behind the last space, else between two
    pieces. A character is never cut, even if it alone has more pieces than that.

    Raises: ValueError unless most >= 1.
    """
    if most < 1:
        raise ValueError(f"a part needs at least one piece, not {most}")
    ends = [end for _, end in tokenizer.spans(text)]
    parts, start, piece = [], 0, 0
    while len(ends) - piece > most:
        # A character whose last piece is out of reach (a Chinese one can need three) is out of it
        # too, unless it is the only one.
        within = [end for end in ends[piece : piece + most] if end < ends[piece + most]]
        reach = text[start : within[-1] if within else ends[piece]]
        stops = [m.end() for m in SENTENCE_END.finditer(reach)] or [reach.rfind(" ") + 1]
        cut = start + (stops[-1] or len(reach))
        parts.append(text[start:cut])
        while piece < len(ends) and ends[piece] <= cut:
            piece += 1
        start = cut
    return [*parts, text[start:]] if start < len(text) or not parts else parts
