"""The tables of nouns, verbs and words, read into records."""

from typing import NamedTuple

from demo_corpus import nouns, verbs, words


class Noun(NamedTuple):
    """A noun; `plural` is empty where it is not counted, `kind` is its letter in the tables."""

    german: str
    gender: str
    weak: bool
    plural: str
    english: str
    english_plural: str
    kind: str


class Verb(NamedTuple):
    """A verb with its principal parts and the requirements on its arguments.

    `subjects` is the kinds of noun that may do it; `complement` is the kinds of noun it is done to,
    the conjunction of a clause, or nothing, depending on the frame.
    """

    prefix: str
    infinitive: str
    third: str
    participle: str
    auxiliary: str
    reflexive: bool
    english: str
    english_past: str
    frame: str
    subjects: str
    complement: str
    preposition: tuple[str, str, str]

    @property
    def animate(self) -> bool:
        """Can the subject want something, or go with somebody?"""
        return not {"P", "A"}.isdisjoint(self.subjects)

    @property
    def durative(self) -> bool:
        """Can one be in the middle of it, or do it for three hours?"""
        return self.lemma in DURATIVE

    @property
    def lemma(self) -> str:
        """The dictionary form: aufmachen, sich ausruhen, warten auf."""
        reflexive = "sich " if self.reflexive else ""
        preposition = f" {self.preposition[0]}" if self.preposition[0] else ""
        return f"{reflexive}{self.prefix}{self.infinitive}{preposition}"


class Adjective(NamedTuple):
    """An adjective; `stem` is the form before an ending (teuer, teure)."""

    german: str
    english: str
    kinds: str
    stem: str


class Modal(NamedTuple):
    """A modal verb: its forms for ich, du, er, wir, ihr and sie, and the English words."""

    forms: tuple[str, str, str, str, str, str]
    english: str
    past: bool


def english_plural(noun: str) -> str:
    """The regular plural of an English noun: boxes, parties, days."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def _noun(kind: str, row: list[str]) -> Noun:
    german, gender, plural, english = row
    singular, _, irregular = english.replace("_", " ").partition("/")
    return Noun(
        german=german,
        gender="m" if gender == "w" else gender,
        weak=gender == "w",
        plural="" if plural == "-" else plural,
        english=singular,
        english_plural=irregular or english_plural(singular),
        kind=kind,
    )


def _verb(frame: str, row: list[str]) -> Verb:
    german, third, participle, english, past, *rest = row
    reflexive, _, plain = german.rpartition("/")
    prefix, _, infinitive = plain.rpartition("|")
    auxiliary, _, participle = participle.rpartition("/")
    preposition = ("", "", "")
    if frame == "prepositional":
        form, case = rest[0].split("+")
        preposition = (form, case, "" if rest[1] == "-" else rest[1])
    complement = rest[-1] if rest else ""
    subjects, _, objects = complement.rpartition(">")
    if frame == "intransitive":
        subjects, objects = complement, ""
    return Verb(
        prefix=prefix,
        infinitive=infinitive,
        third="" if third == "-" else third,
        participle=participle,
        auxiliary="sein" if auxiliary else "haben",
        reflexive=bool(reflexive),
        english=english.replace("_", " "),
        english_past="" if past == "-" else past,
        frame=frame,
        subjects=subjects or "P",
        complement=objects,
        preposition=preposition,
    )


def _adjective(row: list[str]) -> Adjective:
    german, english, kinds, *stem = row
    return Adjective(german, english, kinds, stem[0] if stem else german)


DURATIVE = [lemma.replace("_", " ") for lemma in verbs.DURATIVE.split()]
NOUNS = {
    kind: [_noun(kind, row) for row in _rows(table)] for kind, table in nouns.NOUN_TABLES.items()
}
VERBS = {
    frame: [_verb(frame, row) for row in _rows(table)]
    for frame, table in {
        "transitive": verbs.TRANSITIVE,
        "intransitive": verbs.INTRANSITIVE,
        "dative": verbs.DATIVE,
        "ditransitive": verbs.DITRANSITIVE,
        "prepositional": verbs.PREPOSITIONAL,
        "directional": verbs.DIRECTIONAL,
        "clausal": verbs.CLAUSAL,
        "infinitival": verbs.INFINITIVAL,
        "weather": verbs.WEATHER,
    }.items()
}
MEASURES = [
    (
        _noun("F", measure.split()),
        [noun for kind in "FD" for noun in NOUNS[kind] if noun.german in contents],
    )
    for measure, contents in words.MEASURES.items()
]
COPULA = _verb("copula", ["sein", "ist", "ist/gewesen", "be", "was"])
NAMES = {"f": words.WOMEN.split(), "m": words.MEN.split()}
RELATIONS = words.RELATIONS.split()
PROFESSIONS = {
    gender: [noun for noun in NOUNS["P"] if noun.german in table.split()]
    for gender, table in words.PROFESSIONS.items()
}
ADJECTIVES = [_adjective(row) for row in _rows(words.ADJECTIVES)]
COMPARATIVES = {
    positive: (comparative, english.replace("_", " "))
    for positive, comparative, english in _rows(words.COMPARATIVES)
}
MODALS = [
    Modal(("kann", "kannst", "kann", "können", "könnt", "können"), "can", False),
    Modal(("muss", "musst", "muss", "müssen", "müsst", "müssen"), "have to", False),
    Modal(("soll", "sollst", "soll", "sollen", "sollt", "sollen"), "should", False),
    Modal(("darf", "darfst", "darf", "dürfen", "dürft", "dürfen"), "may", False),
    Modal(("will", "willst", "will", "wollen", "wollt", "wollen"), "want to", False),
    Modal(
        ("möchte", "möchtest", "möchte", "möchten", "möchtet", "möchten"), "would like to", False
    ),
    Modal(("konnte", "konntest", "konnte", "konnten", "konntet", "konnten"), "could", True),
    Modal(("musste", "musstest", "musste", "mussten", "musstet", "mussten"), "have to", True),
    Modal(("wollte", "wolltest", "wollte", "wollten", "wolltet", "wollten"), "want to", True),
]
AUXILIARIES = {
    "haben": ("habe", "hast", "hat", "haben", "habt", "haben"),
    "sein": ("bin", "bist", "ist", "sind", "seid", "sind"),
    "werden": ("werde", "wirst", "wird", "werden", "werdet", "werden"),
    "war": ("war", "warst", "war", "waren", "wart", "waren"),
}
