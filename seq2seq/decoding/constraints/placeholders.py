"""Placeholders: what is copied from a text to its translation as it is."""

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass

from seq2seq.base.environment import limit_time
from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding.constraints.lexical import Term
from seq2seq.decoding.constraints.spelling import count_occurrences
from seq2seq.text.documents.placeholders import PLACEHOLDERS

SECONDS = 1.0  # of computing, in which a pattern must have read a text
# Of the phrases that a search must copy from a sentence, or that a client asks for: each is encoded
# in all contexts.
MAX_REQUIRED, MAX_CHARACTERS = 50, 2_000


@dataclass(frozen=True)
class Placeholders:
    """The matches of a pattern in a text; none without a pattern."""

    pattern: re.Pattern[str] | None = None

    def find(self, text: str) -> Counter[str]:
        """The placeholders of a text, and how often each occurs, in their order.

        Raises: Seq2SeqError if the pattern takes too long, see `limit_time`.
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
                "Repeat nothing that repeats, as (a+)+ does, or let it give nothing back: (?:a+)++"
            ) from None

    def terms(self, text: str) -> list[Term]:
        """The terms of the first placeholders of a text, by which a search copies them."""
        required, _ = split_required(self.find(text))
        return [term for phrase in required for term in copy_terms(phrase, text)]


def split_required(placeholders: Counter[str]) -> tuple[list[str], dict[str, int]]:
    """The first placeholders, which a search must copy; and the others, which are only looked for
    in a translation, with their counts.
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
    """The terms of a translation that contains a phrase as often as a text does: as whole words,
    and elsewhere.
    """
    whole, everywhere = count_occurrences(phrase, text), count_occurrences(phrase, text, True)
    at_most = Term((phrase,), 0 if whole else everywhere, everywhere, anywhere=True)
    return [Term((phrase,), whole), at_most] if whole else [at_most]
