"""Score translations of a test set with sacreBLEU: BLEU, chrF and TER of detokenised text, with
signatures. For BLEU and chrF, 100 is best; TER counts edits per 100 words, so 0 is best.

A PATH is a checkpoint, the folder of a run, or a file of translations, one sentence per line.
Several PATHs are compared with the first one.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.evaluate.printed import Findings, findings_entry, findings_lines
from seq2seq.cli.evaluate.systems import System, check_systems, translate, translate_with
from seq2seq.cli.evaluate.testset import COMMAND, TestSet, read_test_set, split_files
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.models import DecodingOptions, open_engine
from seq2seq.cli.options import argument, flag, value
from seq2seq.data.corpus.mixture import find_components
from seq2seq.text.languages import LANGUAGE_CODES, read_language

HELP = "score translations of a test set"
USAGE = f"{COMMAND} [options]"
MAX_RESAMPLES = 100_000  # each needs an index per sentence


def resamples(text: str) -> int:
    value = int(text)
    if value < 0 or value == 1 or value > MAX_RESAMPLES:
        raise ConfigError(f"{value} should be 0, or 2 to {MAX_RESAMPLES:,}; usually 1000")
    return value


def language(text: str) -> str:
    if not read_language(text).is_known:
        raise ConfigError(f"no language has the code {text}: {LANGUAGE_CODES}")
    return text


PATHS = (
    "systems, then SRC and REF, plain or .gz; a .tsv REF has a column per reference; or only a run "
    "of several languages, for all directions of its test set"
)
CHOICE = (
    "any of bleu, chrf, ter, bleu-tokenized, exact, ser; by default bleu,chrf,ter, and "
    "bleu-tokenized if the references look tokenized"
)
RESAMPLES = "resamples for 95%% intervals; 0: none (1000; none for over 10,000 sentences)"


Test = Literal["bootstrap", "randomization"]


class EvaluateOptions(DecodingOptions):
    """The options of `seq2seq evaluate`."""

    files: Sequence[InputPath] = argument(PATHS, "PATH", nargs="+")
    output: Path | None = value("also write the translations (of one PATH only)", "FILE", "-o")
    json: bool = flag("print one JSON object instead")
    metrics: list[str] | None = value(CHOICE, "A,B", type=lambda text: text.split(","))
    resamples: int | None = value(RESAMPLES, "N", type=resamples)
    language: str | None = value("target language; by default the model's", "CODE", type=language)
    lengths: bool = flag("also print the first score by source length")
    paired: Test | None = value("test if a PATH differs significantly from the first")


def check_arguments(options: EvaluateOptions, paths: list[Path]) -> None:
    """Raises: ConfigError for options that do not go together, and for unknown metrics."""
    if len(paths) == 1 and options.paired:
        raise ConfigError(f"--paired compares systems, and there is only {paths[0]}: add more")
    if len(paths) > 1 and options.output:
        raise ConfigError(f"-o is for one PATH, and there are {len(paths)}: leave it out")
    check_written(options.output, *inputs_of(options))
    from seq2seq.metrics.registry import METRICS, find_metrics
    from seq2seq.metrics.scores import check_seed

    check_seed()
    for name in options.metrics or ():
        METRICS.check_unclaimed(name)
    find_metrics(options.metrics or ())


def run(options: EvaluateOptions) -> int:
    findings = evaluate_directions(options) if len(options.files) == 1 else evaluate_files(options)
    if options.json:
        print(json.dumps(findings_entry(findings), ensure_ascii=False))
    else:
        for line in findings_lines(findings, lengths=options.lengths):
            print(printable(line))
    return int(any(system.failed for system, _ in findings.systems))


def evaluate_directions(options: EvaluateOptions) -> Findings:
    """Evaluate a model of several languages, as one system for each direction of its test set.

    Raises: ConfigError if the model does not have several languages and a test set.
    """
    path, found = options.files[0], list[Findings]()
    check_arguments(options, [path])
    opened = open_engine(path, options)
    data = opened.translator.config["data"]
    if not (data.get("languages") and data.get("test")):
        raise ConfigError(f"{path} has no test set of several languages, so add one: {COMMAND}")
    if options.output:
        one = f"{COMMAND} --source-language CODE --target-language CODE"
        raise ConfigError(f"-o takes the translations of one direction: {one}")
    for component in find_components(data, "test"):
        source, target = component.languages
        mine = replace(options, source_language=source, target_language=target)
        sources, references = map(list, zip(*component.text.pairs(), strict=True))
        test_set = TestSet(component.text.files[0], sources, [references])
        system = translate_with(opened, component.name, test_set, mine)
        found.append(evaluate(mine, [system], test_set))
    systems = [system for each in found for system in each.systems]
    return found[0]._replace(languages=(None, None), systems=systems)


def evaluate_files(options: EvaluateOptions) -> Findings:
    """Evaluate systems on a test set in two files."""
    paths, files = split_files(list(options.files))
    check_arguments(options, paths)
    test_set = read_test_set(*files)
    check_systems(paths, test_set, options)
    systems = [translate(path, test_set, options) for path in paths]
    if options.output:
        with replacing(options.output) as file:
            file.write(systems[0].content)
    return evaluate(options, systems, test_set)


def evaluate(options: EvaluateOptions, systems: list[System], test_set: TestSet) -> Findings:
    """Score the systems, and compare them if --paired asks for it."""
    from seq2seq.metrics.assessment import Assessor  # sacreBLEU takes a moment
    from seq2seq.metrics.registry import find_metrics
    from seq2seq.metrics.scores import compare_systems, usual_resamples
    from seq2seq.metrics.text_checks import cautions, usual_metrics

    config: dict[str, Any] = next((each.config["data"] for each in systems if each.config), {})
    target = options.language or options.target_language or config.get("target")
    languages = options.source_language or config.get("source"), target
    names = options.metrics or usual_metrics(test_set.first)
    lines = {system.name: system.lines for system in systems}
    if {"bleu", "chrf"} & set(names):
        for caution in cautions(test_set.first, lines, languages[1]):
            warnings.warn(caution, stacklevel=1)
    usual = usual_resamples(len(test_set.source))
    resamples = usual if options.resamples is None else options.resamples
    kinds = find_metrics(names)
    assessor = Assessor(test_set.source, test_set.references, kinds, languages, resamples)
    assessed = [(system, assessor.assess(system.lines)) for system in systems]
    paired = None
    if options.paired:
        paired = options.paired, compare_systems(lines, assessor.metrics, options.paired)
    return Findings(test_set, languages, assessed, resamples, paired)
