"""Average the weights of several checkpoints. The result is a checkpoint like any other.

seq2seq average RUN --last 3            what a run with checkpoint.keep_last=3 kept
seq2seq average RUN --best 3            ... with checkpoint.keep_best=3
seq2seq average A.ckpt B.ckpt -o C.ckpt
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.options import positive

HELP = "average the weights of several checkpoints"


def add_arguments(command: ArgumentParser) -> None:
    paths = "the folder of a run, or checkpoints"
    command.add_argument("paths", nargs="+", type=InputPath, metavar="PATH", help=paths)
    which = command.add_mutually_exclusive_group()
    which.add_argument("--best", type=positive, metavar="N", help="the N best checkpoints of a run")
    which.add_argument("--last", type=positive, metavar="N", help="the N last checkpoints of a run")
    command.add_argument("-o", "--output", type=Path, help="default: RUN/average.ckpt")


def run(arguments: Namespace) -> int:
    first = arguments.paths[0]
    count = arguments.best or arguments.last
    if count and (len(arguments.paths) > 1 or first.is_file()):
        raise ConfigError("--best and --last take the folder of one run: give that alone")
    if not count and any(path.is_dir() for path in arguments.paths):
        raise ConfigError(f"which checkpoints of the run? seq2seq average {first} --last 3")
    output = arguments.output or (first / "average.ckpt" if count else None)
    if output is None:
        raise ConfigError("give a file for the average: -o average.ckpt")
    from seq2seq.checkpoint.average import (  # only here: torch takes a second
        average,
        list_checkpoints,
    )

    files = arguments.paths
    if count:
        files = list_checkpoints(first, "best" if arguments.best else "last", count)
    check_written(output, *inputs_of(arguments), *files, model=True)
    average(files, output)
    print(printable(f"{output}: the mean of {', '.join(file.name for file in files)}"))
    return 0
