"""Translate the texts given, or stdin line by line to stdout.

As many lines come out as go in; an empty line for an empty line. Messages go to stderr.
"""

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator

from seq2seq.cli.options import add_search, positive
from seq2seq.errors import ConfigError

HELP = "translate texts, or stdin to stdout"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("texts", nargs="*", metavar="TEXT", help="nothing: read lines from stdin")
    command.add_argument("--nbest", type=positive, help="print so many, with their scores")
    command.add_argument(
        "--max-source", type=positive, help="pieces beyond which a line is cut into parts"
    )
    add_search(command)


def run(arguments: argparse.Namespace) -> int:
    # torch takes a second: only once the arguments are known to be right.
    from seq2seq.translator import Translator

    translator = Translator.load(arguments.path, arguments.device)
    search = translator.search(
        beam_size=arguments.beam_size, length_penalty=arguments.length_penalty
    )
    if arguments.nbest and arguments.nbest > search.beams:
        raise ConfigError(
            f"--nbest {arguments.nbest} needs as many beams: add --beam-size {arguments.nbest}"
        )
    interactive = not arguments.texts and sys.stdin.isatty()
    results = translator.stream(
        arguments.texts or read_lines(sys.stdin.buffer),
        search,
        max_source=arguments.max_source,
        look_ahead=1 if interactive else 2000,
    )
    for number, found in enumerate(results, start=1):
        if arguments.nbest:
            for translation in found[: arguments.nbest]:
                print(number, f"{translation.score:.4f}", one_line(translation.text), sep="\t")
        else:
            print(one_line(found[0].text) if found else "", flush=interactive)
    return 0


def read_lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Lines that end in LF alone; broken UTF-8 becomes U+FFFD, with a warning naming the line."""
    for number, raw in enumerate(stream, start=1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            warnings.warn(
                f"line {number} is no UTF-8 ({error.reason} at byte {error.start})", stacklevel=2
            )
            text = raw.decode("utf-8", errors="replace")
        yield text.removesuffix("\n").removesuffix("\r")


def one_line(text: str) -> str:
    """A translation never makes two lines out of one."""
    return text.replace("\r", " ").replace("\n", " ")
