"""The corpus of suggestions is what people said last, and training reads it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2seq.base.errors import ConfigError
from seq2seq.cli import suggestions
from seq2seq.cli.main import parse_arguments
from seq2seq.data.corpus.mixture import find_components
from seq2seq.serving.storage import GLOSSARIES, SUGGESTIONS, Storage

Suggest = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def suggest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Suggest:
    """Keeps a suggestion, each later than the one before."""
    storage, times = Storage(folder), iter(range(1_000_000, 2_000_000))
    monkeypatch.setattr("seq2seq.serving.storage.time.time", lambda: float(next(times)))

    def suggest(text: str, translation: str, client: str = "a", pair: str = "de-en") -> None:
        source, target = pair.split("," if "," in pair else "-")
        facts = {"source": source, "target": target, "text": text, "translation": translation}
        storage.create(SUGGESTIONS, client, facts, b"")

    return suggest


def run(*words: Any) -> None:
    suggestions.run(parse_arguments(["suggestions", *map(str, words)]))


@pytest.mark.parametrize("suffix", [".jsonl", ".tsv"])
def test_the_last_suggestion_for_a_text_is_taken_and_training_reads_it(
    suggest: Suggest, folder: Path, tmp_path: Path, suffix: str
) -> None:
    suggest("Ein Hund.", "A hound.")
    suggest("Eine\tKatze\nschläft. ", 'A "cat" sleeps.', client="b")
    suggest("Ein  Hund.", "A dog.", client="c")
    output = tmp_path / f"corrections{suffix}"
    run(folder, "-o", output)
    assert not list(tmp_path.glob(".*"))
    spec = {"corrections": {"path": str(output), "weight": 5}}
    data = {"source": "de", "target": "en", "train": spec}
    (component,) = find_components(data, "train")
    expected = [("Ein Hund.", "A dog."), ("Eine Katze schläft.", 'A "cat" sleeps.')]
    assert list(component.text.pairs()) == expected and component.weight == 5
    if suffix == ".jsonl":
        rows = map(json.loads, output.read_text(encoding="utf-8").splitlines())
        assert [row["count"] for row in rows] == [2, 1]


def test_one_pair_of_languages_is_chosen(suggest: Suggest, folder: Path, tmp_path: Path) -> None:
    suggest("Ein Hund.", "A dog.")
    suggest("A dog.", "Ein Hund.", pair="en-de")
    output = tmp_path / "a.tsv"
    with pytest.raises(ConfigError, match=r"--languages de-en \(1\), --languages en-de \(1\)"):
        run(folder, "-o", output)
    with pytest.raises(ConfigError, match="one pair"):
        run(folder, "-o", output, "--languages", "de-fr")
    run(folder, "-o", output, "--languages", "EN-DE")
    assert output.read_text(encoding="utf-8") == "en\tde\tcount\nA dog.\tEin Hund.\t1\n"


def test_missing_suggestions_are_reported(folder: Path, tmp_path: Path) -> None:
    for make in (lambda: None, lambda: Storage(folder).create(GLOSSARIES, "a", {}, b"")):
        make()
        with pytest.raises(ConfigError, match="serve --keep-in FOLDER"):
            run(folder, "-o", tmp_path / "a.tsv")
    with pytest.raises(ConfigError, match=r"should end with .jsonl or .tsv"):
        run(folder, "-o", tmp_path / "a.txt")


def test_variants_of_languages_are_kept_apart(
    suggest: Suggest, folder: Path, tmp_path: Path
) -> None:
    suggest("A dog.", "Um cachorro.", pair="en,pt-BR")
    suggest("A dog.", "Um cão.", pair="en,pt-PT")
    output = tmp_path / "out.jsonl"
    with pytest.raises(ConfigError, match=r"--languages en,pt-BR \(1\), --languages en,pt-PT"):
        run(folder, "-o", output)
    run(folder, "-o", output, "--languages", "en,pt-br")
    (row,) = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    assert (row["en"], row["pt-BR"]) == ("A dog.", "Um cachorro.")
