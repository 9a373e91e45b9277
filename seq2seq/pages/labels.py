"""Words as labels in a picture: visible, short, and in fonts that have their characters."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

from matplotlib.font_manager import FontProperties, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font

from seq2seq.base.errors import escape

LABEL = 24  # longest label in characters
DEFAULT = "DejaVu Sans"

# Beginnings of the Unicode names of characters in Debian's fonts-noto-cjk.
CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC")
PICTOGRAPHS = range(0x1F000, 0x20000)


def to_label(text: str, limit: int = LABEL) -> str:
    """A text as a label: invisible characters escaped (`\\n`), the middle cut if it is long."""
    shown = escape(text)
    if len(shown) <= limit:
        return shown
    tail = (limit - 1) // 2
    return shown[: limit - 1 - tail] + "…" + shown[-tail:]


def choose_fonts(text: str) -> tuple[list[str], list[str]]:
    """A few installed fonts that together draw `text`, beginning with matplotlib's default.

    Fonts that were installed after matplotlib made its list of fonts are added to that list.

    Returns: font families in the order to try them, and characters that none of them has.
    """
    families = [DEFAULT]
    missing = {c for c in text if not c.isspace()}
    missing -= drawable_characters(font_file(DEFAULT), missing)
    if not missing:
        return families, []
    list_new_fonts()
    covered: dict[str, set[str]] = defaultdict(set)
    for entry in fontManager.ttflist:
        # "Last Resort" claims every character and draws a box for each.
        if not entry.name.startswith("Last Resort"):
            covered[entry.name] |= drawable_characters(entry.fname, missing)
    while missing and covered:
        # Names break ties, so that every run makes the same choice.
        best = max(sorted(covered), key=lambda name: len(covered[name] & missing))
        if not covered.pop(best) & missing:
            break
        # The family may have a character only in a face that is not used here, such as bold.
        drawn = drawable_characters(font_file(best), missing)
        if drawn:
            families.append(best)
            missing -= drawn
    return families, sorted(missing)


def missing_font_advice(missing: list[str]) -> str:
    """A message that says which characters no font has, and what to install."""
    shown = ", ".join(f"{c} (U+{ord(c):04X})" for c in missing[:10])
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    packages = " ".join(sorted({font_package(c) for c in missing}))
    return (
        f"no installed font can draw {shown}{more}; the picture has boxes instead. "
        f"On Debian or Ubuntu: apt install {packages}"
    )


def begins_at_the_right(words: Iterable[str]) -> bool:
    """True if a sentence runs from right to left. Its first letter with a direction decides, as in
    a browser (UAX 9, rule P2).
    """
    kinds = map(unicodedata.bidirectional, chain.from_iterable(words))
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


def font_package(character: str) -> str:
    if unicodedata.name(character, "").startswith(CJK):
        return "fonts-noto-cjk"
    return "fonts-symbola" if ord(character) in PICTOGRAPHS else "fonts-noto-core"


def font_file(family: str) -> str:
    return fontManager.findfont(FontProperties(family=[family]))


def list_new_fonts() -> None:
    known = {Path(entry.fname) for entry in fontManager.ttflist}
    for file in sorted(findSystemFonts()):
        if Path(file) not in known:
            with suppress(RuntimeError, OSError):  # FreeType cannot read the file
                fontManager.addfont(file)


def drawable_characters(file: str, characters: set[str]) -> set[str]:
    """The characters that a font file can draw; none if it only has bitmaps (coloured emoji)."""
    try:
        font = FT2Font(file)
    except (RuntimeError, OSError):
        return set()
    if not font.scalable:
        return set()
    return {c for c in characters if font.get_char_index(ord(c))}
