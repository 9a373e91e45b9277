"""Placeholders: parts of a text that are copied unchanged to its translation."""

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass

from seq2seq.base.environment import limit_time
from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding.constraints.lexical import Term
from seq2seq.decoding.constraints.spelling import count_occurrences
from seq2seq.text.documents.placeholders import PLACEHOLDERS

SECONDS = 1.0  # computing time that a pattern may take for one text
# Limits of the phrases that a search must copy from a sentence, or that a client asks for, since
# each is encoded in all contexts.
MAX_REQUIRED, MAX_CHARACTERS = 50, 2_000


@dataclass(frozen=True)
class Placeholders:
    """Finds placeholders by a pattern; without a pattern it finds nothing."""

    pattern: re.Pattern[str] | None = None

    def find(self, text: str) -> Counter[str]:
        """The placeholders of a text in order, with their counts.

        Raises: Seq2SeqError if the pattern takes too long; see `limit_time`.
        """
        if self.pattern is None:
            return Counter()
        is_linear = self.pattern.pattern == PLACEHOLDERS
        try:
            with nullcontext() if is_linear else limit_time(SECONDS):
                return Counter(filter(None, (m[0].strip() for m in self.pattern.finditer(text))))
        except TimeoutError:
            raise Seq2SeqError(
                f"--keep {self.pattern.pattern!r} takes more than {SECONDS:g} s for "
                f"{text[:40]!r}..., {len(text):,} characters: it tries too many ways to match. "
                "Avoid nested repetitions such as (a+)+, or make them possessive: (?:a+)++"
            ) from None

    def terms(self, text: str) -> list[Term]:
        """The terms that make a search copy the first placeholders of a text."""
        required, _ = split_required(self.find(text))
        return [term for phrase in required for term in copy_terms(phrase, text)]


def split_required(placeholders: Counter[str]) -> tuple[list[str], dict[str, int]]:
    """Split placeholders into the first ones, which a search must copy, and the others with their
    counts, which are only checked in the translation.
    """
    required: list[str] = []
    others: dict[str, int] = {}
    room = MAX_CHARACTERS
    for phrase, count in placeholders.items():
        if len(required) < MAX_REQUIRED and len(phrase) <= room:
            required.append(phrase)
            room -= len(phrase)
        else:
            others[phrase] = count
    return required, others


def copy_terms(phrase: str, text: str) -> list[Term]:
    """The terms that make a translation contain a phrase as often as the text does, as whole words
    and within words.
    """
    whole, everywhere = count_occurrences(phrase, text), count_occurrences(phrase, text, True)
    at_most = Term((phrase,), 0 if whole else everywhere, everywhere, anywhere=True)
    return [Term((phrase,), whole), at_most] if whole else [at_most]
