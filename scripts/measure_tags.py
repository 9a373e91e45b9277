"""Measure how often tags are put back around exactly the right words.

    python scripts/measure_tags.py RUN SOURCE TARGET LINKS

Puts one to four pairs of tags around one to five words each of every source line, places them in
the target line by the model's links, and compares the words inside each pair with the words that
the reference links (i-j, one line per pair) link to the tagged ones. Words are separated by spaces.
Pairs of tags whose reference words are not one run of words are left out, since no pair of tags
could enclose them.
"""

import argparse
import random
import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path

from seq2seq.alignment.links import read_alignment
from seq2seq.data.text.lines import read_lines
from seq2seq.text.documents.document import Document
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.placing import WordLinks
from seq2seq.translation.translator import Translator

MAX_TAGS, MAX_WORDS = 4, 5
Range = tuple[int, int]  # of words


def draw_ranges(count: int, draw: random.Random) -> list[Range]:
    """Up to `MAX_TAGS` ranges of the words of a sentence that do not overlap."""
    ranges: list[Range] = []
    for _ in range(draw.randint(1, MAX_TAGS)):
        length = draw.randint(1, min(MAX_WORDS, count))
        first = draw.randrange(count - length + 1)
        if all(first + length <= begin or end <= first for begin, end in ranges):
            ranges.append((first, first + length))
    return ranges


def add_tags(words: Sequence[str], ranges: Sequence[Range]) -> str:
    """A sentence in HTML with a pair of tags, `t0`, `t1` ..., around each range of words."""
    written = [escape(word, quote=False) for word in words]
    for number, (first, end) in enumerate(ranges):
        written[first] = f"<t{number}>{written[first]}"
        written[end - 1] += f"</t{number}>"
    return " ".join(written)


def words_inside(text: str, count: int) -> list[set[int]]:
    """The numbers of the words inside each of `count` pairs of tags."""
    inside, opened, plain = [set[int]() for _ in range(count)], set[int](), ""
    for part in re.split(r"(</?t\d+>)", text):
        if tag := re.fullmatch(r"<(/?)t(\d+)>", part):
            (opened.discard if tag[1] else opened.add)(int(tag[2]))
            continue
        for character in unescape(part):
            plain += character
            if not character.isspace():
                for number in opened:
                    inside[number].add(len(plain.split()) - 1)
    return inside


def measure(run: Path, source: Path, target: Path, links: Path) -> tuple[int, int, int]:
    """The numbers of tags, of those with exactly the reference words inside, and of those with at
    least one of them.
    """
    translator, draw = Translator.load(run, "cpu"), random.Random(1)
    choice = translator.find_choice(run)
    assert choice is not None, "a model with attention weights"
    texts = list(zip(read_lines(source), read_lines(target), strict=True))
    tags = exact = overlapping = 0
    for (text, translation), alignment, reference in zip(
        texts, translator.alignments(texts), read_alignment(links), strict=True
    ):
        ranges = draw_ranges(len(text.split()), draw) if text.strip() else []
        document = Document.of(add_tags(text.split(), ranges), "", read=read_html, split="none")
        if alignment is None or document.sentences != [text] or not document.elements[0]:
            continue  # a tag around the whole sentence needs no links
        sides = [[(w.start, w.end) for w in side] for side in (alignment.source, alignment.target)]
        found = WordLinks(sides[0], sides[1], *alignment.best_links(choice))
        placed = words_inside(document.join([translation], links=[found]), len(ranges))
        for (first, end), inside in zip(ranges, placed, strict=True):
            wanted = {j for i, j in reference.sure if first <= i < end}
            if wanted and len(wanted) == max(wanted) - min(wanted) + 1:
                tags, exact = tags + 1, exact + (inside == wanted)
                overlapping += not wanted.isdisjoint(inside)
    return tags, exact, overlapping


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("run", "source", "target", "links"):
        parser.add_argument(name, type=Path, metavar=name.upper())
    options = parser.parse_args(arguments)
    tags, *counts = measure(options.run, options.source, options.target, options.links)
    exact, overlapping = (count / max(tags, 1) for count in counts)
    print(f"{tags:,} pairs of tags: {exact:.3f} exact, {overlapping:.3f} overlap")


if __name__ == "__main__":
    main()
