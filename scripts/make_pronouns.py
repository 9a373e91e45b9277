"""Make documents of the demo corpus in which only the sentence before tells what "it" means.

    python scripts/make_pronouns.py my/pronouns                   # train, valid, test and shuffled
    python scripts/make_pronouns.py my/pronouns --score OUTPUT.de   # a translation of test.en

A document has two sentences about one thing. In English, the second begins with "It"; in German,
with "Er", "Sie" or "Es", as the gender of the noun in the first asks. Valid and test are made of
statements that train does not have; train has all others, and each other sentence of the demo
corpus as a document. `shuffled` has the second sentences of `test` after sentences about things of
another gender, so that a model that reads these gets the pronouns wrong.
"""

import argparse
import random
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

DEMO = Path(__file__).resolve().parent.parent / "data" / "demo"
ENGLISH = re.compile(r"(?:The|An?) .*?\b((?:is|was) .*)")
GERMAN = re.compile(r"(Der|Die|Das) (?:[a-zäöüß]+ )?([A-ZÄÖÜ]\w+) ((?:ist|war) .*)")
PRONOUNS = {"Der": "Er", "Die": "Sie", "Das": "Es"}
# Of people and animals, English says "he" or "she".
ALIVE = (
    "affe anwalt arzt baby bauer bruder bär bäcker chef elefant ente esel fahrer fisch frau freund "
    "frosch fuchs gast hase huhn hund junge katze kind koch kollege kuh königin könig künstler "
    "lehrer löwe maus mann mutter mädchen nachbar oma onkel opa pferd pilot polizist schaf schwein "
    "schwester sohn spinne student sänger tante tiger tochter tourist vater verkäufer vogel wolf "
    "zauberer ziege ärztin bürgermeister"
)
SIZES = {"train": 6000, "valid": 200, "test": 400}
HELD_OUT = {"valid": slice(0, 30), "test": slice(30, 100)}
SEED = 1
CODES = ("en", "de")
Pair = tuple[str, str]


class Statement(NamedTuple):
    """A sentence about a thing, and the part after its subject, in English and German."""

    sentences: Pair
    predicates: Pair
    pronoun: str

    def after(self, pronoun: str) -> Pair:
        """The statement about what another sentence names, with its German pronoun."""
        english, german = self.predicates
        return f"It {english}", f"{pronoun} {german}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--score", type=Path, metavar="OUTPUT.de", help="count the right pronouns")
    given = parser.parse_args()
    if given.score:
        print(score(given.folder / "test.de", given.score))
    else:
        make(given.folder)


def make(folder: Path) -> None:
    """Write all files."""
    drawn = random.Random(SEED)
    demo = read_demo()
    statements = [*filter(None, map(find_statement, demo))]
    drawn.shuffle(statements)
    held_out = {part: statements[cut] for part, cut in HELD_OUT.items()}
    unseen = {each.sentences for part in held_out.values() for each in part}
    of_train = [each for each in statements if each.sentences not in unseen]
    folder.mkdir(parents=True, exist_ok=True)
    for part, size in SIZES.items():
        mine = held_out.get(part, of_train)
        pairs = [(drawn.choice(mine), drawn.choice(mine)) for _ in range(size)]
        documents = [[one.sentences, second.after(one.pronoun)] for one, second in pairs]
        if part == "train":
            documents += [[each] for each in demo if each not in unseen]
            drawn.shuffle(documents)
        write(folder / part, documents)
    shuffled = [[unlike(one, mine, drawn), second.after(one.pronoun)] for one, second in pairs]
    write(folder / "shuffled", shuffled)


def unlike(one: Statement, statements: list[Statement], drawn: random.Random) -> Pair:
    """A sentence about a thing of another gender."""
    return drawn.choice([each.sentences for each in statements if each.pronoun != one.pronoun])


def read_demo() -> list[Pair]:
    """The pairs of the training text of the demo corpus, in English and German."""
    texts = ((DEMO / f"train.{code}").read_text(encoding="utf-8") for code in CODES)
    return list(zip(*(text.splitlines() for text in texts), strict=True))


def find_statement(pair: Pair) -> Statement | None:
    """The statement that a pair makes about a thing, if it makes one."""
    english, german = ENGLISH.fullmatch(pair[0]), GERMAN.fullmatch(pair[1])
    if not (english and german):
        return None
    noun = german[2].lower().removesuffix("in")
    if noun.endswith(tuple(ALIVE.split())):
        return None
    return Statement(pair, (english[1], german[3]), PRONOUNS[german[1]])


def write(prefix: Path, documents: list[list[Pair]]) -> None:
    """Write documents, with blank lines between them."""
    for side, code in enumerate(CODES):
        texts = ("".join(f"{pair[side]}\n" for pair in document) for document in documents)
        Path(f"{prefix}.{code}").write_text("\n".join(texts), encoding="utf-8")


def score(reference: Path, output: Path) -> str:
    """The share of second sentences with the right pronoun, and of each pronoun."""
    rows = [path.read_text(encoding="utf-8").split("\n")[1::3] for path in (reference, output)]
    firsts = [[line.partition(" ")[0] for line in each] for each in rows]
    right = [(first, first == found) for first, found in zip(*firsts, strict=True)]
    counts = Counter(right)
    each = (
        f"{word}: {counts[word, True]} of {firsts[0].count(word)}" for word in PRONOUNS.values()
    )
    return f"{sum(hit for _, hit in right)} of {len(right)} pronouns are right ({', '.join(each)})"


if __name__ == "__main__":
    main()
