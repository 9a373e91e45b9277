import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.builders import CONF
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.symbols import UNK
from seq2seq.data.corpus.ledger import count_common, write_ledger
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.data.text import formats

Parallel = Callable[..., tuple[Path, Path]]
WORD = {"name": "word", "joint": False}


@pytest.fixture
def made(parallel: Parallel, tmp_path: Path) -> Callable[..., Prepared]:
    """A function that prepares a corpus with duplicates, empty, long and unknown text."""
    source = ["ein hund", "", "ein hund", "eine katze", "a b c d e f g h", "ein hund", "z"]
    target = ["a dog", "x", "a dog", "a cat", "y", "the dog", "\t"]
    parallel("train", source, target)
    parallel("valid", ["ein hund", "eine kuh"], ["a dog", "a cow"])
    parallel("test", ["ein hund", "neu"], ["one dog", "new"])
    fields = {"name": "files", "source": "de", "target": "en", "max_length": 5}
    parts = {part: str(tmp_path / part) for part in ("train", "valid", "test")}

    def make(tokenizer: dict[str, Any] = WORD, **changes: Any) -> Prepared:
        cache = str(tmp_path / "cache")
        return prepare(DataOptions(**{**fields, **parts, "cache": cache, **changes}), tokenizer)

    return make


def test_a_ledger_names_files_pairs_and_what_was_left_out(
    made: Callable[..., Prepared], tmp_path: Path
) -> None:
    ledger = made().ledger
    [train] = ledger["parts"]["train"]["corpora"]
    content = (tmp_path / "train.de").read_bytes()
    assert train["files"][0] == {
        "path": str(tmp_path / "train.de"),
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    assert (train["read"], train["kept"]) == (7, 4)
    assert train["dropped"] == {
        "empty": {"count": 2, "lines": [2, 7]},
        "long": {"count": 1, "lines": [5]},
    }
    # Kept: three times "ein hund" and "eine katze", each of two words.
    assert train["source"]["lengths"] == [0, 0, 4]
    assert train["source"]["pieces"] == 8
    assert train["source"]["unknown_rate"] == 0
    assert ledger["tokenizer"]["name"] == "word"
    assert set(ledger["parts"]) == {"train", "valid", "test"}


def test_a_ledger_counts_duplicates_and_pairs_that_are_in_train(
    made: Callable[..., Prepared],
) -> None:
    prepared = made()
    parts = prepared.ledger["parts"]
    assert parts["train"]["duplicates"] == 1
    assert "in_train" not in parts["train"]
    assert (parts["valid"]["in_train"], parts["valid"]["duplicates"]) == (1, 0)
    # Its source stands in train, but with another target.
    assert parts["test"]["in_train"] == 0
    assert "warning: 1 of 2 valid pairs are in train as well" in prepared.report


def test_a_ledger_counts_sides_that_are_in_train(
    parallel: Parallel, made: Callable[..., Prepared]
) -> None:
    parallel("test", ["EIN HUND!", "neu", "alt", "jung"], ["one dog", "a  dóg", "A cat.", "new"])
    prepared = made()
    leaks = prepared.ledger["parts"]["test"]["leaks"]
    assert leaks == {"pairs": 3, "near": 0}
    assert "3 of 4 test pairs share a side with train, 0 nearly" in prepared.report
    assert "leaks" not in prepared.ledger["parts"]["train"]


@pytest.mark.parametrize(("max_length", "is_said"), [(3, False), (2, True)])
def test_a_corpus_that_loses_more_than_half_says_so(
    parallel: Parallel, made: Callable[..., Prepared], max_length: int, is_said: bool
) -> None:
    parallel("train", ["ein hund", "ein hund", "hund", ""], ["dog", "dog", "dog", "dog"])
    parallel("valid", ["hund"], ["dog"])
    parallel("test", ["hund"], ["dog"])
    report = made(max_length=max_length).report  # EOS is one more
    said = "warning: train: more than half of the pairs are left out"
    assert (said in report) == is_said
    assert any(
        line.startswith(f"train: 4 pairs read, {1 if is_said else 3} kept") for line in report
    )


def test_a_ledger_counts_unknown_pieces(made: Callable[..., Prepared]) -> None:
    prepared = made()
    [valid] = prepared.ledger["parts"]["valid"]["corpora"]
    ids = [*prepared.valid.source(0), *prepared.valid.source(1)]
    assert valid["source"]["unknown"] == ids.count(UNK) == 1
    assert valid["source"]["unknown_rate"] == 0.25
    assert "valid: 25.00% of the source pieces are unknown" in prepared.report


def test_a_second_ledger_is_the_same_and_reads_no_text(
    made: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.data.corpus.cache.SETTLED_NS", -(10**9))
    first = made().ledger

    def refuse(path: Path) -> None:
        raise AssertionError(f"{path} is read again")

    monkeypatch.setattr(formats, "read_lines", refuse)
    monkeypatch.setattr(formats, "count_lines", refuse)
    monkeypatch.setattr("seq2seq.data.corpus.cache.sha256_of", refuse)
    assert made().ledger == first


def test_a_ledger_is_written_as_json(made: Callable[..., Prepared], tmp_path: Path) -> None:
    ledger = made().ledger
    write_ledger(ledger, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "data.json").read_text("utf-8")) == ledger


def test_only_the_first_hundred_lines_left_out_are_named(
    made: Callable[..., Prepared], parallel: Parallel
) -> None:
    parallel("train", ["a", *[""] * 500], ["a"] * 501)
    [train] = made().ledger["parts"]["train"]["corpora"]
    assert train["dropped"]["empty"] == {"count": 500, "lines": list(range(2, 102))}


hashes = st.lists(st.integers(0, 9), min_size=1).map(lambda x: np.array(sorted(x), np.uint64))


@given(some=hashes, others=hashes)
def test_shared_hashes_are_counted(some: np.ndarray, others: np.ndarray) -> None:
    assert count_common(some, others) == sum(x in set(others.tolist()) for x in some.tolist())


def two(tmp_path: Path, **options: Any) -> dict[str, Any]:
    return {
        "first": {"path": str(tmp_path / "train"), "tag": "a"},
        "second": {"path": str(tmp_path / "more.tsv"), **options},
    }


@pytest.fixture
def more(tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("en\tde\na cow\teine kuh\na dog\tein hund\n")


@pytest.mark.usefixtures("more")
def test_several_corpora_become_one(made: Callable[..., Prepared], tmp_path: Path) -> None:
    prepared = made(train=two(tmp_path, weight=2.5))
    assert [tuple(share) for share in prepared.train.shares] == [(0, 4, 1.0), (4, 6, 2.5)]
    first, second = prepared.ledger["parts"]["train"]["corpora"]
    assert (first["name"], first["kept"], first["tag"]) == ("first", 4, "a")
    assert (second["name"], second["kept"], second["weight"]) == ("second", 2, 2.5)
    assert "train.second: 2 pairs read, 2 kept" in prepared.report
    assert prepared.ledger["parts"]["train"]["duplicates"] == 2
    assert prepared.ledger["parts"]["valid"]["in_train"] == 2


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize("joint", [True, False])
def test_a_tag_stands_before_every_source_of_its_corpus(
    joint: bool, made: Callable[..., Prepared], tmp_path: Path
) -> None:
    prepared = made({**WORD, "joint": joint}, train=two(tmp_path, tag="b"))
    source, target = prepared.tokenizers
    assert (source is target) == joint
    tags = [source.tag_id(name) for name in ("a", "b")]
    assert [int(prepared.train.source(row)[0]) for row in range(6)] == tags[:1] * 4 + tags[1:] * 2
    assert source.decode_batch([prepared.train.source(5).tolist()]) == ["ein hund"]
    # The tag counts as a piece beside the two words.
    assert prepared.train.source_lengths.tolist() == [3] * 6
    for text in ("<tag a>", "<tag b> <tag a>"):
        assert not set(source.encode_batch([text])[0]) & set(tags)


def test_tags_survive_a_checkpoint(made: Callable[..., Prepared], tmp_path: Path) -> None:
    train = {"only": {"path": str(tmp_path / "train"), "tag": "de"}}
    tokenizer = made(train=train).tokenizers.source
    copy = type(tokenizer).from_json(tokenizer.to_json())
    assert copy.tag_id("de") == tokenizer.tag_id("de") == tokenizer.size - 1
    assert copy.tag_id("de") not in copy.encode_batch(["<tag de>"])[0]
    with pytest.raises(ConfigError, match="no tag 'fr'"):
        copy.tag_id("fr")


@pytest.mark.usefixtures("more")
def test_a_weight_changes_no_encoded_file(made: Callable[..., Prepared], tmp_path: Path) -> None:
    made(train=two(tmp_path))
    before = sorted((tmp_path / "cache").iterdir())
    made(train=two(tmp_path, weight=3))
    assert sorted((tmp_path / "cache").iterdir()) == before


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": {}}, "data.train names no corpus"),
        ({"train": {"a": "my/a"}}, "data.train.a='my/a' should have a path"),
        ({"train": {"a": {"weight": 1}}}, "data.train.a=.*should have a path"),
        ({"train": {"a": {"path": 5}}}, "data.train.a.path=5 should be"),
        ({"train": {"a": {"path": "x", "wait": 2}}}, "a.wait; did you mean 'weight'"),
        ({"train": {"a": {"path": "x", "weight": 0}}}, "a.weight=0 should be a number above 0"),
        ({"train": {"a": {"path": "x", "weight": "2"}}}, "a.weight='2' should be a number"),
        ({"train": {"a": {"path": "x", "weight": float("nan")}}}, "a.weight=nan should be"),
        ({"train": {"a": {"path": "x", "tag": "a b"}}}, "a.tag='a b' should be a word"),
        ({"valid": {"a": {"path": "x", "weight": 2}}}, "only training corpora have weights"),
    ],
)
def test_a_faulty_option_of_a_corpus_is_refused(
    changes: dict[str, Any], words: str, made: Callable[..., Prepared]
) -> None:
    with pytest.raises(ConfigError, match=words):
        made(**changes)


def test_a_tag_that_training_lacks_is_refused(
    made: Callable[..., Prepared], tmp_path: Path
) -> None:
    valid = {"a": {"path": str(tmp_path / "valid"), "tag": "fr"}}
    with pytest.raises(ConfigError, match="data.valid.a.tag=fr: no training corpus.*none"):
        made(valid=valid)


def test_a_missing_corpus_of_several_is_named(made: Callable[..., Prepared]) -> None:
    with pytest.raises(DataError, match="data.train.b.path=no/such"):
        made(train={"b": {"path": "no/such"}})


@pytest.mark.parametrize(("header", "line"), [("de\ten\n", 3), ("", 2)])
def test_lines_left_out_of_a_table_are_lines_of_the_file(
    header: str, line: int, made: Callable[..., Prepared], tmp_path: Path
) -> None:
    table = tmp_path / "odd.tsv"
    table.write_text(f"{header}a\tb\n\tb\n")
    columns = {} if header else {"source": 1, "target": 2}
    parts = dict.fromkeys(("train", "valid"), str(table))
    [train] = made(**parts, **columns, test=None).ledger["parts"]["train"]["corpora"]
    assert train["dropped"]["empty"] == {"count": 1, "lines": [line]}


@pytest.mark.usefixtures("more")
def test_a_column_may_be_typed_as_an_integer(made: Callable[..., Prepared], tmp_path: Path) -> None:
    table = str(tmp_path / "more.tsv")
    prepared = made(source=2, target=1, train=table, valid=table, test=None)
    assert len(prepared.train) == 3
    assert prepared.ledger["parts"]["train"]["corpora"][0]["read"] == 3
    said = "data.target=1 is the code of no language: BLEU takes what is between spaces for words"
    assert said in prepared.report
    assert not any("no language" in line for line in made().report)


def test_spelling_to_sound_is_prepared_as_words(tmp_path: Path) -> None:
    folder = Path(os.environ.get("SEQ2SEQ_G2P", CONF.parent / "data" / "g2p"))
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    options = DataOptions(
        name="files",
        source="letters",
        target="phones",
        train=str(folder / "valid"),
        valid=str(folder / "test"),
        cache=str(tmp_path / "cache"),
    )
    prepared = prepare(options, WORD)
    source, target = prepared.tokenizers
    # At most 26 letters, 39 phones with three stresses for the vowels, some marks, 4 symbols each.
    assert 20 < source.size < 45
    assert 40 < target.size < 80
    text = source.decode_batch([prepared.valid.source(0).tolist()])
    assert prepared.valid.source_lengths[0] == len(text[0].split())
    [valid] = prepared.ledger["parts"]["valid"]["corpora"]
    assert valid["target"]["unknown_rate"] < 0.01
