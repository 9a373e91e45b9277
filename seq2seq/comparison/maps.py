"""Draw the cross-attention map of each model for one sentence, as inline SVG."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from seq2seq.alignment.choice import best_known_choice, describe_choice
from seq2seq.base.errors import DataError, Seq2SeqError
from seq2seq.pages.charts import draw_label
from seq2seq.pages.labels import begins_at_the_right, to_label
from seq2seq.pages.report import to_html
from seq2seq.translation.translator import Translator

CELL, LETTER, PAD = 22, 6.6, 10  # pixels: size of a cell, width of a letter, padding of labels
WORD = 18  # maximum number of characters in a label


class Sentence(NamedTuple):
    """The sentence that all models translate, and the translation whose words are in all maps."""

    source: str
    reference: str | None  # None: that of the first model
    place: str  # `test.de, line 3`; empty for typed text


def find_sentence(typed: str, pairs: Sequence[tuple[str, str]], place: str) -> Sentence:
    """The sentence with this line number (from 1), or the typed text itself.

    Raises: DataError if there is no such line, or if the line or the text is blank.
    """
    if not typed.isdecimal():
        if not typed.strip():
            raise DataError("--sentence is empty: give the number of a line, or a text")
        return Sentence(typed, None, "")
    number = int(typed)
    if not 1 <= number <= len(pairs):
        raise DataError(f"--sentence {number} is not a line of {place}: give 1 to {len(pairs):,}")
    source, reference = pairs[number - 1]
    if not source.strip():
        raise DataError(f"--sentence {number}: that line of {place} is empty. Choose another")
    return Sentence(source, reference, f"line {number:,} of {place}")


def map_figure(name: str, checkpoint: Path, sentence: Sentence, target: str) -> str:
    """A figure of a model's own translation and its attention map of a target, or why there is no
    map.
    """
    translator = Translator.load(checkpoint, "cpu")
    (translation,) = translator.translate([sentence.source])
    try:
        alignment = translator.align(sentence.source, target)
        choice = best_known_choice(checkpoint, translator.config, translator.shape[0])
        shown = describe_choice(choice, *translator.shape)
        words = [[word.text for word in side] for side in (alignment.source, alignment.target)]
        drawn = (
            f'<p class="layer">{to_html(shown)}</p>{draw_weights(alignment.map(choice), *words)}'
        )
    except Seq2SeqError as error:
        drawn = f'<p class="missing">No map: {to_html(str(error))}</p>'
    return (
        f'<figure class="look"><figcaption>{to_html(name)}</figcaption>'
        f'<p dir="auto">{to_html(translation or "(empty)")}</p>{drawn}</figure>'
    )


def draw_weights(weights: Tensor, source: Sequence[str], target: Sequence[str]) -> str:
    """An attention map as SVG: source words and the end symbol along the top, the words of the
    reference down the side; darker cells have larger weights.

    If the source is in a right-to-left script, the columns run from right to left.

    Args:
        weights: (T, S + 1), from 0 to 1.
    """
    columns = [*(to_label(word, WORD) for word in source), "end"]
    rows = [to_label(word, WORD) for word in target]
    order = list(range(len(columns)))
    if begins_at_the_right(source):
        order.reverse()
    left = LETTER * max(map(len, rows)) + PAD
    above = LETTER * max(map(len, columns)) + PAD
    drawn = []
    for place, i in enumerate(order):
        x = left + CELL * (place + 0.5)
        drawn.append(
            f'<text class="word" transform="translate({x + 4:.1f} {above - 6:.1f}) rotate(-90)">'
            f"{escape(columns[i])}</text>"
        )
    for j, word in enumerate(rows):
        y = above + CELL * j
        drawn.append(draw_label(left - 6, y + CELL / 2 + 4, word, "word end"))
        for place, i in enumerate(order):
            weight = min(max(float(weights[j, i]), 0.0), 1.0)
            title = escape(f"{word} looked at {columns[i]}: {weight:.0%}")
            drawn.append(
                f'<rect class="cell" x="{left + CELL * place + 1:.1f}" y="{y + 1:.1f}" '
                f'width="{CELL - 2}" height="{CELL - 2}" fill-opacity="{0.05 + 0.95 * weight:.3f}">'
                f"<title>{title}</title></rect>"
            )
    width, height = left + CELL * len(columns), above + CELL * len(rows)
    return (
        f'<div class="wide"><svg class="look" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="Where it looked">'
        f"{''.join(drawn)}</svg></div>"
    )
