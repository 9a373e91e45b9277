"""A text, divided into the sentences to translate and the text between them."""

import html
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from seq2seq.text.documents.inline import Element, Run, runs_of
from seq2seq.text.documents.markup import Reader, Token, check_count, set_notes_apart
from seq2seq.text.documents.placeholders import TEMPLATE, is_language
from seq2seq.text.documents.placing import Placement, WordLinks, diagonal_links, join_placeholders
from seq2seq.text.documents.sentences import sentence_ends
from seq2seq.text.languages import space_between

Split = Literal["lines", "sentences", "none"]

# A line or a table cell that contains letters. Tabs and all Unicode line breaks separate cells.
INSIDE, LETTER = r"[^\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]", r"[^\W\d_]"
CELL = re.compile(rf"(?<!{INSIDE})(?:(?!{LETTER}){INSIDE})*+{LETTER}{INSIDE}*+")
# Stripped from both ends of a sentence: white space, zero-width characters, and characters that
# set the direction of writing.
BLANK = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b\u2060"
BLANK += "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Marks of quotations, headings and list items. A number with a point counts only if the text has
# several, since in many languages it is an ordinal.
NOTES = "♩♪♫♬🎵🎶"
ITEMS = "•◦▪‣●■☐☑☒✓✔✗✘⚠→►"
# Marks that white space may follow, and marks that it must follow.
TIGHT = rf"[{ITEMS}{NOTES}]\ufe0f?|\.{{2,}}|…|\d{{1,3}}、|（\d{{1,3}}）"
LOOSE = r">+|#{1,6}|[-*+–—·]|\[[ xX]\]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})\)"
NUMBER = r"\d{1,3}\."
MARKS, MARKS_AND_NUMBERS = (
    re.compile(rf"(?:[{BLANK}]*(?:{TIGHT}|(?:{loose})(?=\s|$)))+")
    for loose in (LOOSE, f"{LOOSE}|{NUMBER}")
)
NUMBERED = re.compile(rf"^[ \t>]*{NUMBER}\s", re.M)
# A whole cell in brackets, such as the description of a sound in subtitles.
BRACKETED = re.compile(r"(?s:\[[^\[\]]*\]|\([^()]*\)|（[^（）]*）|【[^【】]*】)")
DOTS = re.compile(r"(?<!\s)\s*(?:\.{2,}|…+)\Z")  # dots of a sentence that breaks off
ENDING = re.compile(r"[\s.…。]+\Z")


@dataclass(frozen=True)
class Document:
    """The sentences of a text, and everything else in it, which is copied unchanged.

    Attributes:
        sentences: sentences in order, without line breaks, tags, references and soft hyphens, and
            with single spaces. Text that is only copied is left out, see `is_language`.
        elements: tags inside each sentence.
        originals: source text of each sentence, including its tags.
        between: text before, between and after the sentences.
        has_tags: whether the text has a format with tags and references.
    """

    sentences: list[str]
    elements: list[list[Element]]
    originals: list[str]
    between: list[str]
    has_tags: bool

    @classmethod
    def of(
        cls,
        text: str,
        language: str | None,
        *,
        read: Reader | None = None,
        split: Split | None = None,
        whole: bool = True,
    ) -> "Document":
        """Cut a text into sentences.

        Args:
            language: language code of the text; None = unknown.
            read: function that finds the tags in the text, such as `read_html`; None = plain text.
            split: where sentences end: `sentences` = by the rules of the language; `lines` = also
                at line breaks and tabs; `none` = nowhere. None = `sentences` for texts with tags,
                where a line break is only white space, else `lines`.
            whole: whether a sentence may contain tags; if not, each text between two tags is cut
                into sentences on its own.

        Raises: DataError for more than `MAX_ELEMENTS` sentences; and the errors of `read`.
        """
        tokens = set_notes_apart(text, read(text)) if read else [Token("text", 0, len(text))]
        split = split or ("sentences" if read else "lines")
        document = cls([], [], [], [], read is not None)
        place = 0
        for run in runs_of(text, tokens, whole=whole, has_references=read is not None):
            place = document._add(run, language, split, place)
        document.between.append(text[place:])
        return document

    def _add(self, run: Run, language: str | None, split: Split, place: int) -> int:
        """Add the sentences of a run after `place`. Returns: the end of the last sentence."""
        after = 0
        for first, last in sentences_of(run.mask, language, split):
            tags = run.tags_of(first, last, after)
            after = max(tags.stop, bisect_left(run.places, last))
            begin, end = run.span(tags, first, last)
            self.between.append(run.document[place:begin])
            self.originals.append(run.document[begin:end])
            self.sentences.append(re.sub(r"\s+", " ", run.text[first:last]))
            self.elements.append(run.elements(tags, first, last))
            place = end
            check_count(len(self.sentences), "sentences")
        return place

    def copies(self, sentence: int) -> list[str] | None:
        """The texts in a sentence that are copied, in order; None if the sentence has no tags."""
        elements = self.elements[sentence]
        return list(list_copies(elements)) if elements else None

    def join(
        self,
        translations: Sequence[str],
        target: str | None = None,
        links: Sequence[WordLinks | None] | None = None,
    ) -> str:
        """Put translations in place of the sentences. A translation equal to its sentence leaves
        the original unchanged.

        Args:
            translations: one translation for each sentence.
            target: language of the translations. If it has spaces between sentences, they are
                added where the source, such as Chinese, has none.
            links: for each sentence, links between its words and those of its translation, by which
                tags are placed; None if unknown.

        Raises: ValueError unless there is one translation for each sentence.
        """
        space = space_between(target) if target else ""
        texts: list[str] = []
        rows = enumerate(zip(translations, self.sentences, self.elements, strict=True))
        for number, (translation, sentence, elements) in rows:
            texts.append(self.between[number] or (space if number else ""))
            escape = partial(escape_text, original=self.originals[number])
            plain = keep_dots(sentence, re.sub(r"\s*[\r\n]\s*", " ", translation.strip()))
            if translation == sentence:
                texts.append(self.originals[number])
            elif elements:
                known = links[number] if links else None
                words = known or diagonal_links(spans_of(sentence), spans_of(plain))
                words = join_placeholders(words, plain)
                texts.append(Placement(sentence, plain, words, escape).render(elements))
            else:
                texts.append(escape(plain) if self.has_tags else plain)
        return "".join([*texts, self.between[-1]])


def list_copies(elements: Sequence[Element]) -> Iterator[str]:
    """The texts that elements and their children copy."""
    for element in elements:
        yield from [element.text] if element.text else list_copies(element.children)


def escape_text(text: str, original: str = "") -> str:
    """Escape a text to stand between tags, except template placeholders that also occur in
    `original`.
    """
    kept = {re.sub(r"\s+", " ", each) for each in TEMPLATE.findall(original)}
    parts = TEMPLATE.split(text)
    return "".join(each if each in kept else html.escape(each, quote=False) for each in parts)


def keep_dots(sentence: str, translation: str) -> str:
    """If a sentence ends with two or more dots, end its translation with the same dots."""
    dots = DOTS.search(sentence)
    return ENDING.sub("", translation) + dots[0] if dots and translation else translation


def spans_of(text: str) -> list[tuple[int, int]]:
    """The spans of the words and punctuation marks of a text."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]+", text)]


def sentences_of(text: str, language: str | None, split: Split) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence to translate in a text without tags. List marks and the like
    at the ends of a line are not part of a sentence.
    """
    marks = MARKS_AND_NUMBERS if len(NUMBERED.findall(text)) > 1 else MARKS
    cells = CELL.finditer(text) if split == "lines" else re.finditer(r".+", text, re.S)
    for cell in cells:
        mark = marks.match(cell[0])
        begin = mark.end() if mark else 0
        begin += len(cell[0][begin:]) - len(cell[0][begin:].lstrip(BLANK))
        rest = cell[0][begin:].rstrip(BLANK + NOTES)
        if BRACKETED.fullmatch(rest):
            begin, rest = begin + 1, rest[1:-1]
        begin += cell.start()
        place = 0
        for end in [len(rest)] if split == "none" else sentence_ends(rest, language):
            part = rest[place:end]
            if is_language(part):
                before = len(part) - len(part.lstrip(BLANK))
                yield begin + place + before, begin + place + len(part.rstrip(BLANK))
            place = end
