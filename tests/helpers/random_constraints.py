"""Random constraints, and a check that a translation obeys them."""

import random
from math import inf

from seq2seq.decoding.constraints.lexical import Constraint, Term


def occurrences(phrase: str, text: str, spaceless: bool) -> int:
    """Count the places where a phrase occurs as whole words."""
    count = 0
    for start in range(len(text)):
        end = start + len(phrase)
        inside = text[max(0, start - 1) : start].isalnum(), text[end : end + 1].isalnum()
        cut = (inside[0] and phrase[0].isalnum()) or (inside[1] and phrase[-1].isalnum())
        count += text[start:end] == phrase and (spaceless or not cut)
    return count


def obeys(text: str, constraint: Constraint, spaceless: bool) -> bool:
    for term in constraint.terms:
        anywhere = spaceless or term.anywhere
        count = sum(occurrences(phrase, text, anywhere) for phrase in term.phrases)
        if not term.minimum <= count <= term.maximum:
            return False
    return text.startswith(constraint.beginning.decode())


def random_constraint(generator: random.Random) -> Constraint:
    phrases = ["a", "b", "ab", "ba", "a b", "b a", "c", "aa", "b c"]
    terms = []
    for _ in range(generator.randint(1, 3)):
        alternatives = tuple(generator.sample(phrases, generator.randint(1, 2)))
        minimum, maximum = generator.choice([(1, inf), (1, inf), (0, 0), (1, 1), (2, inf)])
        terms.append(Term(alternatives, minimum, maximum, generator.random() < 0.3))
    return Constraint(tuple(terms), generator.choice([b"", b"", b"a", b"b "]))
