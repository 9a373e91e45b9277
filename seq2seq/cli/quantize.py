"""Write a model with its matrices in 8 bits: a file of about a quarter of the size.

    seq2seq quantize RUN                    RUN/int8.ckpt
    seq2seq quantize A.ckpt -o B.ckpt
    seq2seq quantize RUN --calibrate a.de   also fix the scales of its inputs, with these sources

The result is a checkpoint like any other. In float32 it computes with the rounded matrices; with
--precision int8 it computes with the integers of the file.
"""

from itertools import islice
from pathlib import Path

from seq2seq.base.errors import printable
from seq2seq.cli.files import InputPath, check_written, folder_of, inputs_of
from seq2seq.cli.options import Options, argument, value

HELP = "write a model with its matrices in 8 bits, in a quarter of the size"
SAMPLE = 500


class QuantizeOptions(Options):
    """The options of `seq2seq quantize`."""

    path: InputPath = argument("a checkpoint, or the folder of a run", "PATH")
    output: Path | None = value("default: int8.ckpt in the folder of the run", "FILE", "-o")
    calibrate: InputPath | None = value(f"sources for fixed scales ({SAMPLE} lines)", "FILE")


def run(options: QuantizeOptions) -> None:
    output = options.output or folder_of(options.path) / "int8.ckpt"
    check_written(output, *inputs_of(options), model=True)
    from seq2seq.checkpoint.quantize import quantize_checkpoint
    from seq2seq.data.text.lines import read_lines  # only here: torch takes a second

    texts = islice(read_lines(options.calibrate), SAMPLE) if options.calibrate else None
    before = quantize_checkpoint(options.path, output, texts)
    size = output.stat().st_size
    print(printable(f"{output}: {size / 1e6:.1f} MB, for {before / 1e6:.1f} MB of float32"))
