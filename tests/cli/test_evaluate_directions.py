"""`seq2seq evaluate RUN` for a model of several languages."""

import json
from pathlib import Path

import pytest
from helpers.commands import Command, refused
from helpers.tiny_runs import demo_lines, tiny_overrides, train_again
from sacrebleu.metrics.chrf import CHRF

from seq2seq.translation.translator import Translator

LANGUAGES = ("de", "en", "fr")


def lines_of(language: str, count: int) -> list[str]:
    """German and English of the embedded corpus; "French" is English in capitals."""
    lines = demo_lines("train", "de" if language == "de" else "en", count)
    return [line.upper() for line in lines] if language == "fr" else lines


@pytest.fixture(scope="module")
def several(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has not seen German to French, nor French to German."""
    folder = tmp_path_factory.mktemp("several")
    for part, count in (("train", 40), ("test", 3)):
        for language in LANGUAGES:
            text = "".join(f"{line}\n" for line in lines_of(language, count))
            (folder / f"{part}.{language}").write_text(text, encoding="utf-8")
    corpora = (f"{x}: {{path: {folder}/train, languages: [en, {x}]}}" for x in ("de", "fr"))
    train_again(
        folder,
        *tiny_overrides(base),
        *("data.languages=[de,en,fr]", "data.source=null", "data.target=null"),
        *(f"data.train={{{', '.join(corpora)}}}", f"data.valid={folder}/test"),
        *(f"data.test={folder}/test", "trainer.max_steps=2"),
    )
    return folder


def test_each_direction_of_the_test_set_has_a_row(seq2seq: Command, several: Path) -> None:
    ended = seq2seq("evaluate", several, "--resamples", "0", "--metrics", "chrf", "--json")
    assert ended.code == 0
    systems = {each["path"]: each for each in json.loads(ended.lines[0])["systems"]}
    translator = Translator.load(several, "cpu")
    pairs = [(one, other) for one in LANGUAGES for other in LANGUAGES if one != other]
    assert sorted(systems) == sorted("-".join(pair) for pair in pairs)
    for source, target in pairs:
        languages = {"source_language": source, "target_language": target}
        hypotheses = translator.translate(lines_of(source, 3), **languages)
        score = CHRF().corpus_score(hypotheses, [lines_of(target, 3)]).score
        assert systems[f"{source}-{target}"]["chrF"]["score"] == pytest.approx(score)
    table = seq2seq("evaluate", several, "--resamples", "0", "--metrics", "chrf").lines
    assert {line.split()[0] for line in table[1:7]} == systems.keys()
    assert table[7].startswith("chrF nrefs:1") and "chrF nrefs:1" not in table[8]


def test_one_direction_is_the_row_of_the_table(
    seq2seq: Command, several: Path, tmp_path: Path
) -> None:
    typed = several, several / "test.de", several / "test.fr", "--source-language", "de"
    ended = seq2seq("evaluate", *typed, "--target-language", "fr", "--json")
    one = json.loads(ended.lines[0])
    whole = seq2seq("evaluate", several, "--json")
    (row,) = (x for x in json.loads(whole.lines[0])["systems"] if x["path"] == "de-fr")
    assert (one["BLEU"], one["sha256"]) == (row["BLEU"], row["sha256"])
    assert (one["source_language"], one["target_language"]) == ("de", "fr")


def test_a_model_of_one_direction_alone_is_refused(seq2seq: Command, run: Path) -> None:
    assert "has no test set of several languages" in refused(seq2seq("evaluate", run))


def test_translations_of_all_directions_are_not_written_to_one_file(
    seq2seq: Command, several: Path, tmp_path: Path
) -> None:
    ended = seq2seq("evaluate", several, "-o", tmp_path / "out")
    assert "one direction" in refused(ended) and not (tmp_path / "out").exists()


def test_a_report_shows_the_direction_that_is_asked_for(
    seq2seq: Command, several: Path, tmp_path: Path
) -> None:
    asked = "--source-language", "fr", "--target-language", "en"
    for more, file in (((), "test.de"), (asked, "test.fr")):
        page = tmp_path / f"{file}.html"
        ended = seq2seq("report", several, *more, "-o", page)
        assert ended.code == 0
        assert str(several / file) in ended.lines[-1]
