"""A text as sentences to translate, and what stands between them."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from seq2seq.documents.html_text import TextFinder, unescape
from seq2seq.documents.sentences import sentence_ends
from seq2seq.languages import is_spaceless

Split = Literal["lines", "sentences", "none"]

# A line, or a cell of it: all that Unicode calls a line break, and tabs, stand between.
CELL = re.compile(r"[^\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
# What a sentence neither begins nor ends with: white space, and characters of no width.
BLANK = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b\u2060"
# Marks of quotations, headings and items; a number with a point only where there are several, since
# it is an ordinal in many languages.
TIGHT = r"[•◦▪‣●■]|\d{1,3}、|（\d{1,3}）"  # white space may follow
LOOSE = r">+|#{1,6}|[-*+–—·]|\[[ xX]\]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})\)"  # it must
NUMBER = r"\d{1,3}\."
MARKS, MARKS_AND_NUMBERS = (
    re.compile(rf"(?:[{BLANK}]*(?:{TIGHT}|(?:{loose})(?=\s|$)))+")
    for loose in (LOOSE, f"{LOOSE}|{NUMBER}")
)
NUMBERED = re.compile(rf"^[ \t>]*{NUMBER}\s", re.M)


@dataclass(frozen=True)
class Document:
    """The sentences of a text, and all else that is in it, which stays as it is.

    Attributes:
        sentences: in order, without line breaks, with single spaces, without references of HTML.
            What has neither letter nor digit is none.
        originals: the same as they stand in the text.
        between: what is before, between and after them: one more.
        html: is the text HTML?
    """

    sentences: list[str]
    originals: list[str]
    between: list[str]
    html: bool

    @classmethod
    def of(
        cls, text: str, language: str | None, *, html: bool = False, split: Split | None = None
    ) -> "Document":
        """Cut a text into sentences.

        Args:
            language: of the text, a code; None = unknown.
            html: are only the texts between the tags translated, each for itself? Those of scripts,
                styles, `pre`, `code` and the like, and of elements with translate="no", are not.
            split: where one sentence ends and another begins: `sentences`, as the language says;
                `lines`, also at line breaks and tabs; `none`, nowhere. None = `sentences` for HTML,
                where a line break is white space, else `lines`.
        """
        split = split or ("sentences" if html else "lines")
        sentences, originals, between = [], [], []
        place = 0
        for begin, end in TextFinder(text).nodes if html else [(0, len(text))]:
            node = text[begin:end]
            plain, places = unescape(node) if html else (node, range(len(node) + 1))
            for first, last in sentences_of(plain, language, split):
                start, stop = begin + places[first], begin + places[last]
                between.append(text[place:start])
                originals.append(text[start:stop])
                sentences.append(re.sub(r"\s+", " ", plain[first:last]))
                place = stop
        return cls(sentences, originals, [*between, text[place:]], html)

    def join(self, translations: Sequence[str], target: str | None = None) -> str:
        """The text with its sentences translated; those translated as themselves stand as before.

        Args:
            target: language of the translations. Sentences without white space between them, as in
                Chinese, get a space if that separates the words of this language.

        Raises: ValueError unless there is one translation for each sentence.
        """
        space = " " if target and not is_spaceless(target) else ""
        parts: list[str] = []
        for translation, sentence, original, before in zip(
            translations, self.sentences, self.originals, self.between[:-1], strict=True
        ):
            plain = re.sub(r"\s*[\r\n]\s*", " ", translation.strip())
            new = html.escape(plain, quote=False) if self.html else plain
            parts += [before or space if parts else before]
            parts += [original if translation == sentence else new]
        return "".join([*parts, self.between[-1]])


def sentences_of(text: str, language: str | None, split: Split) -> Iterator[tuple[int, int]]:
    """Begin and end of each sentence of a text without tags."""
    marks = MARKS_AND_NUMBERS if len(NUMBERED.findall(text)) > 1 else MARKS
    cells = CELL.finditer(text) if split == "lines" else re.finditer(r".+", text, re.S)
    for cell in cells:
        mark = marks.match(cell[0])
        begin = mark.end() if mark else 0
        rest = cell[0][begin:]
        begin += cell.start()
        place = 0
        for end in [len(rest)] if split == "none" else sentence_ends(rest, language):
            part = rest[place:end]
            if any(map(str.isalnum, part)):
                before = len(part) - len(part.lstrip(BLANK))
                yield begin + place + before, begin + place + len(part.rstrip(BLANK))
            place = end
