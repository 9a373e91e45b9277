"""What `seq2seq evaluate` can refuse before a test set is read and a model loaded."""

import argparse
from pathlib import Path

from seq2seq.cli.files import check_written
from seq2seq.cli.options import engine_options, search_options
from seq2seq.cli.testset import USAGE
from seq2seq.data.text import check_rereadable, count_lines
from seq2seq.errors import ConfigError


def check_options(arguments: argparse.Namespace, paths: list[Path], files: list[Path]) -> None:
    """Raises: ConfigError for options that cannot work; DataError for a text of --frequencies."""
    search_options(arguments)
    engine_options(arguments)
    check_comparison(arguments, paths)
    check_translations(arguments.output, paths)
    check_written(arguments.output, *paths, *files, arguments.frequencies)
    if arguments.frequencies:
        check_rereadable(arguments.frequencies)
        count_lines(arguments.frequencies)
    from seq2seq.evaluation.comet import comet_command
    from seq2seq.evaluation.metrics import find_metrics
    from seq2seq.evaluation.scores import check_seed

    check_seed()
    if arguments.metrics:
        find_metrics(arguments.metrics)
    if arguments.comet is not None:
        comet_command(arguments.comet)


def check_comparison(arguments: argparse.Namespace, paths: list[Path]) -> None:
    asked = {"--paired": arguments.paired, "--seeds": arguments.seeds}
    for option in [option for option, given in asked.items() if given]:
        if len(paths) == 1:
            raise ConfigError(
                f"{option} compares systems, and there is only {paths[0]}: {USAGE} with two PATHs "
                "or more"
            )


def check_translations(output: Path | None, paths: list[Path]) -> None:
    """Are there translations of one PATH only, if they are to be written?"""
    if output and len(paths) > 1:
        raise ConfigError(
            f"-o {output} takes the translations of one PATH, not of {len(paths)}: leave it out, "
            "or evaluate them one by one"
        )
