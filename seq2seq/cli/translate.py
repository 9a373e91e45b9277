"""Translate the texts given, or stdin line by line to stdout.

As many lines come out as go in; an empty line for an empty line, and for one that cannot be
translated, which also makes the exit code 1. Messages go to stderr.
"""

import argparse
import sys

from seq2seq.cli.lines import one_line, read_input_lines
from seq2seq.cli.options import add_model, add_search, positive
from seq2seq.errors import ConfigError

HELP = "translate texts, or stdin to stdout"


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("texts", nargs="*", metavar="TEXT", help="nothing: read lines from stdin")
    command.add_argument("--nbest", type=positive, help="print so many, with their scores")
    command.add_argument(
        "--max-source", type=positive, help="pieces beyond which a line is cut into parts"
    )
    add_search(command)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.texts and sys.stdin is None:  # as after `<&-`
        raise ConfigError(
            "there is nothing to translate: standard input is closed. Give texts, or a file: "
            f"seq2seq translate {arguments.path} < FILE"
        )
    # torch takes a second: only once the arguments are known to be right.
    from seq2seq.translator import Translator

    translator = Translator.load(arguments.path, arguments.device, arguments.tag)
    search = translator.search(
        beam_size=arguments.beam_size, length_penalty=arguments.length_penalty
    )
    if arguments.nbest and arguments.nbest > search.beams:
        raise ConfigError(
            f"--nbest {arguments.nbest} needs as many beams: add --beam-size {arguments.nbest}"
        )
    interactive = not arguments.texts and sys.stdin.isatty()
    results = translator.stream(
        arguments.texts or read_input_lines(sys.stdin.buffer),
        search,
        max_source=arguments.max_source,
        look_ahead=1 if interactive else 2000,
    )
    failed = False
    for number, found in enumerate(results, start=1):
        failed = failed or found is None
        # Flushed line by line, since whoever reads may be waiting for just this one.
        if not arguments.nbest:
            print(one_line(found[0].text) if found else "", flush=True)
            continue
        for translation in (found or [])[: arguments.nbest]:
            text = one_line(translation.text)
            print(number, f"{translation.score:.4f}", text, sep="\t", flush=True)
    return int(failed)
