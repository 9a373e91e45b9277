"""The requirements of one translation: as they are asked for, and while they are searched for."""

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
KEYS = ("text", "prefix", "must", "must_not")

Groups = tuple[tuple[str, ...], ...]  # phrases; of each group, a translation contains one


def parse_request(line: str) -> dict[str, Any]:
    """The JSON object of a line: `text`, and what is asked of its translation.

    Raises: DataError for anything else. The types of its values are checked by `check_request`.
    """
    try:
        entry = json.loads(line)
        json.dumps(entry, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # halves of characters, too
        raise DataError(f"not JSON ({error}): {EXAMPLE}") from None
    if not isinstance(entry, dict) or "text" not in entry:
        raise DataError(f"not an object with a text: {EXAMPLE}")
    if unknown := sorted(entry.keys() - set(KEYS)):
        raise DataError(f"unknown key {unknown[0]!r}. Known: {', '.join(KEYS)}")
    return entry


def check_request(
    text: object, prefix: object, must: object, must_not: object
) -> tuple[Groups, tuple[str, ...]]:
    """`must` and `must_not` as tuples; a word alone is a group of `must`.

    Raises: DataError for values of other types, and for phrases and groups that are empty.
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
    """A list of phrases as a tuple. Raises: DataError for anything else."""
    listed = phrases if isinstance(phrases, list | tuple) else [None]
    if not all(isinstance(phrase, str) and phrase.strip() for phrase in listed):
        raise DataError(f"must and must_not should be lists of words: {EXAMPLE}")
    return tuple(listed)


class Rules(NamedTuple):
    """The requirements of all translations whose source gives cause."""

    glossary: Glossary = Glossary()
    placeholders: Placeholders = Placeholders()

    def apply_to(self, text: str) -> bool:
        """Is anything required of the translation of this text? Raises: as `terms`."""
        return bool(self.glossary.alternatives(text) or self.placeholders.find(text))

    def terms(self, text: str, must: Groups = (), must_not: Sequence[str] = ()) -> list[Term]:
        """The terms of the translation of a text.

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
        forced: the pieces that it begins with.
        beginning: the bytes that it begins with, if pieces after those must write some of them.
        terms: what the search must satisfy.
        dropped: phrases that no translation can contain.

    Raises: ConfigError if the model cannot write the prefix and go on.
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
        """The constraint of the search for a part of the translation; None = none.

        Only the first part has the prefix, and contains what must be there. A later one contains
        nothing of what the first must copy.
        """
        if part:
            none = (t._replace(minimum=0, maximum=0) if t.anywhere else t for t in self.terms)
            constraint = Constraint(tuple(term for term in none if not term.minimum))
        else:
            constraint = Constraint(tuple(self.terms), self.beginning)
        return constraint if constraint.terms or constraint.beginning else None

    def rank(self, translation: str) -> tuple[int, int]:
        """The key by which translations are sorted: how many terms it does not satisfy, and how
        many placeholders it has that its source has not.
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
        """Drop the terms that the best translation does not satisfy; if there is none, those that
        the prefix violates, or else all. Returns: were there any?
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
        """The terms that no translation satisfies, since its prefix does not; or else all."""
        counts = self._vocabulary.counts(self.terms, self.prefix)
        pairs = zip(self.terms, counts, strict=True)
        return [term for term, n in pairs if n > term.maximum] or self.terms
