"""Evaluate a model of several languages on its own test set, in each direction."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.base.errors import ConfigError
from seq2seq.cli.evaluate.printed import Findings, pad_columns
from seq2seq.cli.evaluate.systems import System, is_model, translate_with
from seq2seq.cli.evaluate.testset import COMMAND, TestSet
from seq2seq.cli.models import open_engine
from seq2seq.data.corpus.mixture import find_components

if TYPE_CHECKING:
    from seq2seq.cli.evaluate.command import EvaluateOptions


def translate_directions(
    path: Path, options: "EvaluateOptions"
) -> Iterator[tuple["EvaluateOptions", System, TestSet]]:
    """The translations in each direction of the test set, with the options for this direction.

    Raises: ConfigError if the path is not such a model, or the model has no test set.
    """
    if not path.exists() or not is_model(path):
        raise ConfigError(f"{path} alone should be a model of several languages, or: {COMMAND}")
    if options.output:
        raise ConfigError("-o is for one direction: give SRC and REF, and their languages")
    opened = open_engine(path, options)
    data = opened.translator.config["data"]
    if not (data.get("languages") and data.get("test")):
        raise ConfigError(f"{path} names no test set in several languages: {COMMAND}")
    for component in find_components(data, "test"):
        source, target = component.languages
        mine = replace(options, source_language=source, target_language=target)
        sources, references = map(list, zip(*component.text.pairs(), strict=True))
        test_set = TestSet(component.text.files[0], sources, [references])
        system = translate_with(opened, test_set, mine)
        yield mine, system._replace(name=component.name), test_set


def directions_lines(findings: Sequence[Findings]) -> Iterator[str]:
    """A table with a row per direction and a column per score, the means, and the signatures."""
    first = findings[0].systems[0][1].scores
    rows = [["", *(score.name for score in first)]]
    values = []
    for each in findings:
        ((system, assessment),) = each.systems
        values.append([score.value for score in assessment.scores])
        rows.append([system.name, *(f"{value:.1f}" for value in values[-1])])
    means = (sum(column) / len(column) for column in zip(*values, strict=True))
    yield from pad_columns([*rows, ["mean", *(f"{value:.1f}" for value in means)]])
    languages = {each.languages[1]: each for each in findings}
    for language, each in languages.items():
        for score in each.systems[0][1].scores:
            yield f"{score.name} into {language} {score.signature}"
