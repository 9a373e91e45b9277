"""Rules of clean pairs, each decided by the two texts alone.

A pair is left out for the first rule that it breaks, in the order of `RULES`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from math import ceil
from typing import Any, NamedTuple

from seq2seq.data.text.formats import Pair
from seq2seq.text.documents.placeholders import PLACEHOLDER, SIGN, find_placeholders
from seq2seq.text.languages import language_code, letters_outside, scripts_of, word_length

# Limits by names of rules; rules that are off are absent.
Limits = Mapping[str, Any]

WORD = re.compile(r"[^\W\d_]+")
# Groups of three digits separated by one kind of mark or space, or Indian groups, as in 12,34,567.
# Marks may be Arabic or full-width.
GROUPED = re.compile(
    r"(?<!\d)(?:\d{1,3}(?:([.,'’ \u00a0\u2007\u2009\u202f٬،，．])\d{3})(?:\1\d{3})*"
    r"|\d{1,2}(?:([,٬،，])\d\d){1,6}\2\d{3})(?!\d)"
)
# The large units of East Asia, as powers of ten.
MYRIADS = {"万": 4, "萬": 4, "만": 4, "億": 8, "亿": 8, "억": 8, "兆": 12, "조": 12}
LARGEST_POWER = 99  # largest power of ten in a number with a unit
# A decimal that is not part of a date or version, or a whole number; then an optional unit.
VALUE = re.compile(rf"(?:(?<![\d.,])(\d+[.,٫，．]\d+)(?![.,]?\d)|(\d+))\s?([{''.join(MYRIADS)}])?")
DIGITS = re.compile(r"\d+")
LETTERS = 3  # letters that one character of Chinese or Japanese counts as
SPELLED_OUT = 12  # numbers up to this are often written as words
# Control characters (including C1, which Windows-1252 read as Latin-1 turns into), line and
# paragraph separators, private use, U+FFFD from an earlier conversion, noncharacters.
INVALID = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\uf8ff\ufdd0-\ufdef\ufffd-\uffff\U000f0000-\U0010ffff]"
)


class TextPair:
    """A pair of texts, with properties that several rules need.

    Args:
        languages: languages of source and target, as in `language_code`.

    Attributes:
        words: words of each text, separated by white space.
        lengths: number of words of each text. In scripts without spaces between words, a word is
            one character of Chinese or Japanese, or four of others, such as Thai and Tibetan.
        letters: number of characters of each text, without white space; a character of Chinese or
            Japanese counts as `LETTERS`.
        is_spaceless: True if one of the scripts has no spaces between words.
    """

    def __init__(self, texts: Pair, languages: Pair):
        self.texts, self.languages = texts, languages
        self.words = [text.split() for text in texts]
        characters = [sum(map(len, words)) for words in self.words]
        sizes = [word_length(language) for language in languages]
        self.is_spaceless = any(sizes)
        sides = [*zip(self.words, characters, sizes, strict=True)]
        self.lengths = [ceil(count / size) if size else len(words) for words, count, size in sides]
        self.letters = [count * (LETTERS if size == 1 else 1) for _, count, size in sides]


class Rule(NamedTuple):
    """A rule of clean pairs.

    Attributes:
        is_broken: function (pair, limit) that returns True if the pair breaks the rule.
        help: what the rule demands, with N for the limit.
        default: default limit; `on` or `off` for a rule without a limit.
        range: smallest and largest limit; None for a rule without a limit.
    """

    is_broken: Callable[[TextPair, Any], bool]
    help: str
    default: float | str = "on"
    range: tuple[float, float] | None = None


def length_ratio(pair: TextPair) -> float:
    """The length of the longer side divided by that of the shorter side: in words, but in letters
    if one of the languages has no spaces between words.
    """
    lengths = pair.letters if pair.is_spaceless else pair.lengths
    return max(lengths) / max(min(lengths), 1)


def longest_word(pair: TextPair) -> int:
    """Length of the longest word in characters, in languages with spaces; ignores addresses."""
    sides = zip(pair.words, pair.languages, strict=True)
    words = (word for words, language in sides if not word_length(language) for word in words)
    return max((len(word) for word in words if "://" not in word), default=0)


def share_of_copies(pair: TextPair) -> float:
    """The share of the longer side's words that also occur on the other side, ignoring case and
    placeholders.
    """
    source, target = (WORD.findall(without_placeholders(text).casefold()) for text in pair.texts)
    if set(source).isdisjoint(target):  # shortcut for most pairs, ten times as fast
        return 0.0
    return (Counter(source) & Counter(target)).total() / max(len(source), len(target))


def script_share(pair: TextPair) -> float:
    """The share of letters that belong to the scripts of a side's language: the smaller of both
    sides. A side without letters, or in a language with unknown scripts, has 1.
    """
    sides = zip(pair.texts, map(scripts_of, pair.languages), strict=True)
    return min(share_of_scripts(text, scripts) for text, scripts in sides)


def share_of_scripts(text: str, scripts: frozenset[str]) -> float:
    others = len(letters_outside(scripts).findall(text))
    # The library may know letters of a later Unicode than Python does.
    return 1 - others / max(others, sum(map(str.isalpha, text))) if others else 1.0


def find_numbers(text: str, *, decimals: bool = False) -> list[Decimal]:
    """The numbers of a text above `SPELLED_OUT`, in any digits and with any thousands separators.

    Args:
        decimals: True to read 2,50 as two and a half, and 3.5万 as 35000. Otherwise each part of
            a decimal or a date is a separate number, so their order and marks do not matter.
    """
    if not DIGITS.search(text):
        return []
    text = GROUPED.sub(lambda match: "".join(DIGITS.findall(match[0])), text)
    if decimals:
        numbers = [read_value(*match.groups()) for match in VALUE.finditer(text)]
    else:
        numbers = list(map(Decimal, DIGITS.findall(text)))
    return sorted(n for n in numbers if n > SPELLED_OUT or n % 1)


def read_value(decimal: str | None, whole: str | None, unit: str | None) -> Decimal:
    value = Decimal(whole or re.sub(r"\D", ".", decimal or ""))
    return value.scaleb(MYRIADS[unit]) if unit and value.adjusted() < LARGEST_POWER else value


def have_other_numbers(pair: TextPair) -> bool:
    """True if both sides have digits, and the numbers differ, however decimals are read. A side
    without digits may have its numbers in words.
    """
    if not all(map(DIGITS.search, pair.texts)):
        return False
    return differ(find_numbers, pair) and differ(partial(find_numbers, decimals=True), pair)


def without_placeholders(text: str) -> str:
    return PLACEHOLDER.sub(" ", text) if SIGN.search(text) else text


def differ(find: Callable[[str], object], pair: TextPair) -> bool:
    """True if `find` returns different results for the two sides."""
    return find(pair.texts[0]) != find(pair.texts[1])


def is_foreign(pair: TextPair, identify: Callable[[str, str], str]) -> bool:
    """True if a side appears to be in another language.

    Args:
        identify: function (text, expected language) that returns the code of the detected language.
    """
    sides = zip(pair.texts, pair.languages, strict=True)
    return any(identify(text, language) != language_code(language) for text, language in sides)


# By name, cheap rules first, so that very long texts do not reach the others.
RULES = {
    "min_words": Rule(
        lambda pair, n: min(pair.lengths) < n, "at least N words on each side", 1, (0, 10**6)
    ),
    "max_words": Rule(
        lambda pair, n: max(pair.lengths) > n, "at most N words on each side", 200, (1, 10**6)
    ),
    "min_characters": Rule(
        lambda pair, n: min(map(len, pair.texts)) < n, "at least N characters", 1, (0, 10**8)
    ),
    "max_characters": Rule(
        lambda pair, n: max(map(len, pair.texts)) > n, "at most N characters", 1500, (1, 10**8)
    ),
    "max_ratio": Rule(
        lambda pair, n: length_ratio(pair) > n,
        "at most N times the other side's length",
        4,
        (1, 1000),
    ),
    "max_word_length": Rule(
        lambda pair, n: longest_word(pair) > n, "at most N characters in a word", 50, (1, 10**8)
    ),
    "invalid": Rule(
        lambda pair, _: any(map(INVALID.search, pair.texts)), "no control character, no U+FFFD"
    ),
    "copies": Rule(lambda pair, _: pair.words[0] == pair.words[1], "two different texts"),
    "max_copied": Rule(
        lambda pair, n: share_of_copies(pair) > n, "at most this share of equal words", 0.6, (0, 1)
    ),
    "min_script": Rule(
        lambda pair, n: script_share(pair) < n, "letters of the language's script", 0.5, (0, 1)
    ),
    "numbers": Rule(lambda pair, _: have_other_numbers(pair), "the same numbers above 12"),
    "placeholders": Rule(
        lambda pair, _: differ(find_placeholders, pair), "the same placeholders, addresses, tags"
    ),
    "language": Rule(is_foreign, "each side in its language, as py3langid sees it", "off"),
}


def first_broken(pair: TextPair, limits: Limits) -> str | None:
    """The first rule that a pair breaks; None if it breaks none.

    Args:
        limits: limits by rule; for `language`, the function `identify` of `is_foreign`.
    """
    broken = (name for name, limit in limits.items() if RULES[name].is_broken(pair, limit))
    return next(broken, None)
