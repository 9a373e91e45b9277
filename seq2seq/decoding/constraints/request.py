"""The requirements of one translation, from the request to the search."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from seq2seq.base.errors import DataError
from seq2seq.decoding.constraints.glossary import Glossary
from seq2seq.decoding.constraints.lexical import Constraint, Term, Vocabulary
from seq2seq.decoding.constraints.placeholders import Placeholders, split_required
from seq2seq.decoding.constraints.spelling import count_occurrences

EXAMPLE = (
    'for example {"text": "...", "must": [["house", "houses"], ["green"]], "must_not": ["garden"]}'
)
KEYS = ("text", "prefix", "must", "must_not", "source_language", "target_language")

Groups = tuple[tuple[str, ...], ...]  # a translation contains one phrase of each group


def parse_request(line: str) -> dict[str, Any]:
    """The JSON object of a line: `text`, and the requirements of its translation.

    Raises: DataError if the line is not a JSON object with a text and known keys only.
        `check_request` checks the types of its values.
    """
    try:
        entry = json.loads(line)
        json.dumps(entry, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # lone surrogates, too
        raise DataError(f"not JSON ({error}): {EXAMPLE}") from None
    if not isinstance(entry, dict) or "text" not in entry:
        raise DataError(f"not an object with a text: {EXAMPLE}")
    if unknown := sorted(entry.keys() - set(KEYS)):
        raise DataError(f"unknown key {unknown[0]!r}. Known: {', '.join(KEYS)}")
    return entry


def check_request(
    text: object, prefix: object, must: object, must_not: object
) -> tuple[Groups, tuple[str, ...]]:
    """Convert `must` and `must_not` to tuples; a single string in `must` is a group of its own.

    Raises: DataError for values of other types, and for empty phrases and groups.
    """
    if not isinstance(text, str) or not isinstance(prefix, str):
        raise DataError(f"text and prefix should be texts: {EXAMPLE}")
    if not isinstance(must, list | tuple):
        raise DataError(f"must should be a list: {EXAMPLE}")
    groups = [check_phrases([each] if isinstance(each, str) else each) for each in must]
    phrases = check_phrases(must_not)
    if not all(groups):
        raise DataError(f"a group of must is empty: {EXAMPLE}")
    return tuple(groups), phrases


def check_phrases(phrases: object) -> tuple[str, ...]:
    """A list of phrases as a tuple. Raises: DataError if it is not a list of phrases."""
    listed = phrases if isinstance(phrases, list | tuple) else [None]
    if not all(isinstance(phrase, str) and phrase.strip() for phrase in listed):
        raise DataError(f"must and must_not should be lists of words: {EXAMPLE}")
    return tuple(listed)


class Rules(NamedTuple):
    """The requirements that depend on the source: a glossary and placeholders."""

    glossary: Glossary = Glossary()
    placeholders: Placeholders = Placeholders()

    def apply_to(self, text: str) -> bool:
        """True if the translation of this text has requirements. Raises: as `terms`."""
        return bool(self.glossary.alternatives(text) or self.placeholders.find(text))

    def terms(self, text: str, must: Groups = (), must_not: Sequence[str] = ()) -> list[Term]:
        """The terms that the translation of a text must satisfy.

        Raises: Seq2SeqError if the pattern of the placeholders takes too long.
        """
        groups = Counter(must)
        for phrases in self.glossary.alternatives(text):
            groups[phrases] = max(groups[phrases], 1)
        return [
            *(Term(phrases, count) for phrases, count in groups.items()),
            *(Term((phrase,), 0, 0) for phrase in must_not),
            *self.placeholders.terms(text),
        ]


class Requirements:
    """The requirements of the translation of one text. A term that no translation can satisfy is
    dropped during the search.

    Args:
        max_length: maximum pieces that the model can write, the end included; None = no limit.
        must, must_not: as `check_request` returns them.

    Attributes:
        forced: pieces that the translation begins with.
        beginning: bytes that it begins with; empty if the forced pieces write all of them.
        terms: terms that the search must satisfy.
        dropped: phrases that no translation can contain.

    Raises: ConfigError if the model cannot write the prefix and continue it.
    """

    def __init__(
        self,
        rules: Rules,
        vocabulary: Vocabulary,
        text: str,
        prefix: str = "",
        must: Groups = (),
        must_not: Sequence[str] = (),
        max_length: int | None = None,
    ):
        self.text, self.prefix = text, prefix
        self._placeholders, self._vocabulary = rules.placeholders, vocabulary
        self.terms, self.dropped = vocabulary.split_spellable(rules.terms(text, must, must_not))
        self.forced, rest = vocabulary.extend(prefix, max_length)
        self.beginning = vocabulary.spelling.write(self.forced) + rest if rest else b""

    @cached_property
    def copied(self) -> Counter[str]:
        """The placeholders of the text, with their counts."""
        return self._placeholders.find(self.text)

    def constraint(self, part: int = 0) -> Constraint | None:
        """The constraint of the search for a part of the translation; None = unconstrained.

        The prefix and all required phrases belong to the first part. Later parts must not repeat
        the placeholders that it copies.
        """
        if part:
            none = (t._replace(minimum=0, maximum=0) if t.anywhere else t for t in self.terms)
            terms, beginning = tuple(term for term in none if not term.minimum), b""
        else:
            terms, beginning = tuple(self.terms), self.beginning
        constraint = Constraint(terms, beginning, self._vocabulary.spaceless)
        return constraint if constraint.terms or constraint.beginning else None

    def rank(self, translation: str) -> tuple[int, int]:
        """The sort key of a translation: the number of terms that it does not satisfy, and the
        number of surplus placeholders, which its source does not have.
        """
        if not self.terms:
            return 0, 0
        surplus = self._placeholders.find(translation) - self.copied
        return len(self._missing_terms(translation)), surplus.total()

    def find_unsatisfied(self, translation: str) -> tuple[str, ...]:
        """The phrases that a translation should contain and does not."""
        terms = self._missing_terms(translation)
        _, others = split_required(self.copied)
        return (
            *self.dropped,
            *(term.phrases[0] for term in terms),
            *(p for p, count in others.items() if count_occurrences(p, translation, True) < count),
        )

    def drop_unsatisfied(self, best: str | None) -> bool:
        """Drop the terms that the best translation does not satisfy. Without a translation, drop
        the terms that the prefix violates, or else all. Returns: True if any were dropped.
        """
        terms = self._impossible_terms() if best is None else self._missing_terms(best)
        self.dropped += [term.phrases[0] for term in terms]
        self.terms = [term for term in self.terms if term not in terms]
        return bool(terms)

    def _missing_terms(self, translation: str) -> list[Term]:
        """The terms that a translation should contain and does not."""
        counts = self._vocabulary.counts(self.terms, translation)
        return [term for term, n in zip(self.terms, counts, strict=True) if n < term.minimum]

    def _impossible_terms(self) -> list[Term]:
        """The terms that the prefix violates, or else all terms."""
        counts = self._vocabulary.counts(self.terms, self.prefix)
        pairs = zip(self.terms, counts, strict=True)
        return [term for term, n in pairs if n > term.maximum] or self.terms
