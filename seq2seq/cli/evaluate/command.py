"""Score translations of a test set: BLEU, chrF and TER by sacreBLEU, on detokenised text, with
signatures. BLEU and chrF: 100 is best; TER: edits per 100 words, 0 is best.

A PATH is a checkpoint, the folder of a run, or a file of translations, one sentence per line.
Several are compared; the first is the baseline.
"""

import json
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.evaluate.printed import Findings, findings_entry, findings_lines
from seq2seq.cli.evaluate.systems import System, check_systems, file_content, translate_systems
from seq2seq.cli.evaluate.testset import USAGE, TestSet, read_test_set, split_files
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.options import (
    Option,
    add_decoding,
    add_device,
    add_ensemble,
    add_options,
    decoding_arguments,
    model_paths,
    options_of_models,
)
from seq2seq.cli.requirements import add_requirements, check_requirements
from seq2seq.text.languages import LANGUAGE_CODES, read_language

HELP = "score translations of a test set"
MAX_RESAMPLES = 100_000  # each takes an index per sentence


def add_arguments(command: ArgumentParser) -> None:
    command.usage = f"{USAGE} [options]"
    add = command.add_argument
    add("files", type=InputPath, nargs="+", metavar="PATH", help=PATHS)
    add_device(command)
    add("-o", "--output", type=Path, help="also write the translations, of one PATH only")
    add("--json", action="store_true", help="print one JSON object instead")
    scores = command.add_argument_group("scores")
    add_options(scores, SCORES)
    lengths = "also print the first score by source length"
    scores.add_argument("--lengths", action="store_true", help=lengths)
    several = command.add_argument_group("comparison of several PATHs")
    paired = "test each against the first: is the difference significant?"
    several.add_argument("--paired", choices=("bootstrap", "randomization"), help=paired)
    add_requirements(command)
    add_ensemble(command)
    add_decoding(command)


def resamples(text: str) -> int:
    value = int(text)
    if value < 0 or value == 1 or value > MAX_RESAMPLES:
        raise ArgumentTypeError(f"{value} should be 0, or 2 to {MAX_RESAMPLES:,}; usually 1000")
    return value


def language(text: str) -> str:
    if not read_language(text).is_known:
        raise ArgumentTypeError(f"{text} is the code of no language: {LANGUAGE_CODES}")
    return text


PATHS = "systems, then SRC, one sentence per line, and REF, its translations; each may be .gz. "
PATHS += "A REF that ends in .tsv has a column per reference"
CHOICE = "any of bleu, chrf, ter, bleu-tokenized, exact, ser; by default bleu,chrf,ter, and "
CHOICE += "bleu-tokenized if the references look tokenized"
RESAMPLES = "resamples for 95%% intervals; 0 for none. By default 1000, and none for more than "
RESAMPLES += "10,000 sentences, which would fill the memory"
SCORES = {
    "metrics": Option(lambda text: text.split(","), "A,B", CHOICE),
    "resamples": Option(resamples, "N", RESAMPLES),
    "language": Option(language, "CODE", "target language; by default the model's"),
}


def check_arguments(arguments: Namespace, paths: list[Path]) -> None:
    """Raises: ConfigError for options that cannot work."""
    decoding_arguments(arguments)
    check_requirements(arguments)
    if len(paths) == 1 and arguments.paired:
        raise ConfigError(f"--paired compares systems, and there is only {paths[0]}: add more")
    if len(paths) > 1 and arguments.output:
        raise ConfigError(f"-o is for one PATH, and there are {len(paths)}: leave it out")
    model_paths(paths[0], arguments)  # refuses options of ensembles without another model
    check_written(arguments.output, *inputs_of(arguments))
    from seq2seq.metrics.registry import METRICS, find_metrics
    from seq2seq.metrics.scores import check_seed

    check_seed()
    for name in arguments.metrics or ():
        METRICS.check_unclaimed(name)
    if arguments.metrics:
        find_metrics(arguments.metrics)


def run(arguments: Namespace) -> int:
    paths, files = split_files(arguments)
    check_arguments(arguments, paths)
    test_set = read_test_set(*files)
    check_systems(paths, test_set, options_of_models(arguments))
    from seq2seq.metrics.text_checks import cautions, usual_metrics  # sacreBLEU takes a moment

    names = arguments.metrics or usual_metrics(test_set.first)
    systems = list(translate_systems(paths, test_set, arguments))
    if arguments.output:
        with replacing(arguments.output) as file:
            file.write(file_content(systems[0].lines))
    if {"bleu", "chrf"} & set(names):
        lines = {system.name: system.lines for system in systems}
        _, language = find_languages(systems, arguments.language)
        for caution in cautions(test_set.first, lines, language):
            warnings.warn(caution, stacklevel=1)
    findings = evaluate(systems, test_set, names, arguments)
    if arguments.json:
        print(json.dumps(findings_entry(findings), ensure_ascii=False))
    else:
        for line in findings_lines(findings, lengths=arguments.lengths):
            print(printable(line))
    return int(any(system.failed for system in systems))


def evaluate(
    systems: list[System], test_set: TestSet, names: list[str], arguments: Namespace
) -> Findings:
    """Score the systems, and compare them as the arguments say."""
    from seq2seq.metrics.assessment import Assessor
    from seq2seq.metrics.registry import find_metrics
    from seq2seq.metrics.scores import compare_systems, usual_resamples

    languages = find_languages(systems, arguments.language)
    usual = usual_resamples(len(test_set.source))
    resamples = usual if arguments.resamples is None else arguments.resamples
    kinds = find_metrics(names)
    assessor = Assessor(test_set.source, test_set.references, kinds, languages, resamples)
    assessed = [(system, assessor.assess(system.lines)) for system in systems]
    paired = None
    if arguments.paired:
        lines = {system.name: system.lines for system in systems}
        paired = arguments.paired, compare_systems(lines, assessor.metrics, arguments.paired)
    return Findings(test_set, languages, assessed, resamples, paired)


def find_languages(systems: list[System], target: str | None) -> tuple[str | None, str | None]:
    """Source and target language: the target as typed, else those of the first model."""
    config: dict[str, Any] = next((each.config["data"] for each in systems if each.config), {})
    return config.get("source"), target or config.get("target")
