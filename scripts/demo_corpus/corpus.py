"""The three parts of the corpus: what training may see, and what only the tests contain."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from demo_corpus.draw import Draw
from demo_corpus.meaning import Adverb, Clause, NounPhrase, Prepositional
from demo_corpus.phrase import links, text
from demo_corpus.sentences import sentence

TRAIN_SIZE, VALID_SIZE, TEST_SIZE = 14_000, 500, 500
MAX_WORDS = 22
# Of the valid and test sentences, the share that must hold a combination never seen in training.
NEW_SHARE = 0.7
# Every word form of the valid and test sentences occurs this often in training.
MIN_SEEN = 3


class Pair(NamedTuple):
    """A predicate with the noun in one of its roles: (lesen, object, Buch)."""

    predicate: str
    role: str
    noun: str


class Record(NamedTuple):
    """A sentence pair with its alignment and its predicate-argument pairs."""

    german: str
    english: str
    links: tuple[tuple[int, int], ...]
    pairs: tuple[Pair, ...]


class Corpus(NamedTuple):
    """The records of the three parts."""

    train: list[Record]
    valid: list[Record]
    test: list[Record]


def held_out(pair: Pair) -> bool:
    """Is the pair kept from training? One in ten is, by a hash that is the same everywhere."""
    return zlib.crc32("|".join(pair).encode()) % 10 == 0


def pairs(clause: Clause) -> Iterator[Pair]:
    """The predicate-argument pairs of a clause and of the relative clauses inside it."""
    predicate = clause.verb.lemma
    adjective = clause.parts.get("predicate")
    if isinstance(adjective, Adverb):
        predicate = f"sein {adjective.german}"
    for role, part in clause.parts.items():
        inner = part.inner if isinstance(part, Prepositional) else part
        if not isinstance(inner, NounPhrase):
            continue
        if role in ("subject", "object", "recipient", "oblique"):
            yield Pair(predicate, role, (inner.content or inner.noun).german)
        if inner.relative:
            yield from pairs(inner.relative.clause)


def record(draw: Draw) -> Record:
    """One sentence as it goes into the files."""
    drawn = sentence(draw)
    all_pairs = [pair for clause in drawn.clauses for pair in pairs(clause)]
    return Record(
        german=text(drawn.german),
        english=text(drawn.english),
        links=tuple(links(drawn.german, drawn.english)),
        pairs=tuple(dict.fromkeys(all_pairs)),
    )


def words_of(line: str) -> list[str]:
    """The word forms of a sentence: without punctuation, in lower case."""
    return [word.strip(".,?!").lower() for word in line.split()]


def forms(pair: Record) -> list[str]:
    """The word forms of both sides, each with its language: die and war are words of both."""
    german = [f"de {word}" for word in words_of(pair.german)]
    return german + [f"en {word}" for word in words_of(pair.english)]


class _Writer:
    """Draws records such that no German sentence occurs twice or has two translations."""

    def __init__(self, seed: int) -> None:
        self.random = Draw(seed)
        self.translations: dict[str, str] = {}
        self.used: set[str] = set()

    def draw(self, accept: Callable[[Record], bool]) -> Record:
        """The next record that is new, not too long, and acceptable."""
        while True:
            new = record(self.random)
            known = self.translations.setdefault(new.german, new.english)
            if known != new.english:
                raise ValueError(f"two translations of {new.german!r}: {known!r}, {new.english!r}")
            short = len(new.german.split()) <= MAX_WORDS
            if short and new.german not in self.used and accept(new):
                self.used.add(new.german)
                return new


def build(seed: int) -> Corpus:
    """The whole corpus from its seed.

    Raises: ValueError if the grammar gives one German sentence two translations.
    """
    writer = _Writer(seed)
    train = [writer.draw(lambda new: not any(map(held_out, new.pairs))) for _ in range(TRAIN_SIZE)]
    seen = Counter(form for known in train for form in forms(known))

    def familiar(new: Record) -> bool:
        return all(seen[form] >= MIN_SEEN for form in forms(new))

    def combining(new: Record) -> bool:
        return familiar(new) and any(map(held_out, new.pairs))

    def part(size: int) -> list[Record]:
        fresh = round(size * NEW_SHARE)
        return writer.random.shuffled(
            [writer.draw(combining if i < fresh else familiar) for i in range(size)]
        )

    return Corpus(train, part(VALID_SIZE), part(TEST_SIZE))
