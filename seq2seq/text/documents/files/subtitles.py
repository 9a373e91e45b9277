"""SubRip (.srt) and WebVTT (.vtt): a sentence may span several cues; numbers and times are kept."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise

from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import BRACKETED, NOTES, escape_text
from seq2seq.text.documents.files.contents import Contents, Cutter, NumberedText, splice
from seq2seq.text.documents.inline import pair_tags
from seq2seq.text.documents.markup import Token, check_count, unescape

Span = tuple[int, int]

# All forms of times that the libraries srt and pysrt read. A line with an arrow is never text.
TIME = r"\d+(?:[,.:，．。：]\d*){1,3}"
TIMES = re.compile(rf"^(?:.*-->|[ \t]*{TIME} *-[ -] *> *{TIME}).*\n?", re.M)
EMPTY_LINE = re.compile(r"^\r?$", re.M)
NUMBER = re.compile(r"\ufeff?[ \t]*-?\d+\.?\d*[ \t]*")
MARKUP = re.compile(
    r"<(?P<close>/?)(?P<name>[a-zA-Z]+)[^<>]*+>"
    r"|(?P<code>\{\\(?:(?P<style>[ibus])(?P<on>[01])|[^{}]*+)\})"
    r"|(?P<time><\d[\d:.]*>)"
    # Marks around the words of a cue or line, for speakers, music, pauses and sounds.
    r"|(?P<mark>(?:(?<![^\r\n>}])|(?<=\\[Nn]|[\r\n]\s))[ \t]*(?:[-–—]+|>>+|\.{2,}|…)\s*(?=\w)"
    rf"|(?:(?<!\s)\s+)?[{NOTES}¶]+\s*|[\[\]]|(?<!\s)[ \t]+[#*]+(?![^\r\n<{{]))"
    r"|(?P<line>(?<!\s)\s*[\r\n]\s*|\\[Nn])"
)
SENTENCE_END = re.compile(rf"[.!?…:。！？{NOTES}¶#*)\]\"»”]\s*\Z")
NEW_SENTENCE = re.compile(
    rf"(?:\s|<(?!v[\s.>])[^<>]*>|\{{\\[^{{}}]*\}})*+(?:[-–—{NOTES}¶(\[…]|\.\.|>>|<v|[#*]\s)"
)
LONGEST = 8  # cues that a sentence may span
BREAK, LINE, MOMENT = "cue", "line", "moment"
# Scripts without spaces, in which a cue may end between any two characters.
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
STOPS = "、。，．！？：；」』）】》〉"
CLOSING = STOPS + "”’ー々っゃゅょッャュョ\u0e30-\u0e3a\u0e45-\u0e4e"
WORD = re.compile(rf"[{SPACELESS}][{CLOSING}]*|[^\s{SPACELESS}]+")
# Text that has no space before it, or after it.
NO_SPACE_BEFORE = re.compile(rf"[\s,.;:!?)\]{CLOSING}{SPACELESS}]|\Z")
NO_SPACE_AFTER = re.compile(rf"[\s{STOPS}{SPACELESS}]|\Z")


def open_subtitles(text: str, cut: Cutter) -> Contents:
    """The contents of a subtitle file. Raises: DataError if it has no cues."""
    is_web = text.removeprefix("\ufeff").startswith("WEBVTT")
    # Every line now ends with a line feed, and all places stay the same.
    lines = text.replace("\r\n", "\0\n").replace("\r", "\n").replace("\0", "\r")
    cues = find_cues(lines, is_web)
    if not cues and not is_web:
        raise DataError(
            "it contains no times of subtitles, such as 0:00:01,0 --> 0:00:02,0; a .vtt file must "
            "begin with the line WEBVTT"
        )
    marks = chain.from_iterable(MARKUP.finditer(text, *cue) for cue in cues)
    for count, _ in enumerate(marks, start=1):  # before they take memory
        check_count(count, "tags and lines")
    groups = join_cues(text, [trim_cue(text, *cue) for cue in cues])
    texts = [read_cues(text, group, is_web) for group in groups]
    escape = escape_text if is_web else str

    def write(translated: Sequence[str]) -> bytes:
        changes = []
        for group, numbered, new in zip(groups, texts, translated, strict=True):
            if new != str(numbered):
                runs = groupby(numbered.parts(new), lambda part: part.kind == "block")
                written = [
                    "".join(tag.markup for tag in run) if is_kept else share_words(run, escape)
                    for is_kept, run in runs
                ]
                changes.append((group[0][0], group[-1][1], "".join(written)))
        return splice(text, changes).encode()

    return Contents([each.cut(cut) for each in texts], write)


def find_cues(text: str, is_web: bool) -> list[Span]:
    """The places of the texts of cues, without numbers, names and times."""
    heads: list[Span] = []
    for match in TIMES.finditer(text):
        check_count(len(heads) + 1, "cues")
        before = text[heads[-1][1] if heads else 0 : match.start()]
        *above, last = before.rstrip().rsplit("\n", 2)
        gap = before[len(before.rstrip()) :]
        # Empty lines may follow a number. A name has an empty line before it, but none after it.
        is_name = gap.count("\n") == 1 and not (above and above[-1].strip())
        is_head = bool(last) and (is_name or NUMBER.fullmatch(last) is not None)
        heads.append((match.start() - is_head * len(last + gap), match.end()))
    cues = []
    for (_, begin), (end, _) in pairwise([*heads, (len(text), 0)]):
        if is_web and (empty := EMPTY_LINE.search(text, begin, end)):
            end = empty.start()  # a comment or a style follows
        cues.append((begin, begin + len(text[begin:end].rstrip())))
    return cues


def trim_cue(text: str, begin: int, end: int) -> Span:
    """The place of a cue without the tags and codes around the whole cue, which need not move."""
    matches = [each for each in MARKUP.finditer(text, begin, end) if each["name"] or each["code"]]
    tags = [tag_of(match) for match in matches]
    partners = pair_tags(tags)
    first, last = 0, len(tags)
    while first < last:
        is_first = not text[begin : matches[first].start()].strip()
        is_last = not text[matches[last - 1].end() : end].strip()
        is_around = is_last and partners.get(first) == last - 1
        if is_first and (is_around or (tags[first].kind != "close" and first not in partners)):
            begin, first = matches[first].end(), first + 1
            if is_around:
                end, last = matches[last - 1].start(), last - 1
        elif is_last and tags[last - 1].kind != "open" and last - 1 not in partners:
            end, last = matches[last - 1].start(), last - 1
        else:
            break
    words = text[begin:end]
    end -= len(words) - len(words.rstrip())
    return min(begin + len(words) - len(words.lstrip()), end), end


def join_cues(text: str, cues: Sequence[Span]) -> list[list[Span]]:
    """Group consecutive cues that a sentence spans."""
    groups: list[list[Span]] = []
    before = ""
    for begin, end in cues:
        words = text[begin:end]
        goes_on = has_letter(before) and has_letter(words) and len(groups[-1]) < LONGEST
        if not goes_on or SENTENCE_END.search(before) or NEW_SENTENCE.match(words):
            groups.append([])
        groups[-1].append((begin, end))
        before = words
    return groups


def has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def tag_of(match: re.Match[str]) -> Token:
    """The tag for a match of MARKUP. Codes are named after their style."""
    if match["line"]:
        return Token("alone", name=LINE, text=" ", markup=match[0])
    if match["mark"] or match["name"] == "v":  # another speaker
        return Token("block", markup=match[0])
    name = match["name"] or (match["style"] and f"\\{match['style']}")
    if not name:
        return Token("alone", name=MOMENT if match["time"] else "", markup=match[0])
    is_end = match["close"] or match["on"] == "0"
    return Token("close" if is_end else "open", name=name.lower(), markup=match[0])


def read_cues(text: str, group: Sequence[Span], is_web: bool) -> NumberedText:
    """The text of a group of cues, with tags for style and for the ends of cues and lines."""
    numbered = NumberedText()
    read = (lambda words: unescape(words)[0]) if is_web else str
    line = ""  # text of the current line since the last change of speaker
    for number, (begin, end) in enumerate(group):
        if number:
            between = text[group[number - 1][1] : begin]
            numbered.add_tag(Token("alone", name=BREAK, text=" ", markup=between))
        place = begin
        for match in MARKUP.finditer(text, begin, end):
            words = text[place : match.start()]
            numbered.add_text(read(words))
            line, place, tag = line + words.strip(), match.end(), tag_of(match)
            is_apart = not line or BRACKETED.fullmatch(line) or NEW_SENTENCE.match(text, place, end)
            if tag.name == LINE and is_apart:
                tag = tag._replace(kind="block")
            numbered.add_tag(tag)
            line = "" if tag.name == LINE or tag.kind == "block" else line
        numbered.add_text(read(text[place:end]))
        line += text[place:end].strip()
    return numbered


def share_words(parts: Iterable[Token], escape: Callable[[str], str]) -> str:
    """Distribute words over cues and lines, and keep the order of their breaks.

    If there are too few words, line breaks are dropped, since an empty line would end the cue. A
    pair of tags never spans two cues; it encloses as many words as possible in one of them.
    """
    text, breaks, tags = join_parts(parts)
    cuts = list(choose_cuts(text, breaks))
    ends = [0, *(tag.begin for tag in cuts if tag.name == BREAK), len(text)]
    # Insertions: the place, the rank among those at the same place, the number and the tag.
    inserted = [(tag.begin, 1, k, tag) for k, tag in enumerate(cuts)]
    partners = pair_tags(tags)
    for k, tag in enumerate(tags):
        partner = partners.get(k, k)
        if partner >= k:  # a single tag, or the first of a pair
            begin, end = clip(text, tag.begin, tags[partner].begin, ends)
            inserted.append((begin, 0 if tag.kind == "close" else 2, k, tag))
            if partner > k:
                inserted.append((end, 2 if begin == end else 0, partner, tags[partner]))
    written, place = [], 0
    for begin, rank, _, tag in sorted(inserted, key=lambda each: each[:3]):
        words, place = text[place:begin], begin
        is_cut = rank == 1 and tag.name != MOMENT
        written += [escape(words.rstrip() if is_cut else words), tag.markup]
    return "".join([*written, escape(text[place:])])


def join_parts(parts: Iterable[Token]) -> tuple[str, list[Token], list[Token]]:
    """Join the texts. Returns: the joined text; the breaks and the other tags, placed in it."""
    words, length, behind = [""], 0, 0  # index of the first tag after the last break
    breaks: list[Token] = []
    tags: list[Token] = []
    for part in parts:
        if part.kind != "text":
            is_break = part.kind == "alone" and part.name
            (breaks if is_break else tags).append(part._replace(begin=length))
            behind = len(tags) if is_break else behind
            continue
        text = part.text.replace("-->", "→")
        is_after_break = breaks and breaks[-1].begin == length and breaks[-1].name != MOMENT
        is_joined = NO_SPACE_BEFORE.match(text) or NO_SPACE_AFTER.match(words[-1][-1:])
        if is_after_break and not is_joined:
            text = f" {text}"
            tags[behind:] = [tag._replace(begin=tag.begin + 1) for tag in tags[behind:]]
        words.append(text)
        length += len(text)
    return "".join(words), breaks, tags


def choose_cuts(text: str, breaks: Sequence[Token]) -> Iterator[Token]:
    """The breaks, each moved to the start of a word nearby."""
    starts = [match.start() for match in WORD.finditer(text)]
    left = sum(tag.name != MOMENT for tag in breaks)  # breaks that need a word between them
    if len(starts) <= left:
        breaks = [tag for tag in breaks if tag.name != LINE]
        left = sum(tag.name != MOMENT for tag in breaks)
    word, least = 0, 1
    for tag in breaks:
        wanted = max(bisect_left(starts, tag.begin), word if tag.name == MOMENT else least)
        word = min(wanted, max(word, len(starts) - left))
        if tag.name != MOMENT:
            least, left = word + 1, left - 1
        yield tag._replace(begin=starts[word] if word < len(starts) else len(text))


def clip(text: str, begin: int, end: int, cues: Sequence[int]) -> Span:
    """The longest span of words between two tags that lies within one cue.

    Args:
        cues: start of each cue, and the end of the last.
    """
    words = text[begin:end]
    if not words.strip():
        return begin, begin
    begin, end = begin + len(words) - len(words.lstrip()), begin + len(words.rstrip())
    spans = [(max(begin, first), min(end, last)) for first, last in pairwise(cues)]
    begin, end = max(spans, key=lambda span: span[1] - span[0])
    return begin, begin + len(text[begin:end].rstrip())
