"""SubRip (.srt): sentences go on over cues, whose numbers and timings stay."""

import re
from collections.abc import Iterable, Sequence
from functools import partial

from seq2seq.documents.files.contents import Contents, Cutter, decode_file, splice
from seq2seq.documents.files.numbered import Kind, NumberedText, Tag
from seq2seq.errors import DataError

TIME = r"\d+:\d\d:\d\d[,.]\d+"
# The beginning of a cue: its number and its times.
HEAD = re.compile(
    rf"^(?:\ufeff?[ \t]*\d+[ \t]*\r?\n)?[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}[^\n]*\n?", re.M
)
MARKUP = re.compile(r"<(/?)([a-zA-Z]+)[^<>]*+>|\{\\[^{}]*+\}|\r?\n\s*")
SENTENCE_END = re.compile(r"[.!?…:。！？♪)\]\"»”]\s*\Z")
NEW_SENTENCE = re.compile(r"\s*(?:[-–—♪(\[]|>>)")
LONGEST = 8  # cues that a sentence goes on over
BREAK, LINE = "cue", "line"


def open_subtitles(data: bytes, cut: Cutter) -> Contents:
    """Raises: DataError if it is no text, or one without subtitles."""
    text = decode_file(data)
    heads = list(HEAD.finditer(text))
    if not heads:
        raise DataError("there are no times of subtitles in it, such as 0:00:01,0 --> 0:00:02,0")
    groups = join_cues(text, heads)
    texts = [read_cues(text, group) for group in groups]
    return Contents(
        [each.cut(cut) for each in texts], partial(write_subtitles, text, groups, texts)
    )


def join_cues(text: str, heads: Sequence["re.Match[str]"]) -> list[list[tuple[int, int]]]:
    """The places of the texts of cues; those of cues over which a sentence goes on together."""
    ends = [*(head.start() for head in heads[1:]), len(text)]
    groups: list[list[tuple[int, int]]] = []
    for head, end in zip(heads, ends, strict=True):
        begin = head.end()
        end = begin + len(text[begin:end].rstrip())
        last = groups[-1][-1] if groups else (0, 0)
        before, after = text[last[0] : last[1]], text[begin:end]
        goes_on = before.strip() and after.strip() and len(groups[-1]) < LONGEST
        if not goes_on or SENTENCE_END.search(before) or NEW_SENTENCE.match(after):
            groups.append([])
        groups[-1].append((begin, end))
    return groups


def read_cues(text: str, group: Sequence[tuple[int, int]]) -> NumberedText:
    """The text of some cues, with tags for the ends of cues and lines, and for their style."""
    numbered = NumberedText()
    for number, (begin, end) in enumerate(group):
        if number:
            numbered.add_tag(Tag("alone", text[group[number - 1][1] : begin], BREAK), " ")
        place = begin
        for match in MARKUP.finditer(text, begin, end):
            numbered.add_text(text[place : match.start()])
            place = match.end()
            if match[2]:
                kind: Kind = "close" if match[1] else "open"
                numbered.add_tag(Tag(kind, match[0], match[2].lower()))
            elif match[0].startswith("{"):
                numbered.add_tag(Tag("alone", match[0]))
            elif NEW_SENTENCE.match(text, place, end):
                numbered.add_tag(Tag("block", match[0]))  # another speaker
            else:
                numbered.add_tag(Tag("alone", match[0], LINE), " ")
        numbered.add_text(text[place:end])
    return numbered


def write_subtitles(
    text: str,
    groups: Sequence[Sequence[tuple[int, int]]],
    texts: Sequence[NumberedText],
    translated: Sequence[str],
) -> bytes:
    """The file with other texts of its cues."""
    changes = [
        (group[0][0], group[-1][1], share_words(numbered, numbered.parts(new)))
        for group, numbered, new in zip(groups, texts, translated, strict=True)
        if new != str(numbered)
    ]
    return splice(text, changes).encode()


def share_words(numbered: NumberedText, parts: Iterable[str | Tag]) -> str:
    """A text with the breaks between cues and lines in their order, and words between them.

    Where words lack, there is no break between lines: an empty line would end a cue.
    """
    words: list[str] = []  # with the style around them; a block is one
    wanted: list[int] = []  # words before each break
    is_glued = False
    for part in parts:
        if isinstance(part, Tag) and part.kind == "alone" and part.name:
            wanted.append(len(words))
            is_glued = False
            continue
        pieces = part.split() if isinstance(part, str) else [part.markup]
        is_inside = isinstance(part, Tag) or not part[:1].isspace()
        for piece in pieces:
            if words and is_glued and is_inside:
                words[-1] += piece
            else:
                words.append(piece)
            is_glued, is_inside = isinstance(part, Tag), False
        if isinstance(part, str):
            is_glued = not part[-1:].isspace()
    breaks = [tag for tag in numbered.tags if tag.kind == "alone" and tag.name]
    if len(words) <= len(breaks):
        kept = [k for k, tag in enumerate(breaks) if tag.name == BREAK]
        breaks, wanted = [breaks[k] for k in kept], [wanted[k] for k in kept]
    shares, place = [], 0
    for k, (tag, want) in enumerate(zip(breaks, wanted, strict=True)):
        stop = min(max(want, place + 1), max(place, len(words) - (len(breaks) - k)))
        shares += [" ".join(words[place:stop]), tag.markup]
        place = stop
    return "".join([*shares, " ".join(words[place:])])
