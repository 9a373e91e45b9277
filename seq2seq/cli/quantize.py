"""Write a model with its matrices in 8 bits: a file of about a quarter of the size.

    seq2seq quantize RUN                    RUN/int8.ckpt
    seq2seq quantize A.ckpt -o B.ckpt

It is a checkpoint like any other. In float32 it computes with the rounded matrices; int8 computes
with the very integers of the file.
"""

import argparse
from pathlib import Path

from seq2seq.cli.files import InputPath, check_written, folder_of, inputs_of
from seq2seq.errors import printable

HELP = "write a model with its matrices in 8 bits, in a quarter of the size"


def add_arguments(command: argparse.ArgumentParser) -> None:
    path = "a checkpoint, or the folder of a run"
    command.add_argument("path", type=InputPath, metavar="PATH", help=path)
    output = "default: int8.ckpt in the folder of the run"
    command.add_argument("-o", "--output", type=Path, help=output)


def run(arguments: argparse.Namespace) -> int:
    output = arguments.output or folder_of(arguments.path) / "int8.ckpt"
    check_written(output, *inputs_of(arguments), model=True)
    from seq2seq.quantize import quantize_checkpoint  # only here: torch takes a second

    before = quantize_checkpoint(arguments.path, output)
    size = output.stat().st_size
    print(printable(f"{output}: {size / 1e6:.1f} MB, for {before / 1e6:.1f} MB of float32"))
    return 0
