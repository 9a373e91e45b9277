"""Augmentation of a pair of sentences: capitals, missing punctuation, typos, noise.

Each function is pure: random numbers are an argument. Links stay with their words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from seq2seq.alignment.links import Links, Word, words
from seq2seq.base.errors import ConfigError
from seq2seq.base.options import option
from seq2seq.base.registry import check_options

# Kinds of augmentation, as bits of a byte; UPPER and TITLE exclude each other.
UPPER, TITLE, UNPUNCTUATED, TYPOS, NOISE = KINDS = (1, 2, 4, 8, 16)
FINAL_MARKS = re.compile(r"(?<![\s.!?…。！？｡।؟۔])\s*+(?:[.!?…。！？｡।؟۔]\s*+)++\Z")
FIRST_LETTER = re.compile(r"(?<!\S)([^\w\s]*)(\w)")
# Typos in two neighbouring letters: exchange them, drop one, double one, replace one.
MISTYPED = "{1}{0}", "{1}", "{0}{0}{1}", "{1}{1}"
MORE_TYPOS = 10  # one in this many further words also has a typo
SYMBOLS = "#%&*+<=>@^_|~§©«®°±µ¶»¿×÷†•‰€™→★☎♥♪✓"
EMOJI = 0x1F600, 80  # the first face, and the number of faces
DRAWS = 16  # numbers drawn at a time

rate = partial(option, 0.0, minimum=0, maximum=1)


@dataclass(frozen=True)
class AugmentOptions:
    """The probabilities of changes to pairs, `data.augment`: see docs/data.md."""

    upper: float = rate("probability that both sides are in capitals")
    title: float = rate("probability that all words have capitals; with upper at most 1")
    unpunctuated: float = rate("probability that both sides lose their final punctuation")
    typos: float = rate("probability that words of the source are mistyped")
    noise: float = rate("probability that both sides begin or end with the same symbol")


def check_augment(rates: Mapping[str, Any], where: str) -> None:
    """Check the probabilities of changes.

    Args:
        where: name of the option, for messages: `data.augment`.

    Raises: ConfigError for an unknown kind of change, or a value that is not a probability.
    """
    check_options(AugmentOptions, rates, where)
    upper, title = rates.get("upper", 0), rates.get("title", 0)
    if upper + title > 1:
        raise ConfigError(
            f"{where}.upper={upper} and {where}.title={title} exclude each other, so together they "
            f"should be at most 1: {where}.upper=0.07 {where}.title=0.05"
        )


class SentencePair(NamedTuple):
    """A pair of sentences, the links between their words (as `words` counts them), and the pieces
    before the source: its tag, if it has one.
    """

    source: str
    target: str
    links: Links
    tag: Sequence[int] = ()


def draw_kinds(options: AugmentOptions, seed: int, epoch: int, start: int, stop: int) -> np.ndarray:
    """The kinds of augmentation of rows `start` to `stop` (excluded), as bits: (rows,) uint8.

    A pure function of (seed, epoch, row): row n uses block n of a counter-based generator (Philox;
    Salmon et al. 2011). Its streams 0 to 3 belong to BPE dropout and token cutoff.
    """
    generator = np.random.Philox(key=[seed, epoch], counter=[start, 0, 0, 4])
    raw = generator.random_raw(4 * (stop - start)).reshape(-1, 4)
    case, *others = (raw >> np.uint64(11)).T * 2.0**-53  # in [0, 1)
    kinds = np.where(case < options.upper, UPPER, 0)
    kinds[(case >= options.upper) & (case < options.upper + options.title)] = TITLE
    rates = options.unpunctuated, options.typos, options.noise
    for kind, draws, rate in zip(KINDS[2:], others, rates, strict=True):
        kinds |= np.where(draws < rate, kind, 0)
    return kinds.astype(np.uint8)


def draw_numbers(seed: int, epoch: int, row: int) -> Iterator[int]:
    """Endless 64-bit numbers, a pure function of (seed, epoch, row)."""
    generator = np.random.Philox(key=[seed, epoch], counter=[0, 0, row, 5])
    while True:
        yield from generator.random_raw(DRAWS).tolist()


def augment(pair: SentencePair, kinds: int, numbers: Iterator[int]) -> SentencePair:
    """Change a pair in all ways that `kinds` names, where there is something to change."""
    if kinds & UNPUNCTUATED:
        pair = drop_final_marks(pair)
    if kinds & TYPOS:
        pair = pair._replace(source=add_typos(pair.source, numbers))
    if kinds & UPPER:
        pair = pair._replace(source=pair.source.upper(), target=pair.target.upper())
    if kinds & TITLE:
        pair = pair._replace(source=title_case(pair.source), target=title_case(pair.target))
    if kinds & NOISE:
        pair = add_noise(pair, numbers)
    return pair


def title_case(text: str) -> str:
    """Capitalize the first letter of every word; other letters are unchanged."""
    return FIRST_LETTER.sub(lambda match: match[1] + match[2].title(), text)


def drop_final_marks(pair: SentencePair) -> SentencePair:
    """Remove the final punctuation of a pair if both sides end in it and have text before it. Words
    that consist of it alone lose their links.
    """
    source, target = (FINAL_MARKS.sub("", text) for text in pair[:2])
    if pair.source == source or pair.target == target or not (source.strip() and target.strip()):
        return pair
    sizes = len(words(source)), len(words(target))
    kept = ({(i, j) for i, j in each if i < sizes[0] and j < sizes[1]} for each in pair.links)
    return pair._replace(source=source, target=target, links=Links(*kept))


def add_typos(text: str, numbers: Iterator[int]) -> str:
    """Add a typo to some words, at least to one if any has two different letters side by side. Only
    letters change, so numbers and the count of words stay the same.
    """
    choices = [(word, places) for word in words(text) if (places := letter_pairs(word))]
    if not choices:
        return text
    first = next(numbers) % len(choices)
    for index in reversed(range(len(choices))):  # backwards, so that earlier positions stay valid
        if index != first and next(numbers) % MORE_TYPOS:
            continue
        word, places = choices[index]
        at = word.start + places[next(numbers) % len(places)]
        typo = MISTYPED[next(numbers) % len(MISTYPED)].format(*text[at : at + 2])
        text = text[:at] + typo + text[at + 2 :]
    return text


def letter_pairs(word: Word) -> list[int]:
    """Positions in a word at which a letter is followed by a different one."""
    return [
        place
        for place, (one, other) in enumerate(pairwise(word.text))
        if one != other and one.isalpha() and other.isalpha()
    ]


def add_noise(pair: SentencePair, numbers: Iterator[int]) -> SentencePair:
    """Add the same number, symbol or emoji before or after both sides; the added words are linked
    if the pair has links.
    """
    first, count = EMOJI
    kind, number = next(numbers) % 3, next(numbers)
    kinds = str(number % 10_000), SYMBOLS[number % len(SYMBOLS)], chr(first + number % count)
    noise = kinds[kind]
    source, target, links, _ = pair
    at_end = next(numbers) % 2 == 1
    link = (len(words(source)), len(words(target))) if at_end else (0, 0)
    shift = 0 if at_end else 1
    if links.possible:
        links = Links(*({(i + shift, j + shift) for i, j in each} | {link} for each in links))
    form = f"{{}} {noise}" if at_end else f"{noise} {{}}"
    return pair._replace(source=form.format(source), target=form.format(target), links=links)
