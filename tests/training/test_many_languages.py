"""Runs of several languages: scores of each direction, their mean, and what a checkpoint knows."""

import csv
import os
import subprocess
from pathlib import Path
from statistics import fmean

import pytest
from helpers.compared_runs import ON_ANY_DEVICES, TWO_PROCESSES
from helpers.tiny_runs import demo_lines, plan_of, tiny_overrides, train_again, train_command
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.translation.translator import Translator

LANGUAGES = ("de", "en", "fr")
DIRECTIONS = [(one, other) for one in LANGUAGES for other in LANGUAGES if one != other]
PART_SIZES = {"train": 120, "valid": 8}
LOOPBACK = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def lines_of(part: str, language: str) -> list[str]:
    """German and English of the embedded corpus; "French" is English in capitals."""
    lines = demo_lines(part, "de" if language == "de" else "en", PART_SIZES[part])
    return [line.upper() for line in lines] if language == "fr" else lines


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    for part in PART_SIZES:
        for language in LANGUAGES:
            lines = "".join(f"{line}\n" for line in lines_of(part, language))
            (folder / f"{part}.{language}").write_text(lines, encoding="utf-8")
    return folder


def options(text: Path, train: str = "") -> list[str]:
    """Trained with English only; validated in all directions, each with two sentences."""
    pairs = (f"{other}: {{path: {text}/train, languages: [en, {other}]}}" for other in ("de", "fr"))
    train = train or ", ".join(pairs)
    return [
        *("data.languages=[de,en,fr]", "data.source=null", "data.target=null"),
        *(f"data.train={{{train}}}", f"data.valid={text}/valid"),
        *("data.test=null", "validation.sentences=12", *ON_ANY_DEVICES),
    ]


@pytest.fixture(scope="module")
def run(base: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run-of-languages")
    train_again(folder, *tiny_overrides(base), *options(text))
    return folder


def last_scores(folder: Path) -> dict[str, float]:
    """The scores of the last validation, from metrics.csv."""
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        row = [row for row in csv.DictReader(file) if row["valid/bleu"]][-1]
    return {k: float(v) for k, v in row.items() if k and k.startswith("valid/") and v}


def test_each_direction_is_scored_on_its_first_sentences_and_the_mean_is_monitored(
    run: Path,
) -> None:
    scores = last_scores(run)
    translator = Translator.load(run / "last.ckpt", "cpu")
    for name, scorer in (("bleu", BLEU()), ("chrf", CHRF())):
        expected = {}
        for source, target in DIRECTIONS:
            sources, references = (lines_of("valid", each)[:2] for each in (source, target))
            languages = {"source_language": source, "target_language": target}
            hypotheses = translator.translate(sources, beam_size=1, **languages)
            score = scorer.corpus_score(hypotheses, [references]).score
            expected[f"valid/{name}/{source}-{target}"] = score
        found = {key: value for key, value in scores.items() if key.startswith(f"valid/{name}/")}
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert scores[f"valid/{name}"] == pytest.approx(fmean(expected.values()), rel=1e-5)
    assert '"monitor": "bleu"' in (run / "result.json").read_text(encoding="utf-8")


def test_a_checkpoint_knows_its_languages_also_those_of_directions_without_text(run: Path) -> None:
    data = checkpoint.read(run).config["data"]
    assert (data["languages"], data["language_tags"]) == (list(LANGUAGES), "target")
    assert data["source"] is data["target"] is None
    translator = Translator.load(run, "cpu")
    there = translator.translate(["Der Hund schläft."], source_language="de", target_language="fr")
    assert len(there) == 1
    with pytest.raises(ConfigError, match="target language is missing"):
        translator.translate(["Der Hund schläft."])


def test_a_run_is_not_resumed_with_other_directions(run: Path, base: Path, text: Path) -> None:
    more = f"de: {{path: {text}/train}}"
    resume = (f"resume={run / 'last.ckpt'}", "trainer.max_steps=12")
    with pytest.raises(ConfigError, match="languages of data.train differ"):
        train_again(run, *tiny_overrides(base), *options(text, more), *resume)


def test_a_target_that_is_never_trained_is_refused(base: Path, text: Path, tmp_path: Path) -> None:
    corpora = f"x: {{path: {text}/train, languages: [fr, de, en], both_directions: false}}"
    with pytest.raises(ConfigError, match=r"tag=fr: no training corpus has that tag"):
        train_again(tmp_path, *tiny_overrides(base), *options(text, corpora))
    corpora = f"x: {{path: {text}/train, languages: [de, en]}}"
    with pytest.raises(ConfigError, match=r"data.languages: no corpus of data.train has fr"):
        train_again(tmp_path, *tiny_overrides(base), *options(text, corpora))


def test_two_vocabularies_and_links_are_refused(base: Path, text: Path, tmp_path: Path) -> None:
    typed = *tiny_overrides(base), *options(text)
    with pytest.raises(ConfigError, match=r"tokenizer.joint=true"):
        train_again(tmp_path, *typed, "tokenizer.joint=false", "model.tie=target")
    with pytest.raises(ConfigError, match=r"guided.links=.* not data.languages"):
        plan_of(tmp_path, *typed, f"guided.links={{de: {text}/train.de}}")


@pytest.mark.slow
def test_two_processes_find_the_scores_of_one(
    run: Path, base: Path, text: Path, tmp_path: Path
) -> None:
    command = train_command(base, tmp_path, *options(text), *TWO_PROCESSES)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500, env=LOOPBACK)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert last_scores(tmp_path) == pytest.approx(last_scores(run), rel=1e-3, abs=1e-3)
