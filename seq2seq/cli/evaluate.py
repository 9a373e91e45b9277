"""Score translations of a test set: BLEU, chrF and TER by sacreBLEU, on detokenised text, with
signatures. BLEU and chrF: 100 is best; TER counts edits for 100 words, 0 is best.

A PATH is a checkpoint, the folder of a run, or a file of translations that somebody has made, a
line a sentence. Several are compared; the first is the baseline.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.cli.assessed import Findings, Shown, as_json, as_lines
from seq2seq.cli.options import (
    add_device,
    add_engine,
    add_search,
    check_output,
    engine_options,
    search_options,
)
from seq2seq.cli.systems import System, as_text, check_systems, translations, warn_of_twins
from seq2seq.cli.testset import USAGE, TestSet, read_test_set, split_files
from seq2seq.data.text import count_lines, read_lines
from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from seq2seq.evaluation.assessment import Assessor

HELP = "score translations of a test set"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.usage = f"{USAGE} [options]"
    add = command.add_argument
    add(
        "files",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="systems, then SRC, a sentence a line, and REF, its translations; each may be .gz. A "
        "REF that ends in .tsv has a column for each of several references",
    )
    add_device(command)
    add("-o", "--output", type=Path, help="also write the translations here, of one PATH")
    add("--json", action="store_true", help="print one JSON object instead")
    add_scores(command)
    add_comparison(command)
    add_search(command)
    add_engine(command)


def add_scores(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("scores")
    add = group.add_argument
    add(
        "--metrics",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="of bleu, chrf, ter, bleu-tokenized, exact, ser; by default bleu,chrf,ter, and "
        "bleu-tokenized if the references look tokenized",
    )
    add(
        "--resamples",
        type=resamples,
        default=1000,
        metavar="N",
        help="test sets drawn for 95%% intervals (%(default)s); 0 for none",
    )
    add("--language", metavar="CODE", help="target language; by default the model's")
    add("--test-set", metavar="NAME", help="sacreBLEU's, fetched, instead of SRC REF: wmt14/full")
    add("--langpair", metavar="PAIR", help="of --test-set, such as en-de")
    add("--lengths", action="store_true", help="also the first score by the source's length")
    add(
        "--frequencies",
        type=Path,
        metavar="FILE",
        help="the training text's target side: also how many words of which frequency are found",
    )
    add("--comet", metavar="COMMAND", help="also COMET, by the comet-score of another environment")


def add_comparison(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("comparison of several PATHs")
    group.add_argument(
        "--paired",
        choices=("bootstrap", "randomization"),
        help="a test of each against the first: is the difference more than chance?",
    )
    group.add_argument(
        "--seeds",
        action="store_true",
        help="they are runs of one recipe: their mean and standard deviation",
    )


def resamples(text: str) -> int:
    value = int(text)
    if value < 0 or value == 1:
        raise argparse.ArgumentTypeError(f"{value} should be 0, or 2 or more; 1000 is usual")
    return value


def run(arguments: argparse.Namespace) -> int:
    paths, files = split_files(arguments)
    check_options(arguments, paths)
    test_set = read_test_set(arguments, files)
    check_systems(paths, test_set)
    from seq2seq.evaluation.looks import cautions, looks_tokenized  # only here: it takes a second
    from seq2seq.evaluation.metrics import DEFAULT, find_metrics

    names = arguments.metrics or list(DEFAULT)
    if arguments.metrics is None and looks_tokenized(test_set.first):
        names.append("bleu-tokenized")
    find_metrics(names)
    systems = list(translations(paths, test_set, arguments))
    if arguments.output:
        arguments.output.write_bytes(as_text(systems[0].lines))
    warn_of_twins(systems, arguments.seeds)
    if {"bleu", "chrf"} & set(names):
        for caution in cautions(test_set.first, systems[0].lines):
            warnings.warn(caution, stacklevel=1)
    found = assess(systems, test_set, names, arguments)
    if arguments.json:
        print(json.dumps(as_json(found), ensure_ascii=False))
    else:
        for line in as_lines(found, Shown(arguments.lengths)):
            print(line)
    return int(any(system.failed for system in systems))


def check_options(arguments: argparse.Namespace, paths: list[Path]) -> None:
    """What can be known before any file is read. Raises: ConfigError, DataError."""
    search_options(arguments)
    engine_options(arguments)
    if arguments.metrics:
        from seq2seq.evaluation.metrics import find_metrics

        find_metrics(arguments.metrics)
    several = [
        option
        for option, given in (("--paired", arguments.paired), ("--seeds", arguments.seeds))
        if given
    ]
    if len(paths) == 1 and several:
        raise ConfigError(
            f"{several[0]} compares systems, and there is only {paths[0]}: {USAGE} with two or more"
        )
    if arguments.output:
        if len(paths) > 1:
            raise ConfigError(
                f"-o {arguments.output} takes the translations of one PATH, not of {len(paths)}: "
                "leave it out, or evaluate them one by one"
            )
        check_output(arguments.output)
    if arguments.frequencies:
        count_lines(arguments.frequencies)
    if arguments.comet:
        from seq2seq.evaluation.comet import comet_command

        comet_command(arguments.comet)


def assess(
    systems: list[System], test_set: TestSet, names: list[str], arguments: argparse.Namespace
) -> Findings:
    from seq2seq.evaluation.scores import scatter
    from seq2seq.evaluation.significance import compare

    languages = spoken(systems, test_set)
    assessor = build_assessor(test_set, names, languages, arguments)
    assessed = [(system, assessor.assess(system.lines)) for system in systems]
    paired = None
    if arguments.paired:
        lines = {system.name: system.lines for system in systems}
        paired = arguments.paired, compare(lines, assessor.metrics, arguments.paired)
    seeds = scatter([each.scores for _, each in assessed]) if arguments.seeds else None
    return Findings(
        test_set, languages, assessed, arguments.resamples, paired, seeds, arguments.comet
    )


def build_assessor(
    test_set: TestSet,
    names: list[str],
    languages: tuple[str | None, str | None],
    arguments: argparse.Namespace,
) -> "Assessor":
    from seq2seq.evaluation.assessment import Assessor
    from seq2seq.evaluation.buckets import count_words
    from seq2seq.evaluation.comet import comet_command
    from seq2seq.evaluation.metrics import find_metrics

    counts = None
    if arguments.frequencies:
        counts = count_words(read_lines(arguments.frequencies), languages[1])
    return Assessor(
        test_set.source,
        test_set.references,
        find_metrics(names),
        languages,
        arguments.resamples,
        counts,
        comet_command(arguments.comet) if arguments.comet else (),
    )


def spoken(systems: list[System], test_set: TestSet) -> tuple[str | None, str | None]:
    """Source and target language: what was typed, else what the first model says."""
    configs = [system.config["data"] for system in systems if system.config]
    config = configs[0] if configs else {}
    source, target = test_set.languages
    return source or config.get("source"), target or config.get("target")
