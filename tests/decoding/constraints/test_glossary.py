"""The terms of a glossary, and where they apply."""

import random
from pathlib import Path

import pytest

from seq2seq.base.errors import DataError
from seq2seq.decoding.constraints.glossary import Glossary
from seq2seq.decoding.constraints.spelling import count_occurrences


def test_terms_of_a_glossary_are_used_where_the_source_has_them(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\tHunde\n\ngreen house\tGewächshaus\n", encoding="utf-8")
    glossary = Glossary.read(path)
    assert glossary.entries == [("dog", ("Hund", "Hunde")), ("green house", ("Gewächshaus",))]
    assert glossary.alternatives("A dog, a dogma.") == [("Hund", "Hunde")]
    assert glossary.alternatives("A Dog in a greenhouse.") == []
    anyhow = Glossary(glossary.entries, same_case=False)
    assert anyhow.alternatives("The Green House.") == [("Gewächshaus",)]
    spaceless = Glossary(glossary.entries, spaceless=True)
    assert spaceless.alternatives("A dogma.") == [("Hund", "Hunde")]


def test_lines_with_one_term_are_alternatives(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\ncat\tKatze\ndog\tHund\tDogge\nDog\tRüde\n", encoding="utf-8")
    assert Glossary.read(path).entries == [
        ("dog", ("Hund", "Dogge")),
        ("cat", ("Katze",)),
        ("Dog", ("Rüde",)),
    ]
    anyhow = Glossary.read(path, same_case=False)
    assert anyhow.alternatives("A DOG.") == [("Hund", "Dogge", "Rüde")]


def test_terms_are_literal_and_a_line_without_a_phrase_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text('a\\tb\tC:\\n\n&amp;\t"und"\n', encoding="utf-8")
    assert Glossary.read(path).entries == [("a\\tb", ("C:\\n",)), ("&amp;", ('"und"',))]
    path.write_text("dog\tHund\nhouse\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 'house' should be a term of the source, a tab"):
        Glossary.read(path)


@pytest.mark.parametrize("spaceless", [False, True])
@pytest.mark.parametrize("same_case", [False, True])
def test_exactly_the_terms_that_occur_are_found(spaceless: bool, same_case: bool) -> None:
    draw = random.Random(0)

    def text(most: int) -> str:
        return "".join(draw.choices("aAbß -1", k=draw.randint(1, most)))

    for _ in range(300):
        entries = [(text(4), (str(place),)) for place in range(40)]
        sentence = text(40)
        expected = [
            phrases
            for term, phrases in entries
            if count_occurrences(
                term if same_case else term.casefold(),
                sentence if same_case else sentence.casefold(),
                spaceless,
            )
        ]
        assert Glossary(entries, same_case, spaceless).alternatives(sentence) == expected
    assert Glossary(entries).alternatives("") == []
