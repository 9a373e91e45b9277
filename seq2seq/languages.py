"""Language codes, scripts, and whether white space separates words."""

import re
import unicodedata
from functools import cache

# Languages that write no white space between words.
SPACELESS = frozenset({"zh", "ja", "th", "km", "lo", "my"})

# Languages by their script, whose name is the first word of the Unicode names of its letters.
LANGUAGES_OF_SCRIPTS = (
    "LATIN af az ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv ms mt nb nl "
    "nn no pl pt ro sk sl so sq sr sv sw tl tr uz vi, CYRILLIC be bg kk ky mk mn ru sr tg uk, "
    "ARABIC ar fa ku ps sd ug ur, DEVANAGARI hi mr ne sa, CJK zh ja ko, HIRAGANA ja, KATAKANA ja, "
    "HANGUL ko, GREEK el, HEBREW he yi, THAI th, LAO lo, KHMER km, MYANMAR my, GEORGIAN ka, "
    "ARMENIAN hy, ETHIOPIC am ti, BENGALI as bn, TAMIL ta, TELUGU te, KANNADA kn, MALAYALAM ml, "
    "GUJARATI gu, GURMUKHI pa, SINHALA si, TIBETAN bo dz"
)
SCRIPTS = {words[0]: words[1:] for words in map(str.split, LANGUAGES_OF_SCRIPTS.split(", "))}


def language_code(language: str | None) -> str:
    """`zh` for zh, ZH, zh-Hans and zh_CN; empty for an unknown language."""
    return (language or "").lower().replace("_", "-").split("-")[0]


@cache
def is_spaceless(language: str | None) -> bool:
    return language_code(language) in SPACELESS


@cache
def scripts_of(language: str | None) -> frozenset[str]:
    """The scripts that a language is written in, as in `SCRIPTS`; none for an unknown one."""
    code = language_code(language)
    return frozenset(script for script, codes in SCRIPTS.items() if code in codes)


@cache
def script_of(letter: str) -> str:
    """The script of a letter: LATIN for a; empty for a letter without a name."""
    return re.split("[ -]", unicodedata.name(letter, ""))[0]
