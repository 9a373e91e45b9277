"""Random adverbials of time, place and manner."""

from collections.abc import Mapping
from dataclasses import replace

from demo_corpus import words
from demo_corpus.draw import Draw
from demo_corpus.draw_nominals import SIMPLE_COUNTS, definite
from demo_corpus.lexicon import NOUNS, Modal, Verb
from demo_corpus.meaning import Adverb, NounPhrase, Prepositional, Tense


def adverb(draw: Draw, table: Mapping[str, str]) -> Adverb:
    """One row of a table of adverbs."""
    german = draw.pick(list(table))
    return Adverb(german, table[german])


def time(draw: Draw, verb: Verb, tense: Tense, modal: Modal | None) -> Adverb:
    """An adverbial of time that agrees with the tense."""
    if verb.durative and draw.chance(0.3):
        return duration(draw)
    if draw.chance(0.55):
        make = draw.weighted({"clock": 3, "month": 4, "other": 4})
        generated = {"clock": clock, "month": month}
        return generated[make](draw) if make in generated else adverb(draw, words.ANY_TIMES)
    if tense is Tense.PERFECT or (modal and modal.past):
        return ago(draw) if draw.chance(0.35) else adverb(draw, words.PAST_TIMES)
    if tense is Tense.FUTURE or draw.chance(0.6):
        future = adverb(draw, words.FUTURE_TIMES)
        return replace(future, future=tense is Tense.PRESENT and modal is None)
    return adverb(draw, words.PRESENT_TIMES)


def duration(draw: Draw) -> Adverb:
    """drei Stunden, an accusative that says how long: for three hours."""
    period = draw.pick(list(words.DURATIONS))
    german, english = words.numeral(draw.pick(SIMPLE_COUNTS))
    return Adverb(f"{german} {period}", f"for:- {english}:0 {words.DURATIONS[period]}:1")


def ago(draw: Draw) -> Adverb:
    """vor drei Tagen: three days ago."""
    period = draw.pick(list(words.PERIODS))
    german, english = words.numeral(draw.pick(SIMPLE_COUNTS))
    return Adverb(f"vor {german} {period}", f"{english}:1 {words.PERIODS[period]}:2 ago:0")


def clock(draw: Draw) -> Adverb:
    """um drei Uhr: at three o'clock; um halb drei: at half past two."""
    hour = draw.pick(SIMPLE_COUNTS)
    german, english = words.numeral(hour)
    if draw.chance(0.6):
        return Adverb(f"um {german} Uhr", f"at:0 {english}:1 o'clock:2")
    previous = words.numeral(hour - 1)[1]
    return Adverb(f"um halb {german}", f"at:0 half:1 past:1 {previous}:2")


def month(draw: Draw) -> Adverb:
    """Anfang Mai: at the beginning of May."""
    german = draw.pick(list(words.MONTHS))
    part = draw.pick(list(words.MONTH_PARTS))
    preposition, english = words.MONTH_PARTS[part].split()
    return Adverb(
        f"{part} {german}", f"{preposition}:- the:- {english}:0 of:- {words.MONTHS[german]}:1"
    )


def place(draw: Draw, table: Mapping[str, tuple[str, str, str]]) -> Prepositional:
    """A place, or a direction, by the kind of place."""
    kind = draw.pick(list(table))
    return Prepositional(*table[kind], definite(draw, kind))


def transport(draw: Draw) -> Prepositional:
    """mit dem Zug, where English drops the article: by train."""
    vehicle = NounPhrase(draw.pick(NOUNS["V"]), "the")
    return Prepositional("mit", "dat", "by", vehicle, bare=True)
