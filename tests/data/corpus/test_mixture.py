"""The directions of corpora in several languages: which text is on which side, with which tag."""

from pathlib import Path
from typing import Any

import pytest

from seq2seq.base.errors import ConfigError
from seq2seq.data.corpus.mixture import find_components
from seq2seq.data.options import DataOptions

WORDS = {"de": "hund", "en": "dog", "fr": "chien"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The same sentence in three languages: files of lines, a table and JSON lines."""
    for language, word in WORDS.items():
        (tmp_path / f"a.{language}").write_text(f"{word}\n", encoding="utf-8")
    columns = ["\t".join(row) for row in (WORDS, WORDS.values())]
    (tmp_path / "a.tsv").write_text("\n".join(columns) + "\n", encoding="utf-8")
    row = ", ".join(f'"{language}": "{word}"' for language, word in WORDS.items())
    (tmp_path / "a.jsonl").write_text(f"{{{row}}}\n", encoding="utf-8")
    return tmp_path


def options(train: Any, **more: Any) -> DataOptions:
    common = {"name": "languages", "source": None, "target": None, "languages": ["en", "de", "fr"]}
    return DataOptions(train=train, valid="unread", **{**common, **more})


def found(train: Any, **more: Any) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each component by name; source, target and tag are checked with the name."""
    components = find_components(vars(options(train, **more)), "train")
    for component in components:
        assert component.direction and component.name.endswith(component.direction)
        source, target = component.languages
        assert component.tag == target
        assert list(component.text.pairs()) == [(WORDS[source], WORDS[target])]
    return {component.name: list(component.text.pairs()) for component in components}


ALL = ["en-de", "en-fr", "de-fr", "de-en", "fr-en", "fr-de"]


@pytest.mark.parametrize("name", ["a", "a.tsv", "a.jsonl"])
def test_text_in_three_languages_is_used_in_six_directions(folder: Path, name: str) -> None:
    assert list(found(str(folder / name))) == ALL


def test_a_list_has_a_file_for_each_language_in_the_order_of_the_languages(folder: Path) -> None:
    paths = [str(folder / f"a.{language}") for language in ("en", "de", "fr")]
    assert list(found(paths)) == ALL
    pair = {"x": {"path": paths[1:], "languages": ["de", "fr"]}}
    assert list(found(pair)) == ["x de-fr", "x fr-de"]
    with pytest.raises(ConfigError, match="lists 2 files"):
        options(paths[1:])
    with pytest.raises(ConfigError, match="lists 3 files"):
        options({"x": {"path": paths, "languages": ["de", "fr"]}})


def test_a_corpus_may_have_some_languages_and_one_direction(folder: Path) -> None:
    prefix = str(folder / "a")
    corpora = {
        "both": {"path": prefix, "languages": ["de", "en"]},
        "back": {"path": prefix, "languages": ["fr", "en"], "both_directions": False},
    }
    assert list(found(corpora)) == ["both de-en", "back fr-en", "both en-de"]
    components = find_components(vars(options(corpora)), "train")
    assert [component.corpus for component in components] == ["both", "back", "both"]
    assert [component.is_reversed for component in components] == [False, False, True]


@pytest.mark.parametrize(
    ("train", "more", "message"),
    [
        ("x", {"languages": ["de"]}, "data.languages=de needs two different languages"),
        ("x", {"languages": ["de", "en", "de"]}, "needs two different languages: de, en, de"),
        ("x", {"languages": ["de", "e n"]}, "'e n' is not a word"),
        ("x", {"target": "es"}, "data.target=es should be one of data.languages=en,de,fr"),
        ("x", {"both_directions": True, "source": "de", "target": "en"}, "leave it out"),
        ({"a": {"path": "x", "tag": "b"}}, {}, "Leave data.train.a.tag out"),
        ({"a": {"path": "x", "languages": ["de", "es"]}}, {}, "data.train.a.languages=de,es"),
        ({"a": {"path": "x", "languages": ["de", "de"]}}, {}, "two or more different languages"),
        ({"a": {"path": "x", "languages": []}}, {}, "two or more different languages"),
    ],
)
def test_languages_that_do_not_fit_are_refused(train: Any, more: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(train, **more)


@pytest.mark.parametrize("option", [{"languages": ["de", "en"]}, {"both_directions": False}])
def test_a_run_of_one_direction_has_no_languages(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"data.train.a.{next(iter(option))} needs"):
        options({"a": {"path": "x", **option}}, languages=None, source="de", target="en")


def test_a_column_may_be_called_zero_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"0": "hund", "1": "dog"}\n', encoding="utf-8")
    train, alone = str(tmp_path / "a.jsonl"), {"languages": None}
    (component,) = find_components(vars(options(train, source=0, target=1, **alone)), "train")
    assert list(component.text.pairs()) == [("hund", "dog")]
    with pytest.raises(ConfigError, match=r"data.source='' should be the suffix"):
        options(train, source=None, target=1, **alone)
