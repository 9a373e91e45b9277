"""Shortlists from links and lexicons, worked out by hand."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from seq2seq.alignment.links import parse_links
from seq2seq.base.errors import DataError
from seq2seq.checkpoint import Saved
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.shortlist.build import LinkedPair, build_shortlist, count_pieces, read_lexicon
from seq2seq.interchange.ctranslate2 import VOCABULARY_MAP, write_vocabulary_map
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.text.tokenization.words import WordLevel

SOURCE, TARGET = "der Hund Anna 7 sieht", "the dog Anna 7 sees a hound"
TOKENIZERS = Tokenizers(*(WordLevel(vocab_size=100).train([text]) for text in (SOURCE, TARGET)))
IDS = [{name.strip("▁"): i for i, name in enumerate(side.symbols())} for side in TOKENIZERS]
PAIRS = [
    LinkedPair("der Hund sieht", "the dog sees", parse_links("0-0 1-1 2-2")),
    LinkedPair("Hund", "a hound", parse_links("0-1")),
    LinkedPair("der Hund", "the dog", parse_links("0-0 1-1")),
    LinkedPair("", "the", parse_links("")),
]


def named(lists: Shortlist, *sources: str) -> list[set[str]]:
    """Names on the lists of source pieces; without any, those on the list for all pieces."""
    places = [IDS[0][name] for name in sources] or [TOKENIZERS.source.size]
    names = TOKENIZERS.target.symbols()
    return [{names[i].strip("▁") for i in ids} for ids in lists.lists_of(places)]


def test_the_likeliest_and_the_most_frequent_are_listed() -> None:
    lists = build_shortlist(count_pieces(PAIRS, TOKENIZERS), TOKENIZERS, 1, 1)
    assert named(lists) == [{"the"}]
    assert named(lists, "der", "Hund", "sieht") == [set(), {"dog"}, {"sees"}]
    lists = build_shortlist(count_pieces(PAIRS, TOKENIZERS), TOKENIZERS, 1, 2)
    assert named(lists, "Hund") == [{"dog", "hound"}]


def test_a_piece_of_both_languages_is_on_its_own_list() -> None:
    lists = build_shortlist(count_pieces(PAIRS, TOKENIZERS), TOKENIZERS, 1, 1)
    assert named(lists, "Anna", "7") == [{"Anna"}, {"7"}]


def test_a_target_piece_is_divided_among_the_pieces_it_is_linked_to() -> None:
    counts = count_pieces([PAIRS[0]._replace(links=parse_links("0-0 1-0 1-1"))], TOKENIZERS)
    pairs = zip(counts.source, counts.target, counts.weights, strict=True)
    the, dog = IDS[1]["the"], IDS[1]["dog"]
    der, hund = IDS[0]["der"], IDS[0]["Hund"]
    assert {(s, t): w for s, t, w in pairs} == {(der, the): 0.5, (hund, the): 0.5, (hund, dog): 1}
    assert counts.frequency[[the, dog, IDS[1]["a"]]].tolist() == [1, 1, 0]


def test_no_symbol_is_listed() -> None:
    pairs = [LinkedPair("foreign Hund", "stranger dog", parse_links("0-0 0-1 1-0"))]
    lists = build_shortlist(count_pieces(pairs, TOKENIZERS), TOKENIZERS, 50, 50)
    assert lists.ids.min() > 3


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lexicons_of_marian_are_read(tmp_path: Path, suffix: str) -> None:
    text = "▁dog ▁Hund 0.75\n▁hound ▁Hund 0.25\n▁sees ▁sieht 1\n▁the NULL 0.5\nla ▁der 0.5\n\n"
    path = tmp_path / f"lex{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    counts, left_out = read_lexicon(path, TOKENIZERS)
    assert left_out == 2
    assert np.all(np.diff(counts.frequency) < 0)  # vocabularies begin with the most frequent
    lists = build_shortlist(counts, TOKENIZERS, 1, 1)
    assert named(lists, "Hund", "sieht", "der") == [{"dog"}, {"sees"}, set()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dog Hund", "line 2: each line should be"),
        ("dog Hund 0.5 0.5", "line 2: each line should be"),
        ("dog Hund many", "line 2: each line should be"),
        ("dog Hund nan", "line 2: each line should be"),
        ("dog Hund 1.5", "line 2: each line should be"),
        ("chien Hund 0.5", "none of its 2 pairs consists of pieces of this model"),
    ],
)
def test_a_wrong_line_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "lex"
    path.write_text(f"chien Hund 0.1\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_lexicon(path, TOKENIZERS)


def test_the_vocabulary_map_of_ctranslate2_has_the_same_lists(tmp_path: Path) -> None:
    lists = build_shortlist(count_pieces(PAIRS, TOKENIZERS), TOKENIZERS, 1, 2)
    saved = Saved({}, *TOKENIZERS, {}, False)
    write_vocabulary_map(saved, tmp_path, lists)
    lines = (tmp_path / VOCABULARY_MAP).read_text(encoding="utf-8").splitlines()
    written = {
        source: set(targets.split(" ")) for source, targets in (x.split("\t") for x in lines)
    }
    assert written[""] == {"▁the"} and written["▁Hund"] == {"▁dog", "▁hound"}
