"""Rules of clean pairs, each decided by the two texts alone.

A pair is left out for the first rule that it breaks, in the order of `RULES`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from seq2seq.data.formats import Pair
from seq2seq.documents.placeholders import PLACEHOLDER
from seq2seq.languages import is_spaceless, language_code, script_of, scripts_of

DUPLICATES = ("pair", "target", "off")  # see `seq2seq.cleaning.verdicts.judge`
# Limits by the names of rules; rules that are off are not in it.
Limits = Mapping[str, Any]

WORD = re.compile(r"[^\W\d_]+")
THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?!\d)")
DIGITS = re.compile(r"\d+")
SPELLED_OUT = 12  # numbers up to here are often words
LONGEST_NUMBER = 18  # digits; longer ones are compared as they are
SIGN = re.compile("[{%<@]|://")  # every placeholder has one; most texts have none
# Control characters (among them the C1 that Windows-1252 becomes when it is read as Latin-1), line
# and paragraph separators, private use, U+FFFD of an earlier conversion, noncharacters.
INVALID = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\uf8ff\ufdd0-\ufdef\ufffd-\uffff\U000f0000-\U0010ffff]"
)


class TextPair:
    """A pair of texts, and what several rules ask of it.

    Args:
        languages: of source and target, as in `language_code`.

    Attributes:
        words: of each text, between white space.
        lengths: of each text in words; in characters where the language has no spaces.
    """

    def __init__(self, texts: Pair, languages: Pair):
        self.texts, self.languages = texts, languages
        self.words = [text.split() for text in texts]
        self.lengths = [
            sum(map(len, words)) if is_spaceless(language) else len(words)
            for words, language in zip(self.words, languages, strict=True)
        ]


class Rule(NamedTuple):
    """A rule of clean pairs.

    Attributes:
        is_broken: (pair, limit) -> does the pair break it?
        help: what it demands, with its limit as N.
        default: its limit; `on` or `off` for a rule without one.
        range: the smallest and the largest limit; None for a rule without one.
    """

    is_broken: Callable[[TextPair, Any], bool]
    help: str
    default: float | str = "on"
    range: tuple[float, float] | None = None


def length_ratio(pair: TextPair) -> float:
    """The length of the longer side in lengths of the shorter one."""
    return max(pair.lengths) / max(min(pair.lengths), 1)


def longest_word(pair: TextPair) -> int:
    """Characters of the longest word, in languages with spaces between words; addresses aside."""
    sides = zip(pair.words, pair.languages, strict=True)
    words = (word for words, language in sides if not is_spaceless(language) for word in words)
    return max((len(word) for word in words if "://" not in word), default=0)


def share_of_copies(pair: TextPair) -> float:
    """The share of the words of the longer side that are on the other, too, in any case;
    placeholders aside.
    """
    source, target = (WORD.findall(without_placeholders(text).casefold()) for text in pair.texts)
    if set(source).isdisjoint(target):  # most pairs, at a tenth of the time
        return 0.0
    return (Counter(source) & Counter(target)).total() / max(len(source), len(target))


def script_share(pair: TextPair) -> float:
    """The share of the letters of each side that belong to the scripts of its language; the smaller
    one. 1 without letters, and for a language whose scripts are unknown.
    """
    sides = zip(pair.texts, map(scripts_of, pair.languages), strict=True)
    return min(share_of_scripts(text, scripts) for text, scripts in sides)


def share_of_scripts(text: str, scripts: frozenset[str]) -> float:
    others = {c for c in set(text) if c.isalpha() and script_of(c) not in scripts}
    if not (others and scripts):
        return 1.0
    letters = list(filter(str.isalpha, text))
    return 1 - sum(letter in others for letter in letters) / len(letters)


def find_numbers(text: str) -> list[str]:
    """The numbers of a text above `SPELLED_OUT`, in any digits, whatever separates thousands.

    Parts of decimals and dates are numbers of their own, so that their order and marks are free.
    """
    if not DIGITS.search(text):
        return []
    plain = THOUSANDS.sub(lambda match: "".join(DIGITS.findall(match[0])), text)
    # No longer ones: Python refuses to read thousands of digits.
    numbers = (str(int(n)) if len(n) <= LONGEST_NUMBER else n for n in DIGITS.findall(plain))
    return sorted(n for n in numbers if len(n) > LONGEST_NUMBER or int(n) > SPELLED_OUT)


def find_placeholders(text: str) -> list[str]:
    return sorted(PLACEHOLDER.findall(text)) if SIGN.search(text) else []


def without_placeholders(text: str) -> str:
    return PLACEHOLDER.sub(" ", text) if SIGN.search(text) else text


def differ(find: Callable[[str], list[str]], pair: TextPair) -> bool:
    """Does one find different things on the two sides?"""
    return find(pair.texts[0]) != find(pair.texts[1])


def is_foreign(pair: TextPair, identify: Callable[[str, str], str]) -> bool:
    """Is a side in another language, as far as one can tell?

    Args:
        identify: (text, its language as given) -> its language as it seems.
    """
    sides = zip(pair.texts, map(language_code, pair.languages), strict=True)
    return any(identify(text, language) != language for text, language in sides)


# By name, cheap ones first: very long texts do not reach the others.
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
        "at most N times the other side's words",
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
    "numbers": Rule(lambda pair, _: differ(find_numbers, pair), "the same numbers above 12"),
    "placeholders": Rule(
        lambda pair, _: differ(find_placeholders, pair), "the same placeholders, addresses, tags"
    ),
    "language": Rule(is_foreign, "each side in its language, as py3langid sees it", "off"),
}


def first_broken(pair: TextPair, limits: Limits) -> str | None:
    """The first rule that a pair breaks; None if it breaks none.

    Args:
        limits: for `language`, the function `identify` of `is_foreign`.
    """
    broken = (name for name, limit in limits.items() if RULES[name].is_broken(pair, limit))
    return next(broken, None)
