"""Average the weights of several checkpoints. The result is a checkpoint like any other.

seq2seq average RUN --last 3            what a run with checkpoint.keep_last=3 kept
seq2seq average RUN --best 3            ... with checkpoint.keep_best=3
seq2seq average A.ckpt B.ckpt -o C.ckpt
"""

from collections.abc import Sequence
from pathlib import Path

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.options import Options, argument, value

HELP = "average the weights of several checkpoints"


class AverageOptions(Options):
    """The options of `seq2seq average`."""

    paths: Sequence[InputPath] = argument("the folder of a run, or checkpoints", "PATH", nargs="+")
    best: int | None = value("the N best checkpoints of a run", "N", either=False)
    last: int | None = value("the N last checkpoints of a run", "N", either=False)
    output: Path | None = value("default: RUN/average.ckpt", "FILE", "-o")


def run(options: AverageOptions) -> None:
    first = options.paths[0]
    count = options.best or options.last
    if count and (len(options.paths) > 1 or first.is_file()):
        raise ConfigError("--best and --last take the folder of one run: give that alone")
    if not count and any(path.is_dir() for path in options.paths):
        raise ConfigError(f"name the checkpoints of the run: seq2seq average {first} --last 3")
    output = options.output or (first / "average.ckpt" if count else None)
    if output is None:
        raise ConfigError("give a file for the average: -o average.ckpt")
    from seq2seq.checkpoint import average  # only here: torch takes a second

    files: Sequence[Path] = options.paths
    if count:
        files = average.list_checkpoints(first, "best" if options.best else "last", count)
    check_written(output, *inputs_of(options), *files, model=True)
    average.average(files, output)
    print(printable(f"{output}: the mean of {', '.join(file.name for file in files)}"))
