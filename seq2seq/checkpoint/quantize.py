"""Round the matrices of a model to 8 bits, which makes its file four times smaller."""

from collections.abc import Iterable
from math import inf
from pathlib import Path

from seq2seq import checkpoint
from seq2seq.base.errors import DataError
from seq2seq.checkpoint.weights import quantize_weights
from seq2seq.decoding.calibration import input_maxima
from seq2seq.functional.int8 import LEVELS


def quantize_checkpoint(file: Path, output: Path, texts: Iterable[str] | None = None) -> int:
    """Write a copy of a checkpoint with its matrices in int8 and without the training state.

    Args:
        output: path of the new checkpoint, which is complete like `file`.
        texts: source sentences that calibrate the input scales of linear layers; None = keep the
            scales that `file` has, if any.

    Returns: the size of the same weights in float32, in bytes.
    Raises: CheckpointError if `file` is not a checkpoint or has weights that are not finite, or if
        the new one cannot be written; DataError if none of the texts can be translated.
    """
    saved = checkpoint.read(file)
    model = saved.build()
    weights, row_scales = quantize_weights(model)
    input_scales = saved.input_scales if texts is None else calibrate(saved, texts)
    scales = {"row_scales": row_scales, "input_scales": dict(input_scales)}
    rounded = saved._replace(weights=weights)
    rounded.write(output, compressed=True, format=checkpoint.INT8_FORMAT, **scales)
    return sum(parameter.nbytes for parameter in model.parameters())


def calibrate(saved: checkpoint.Saved, texts: Iterable[str]) -> dict[str, float]:
    """The input scale of each linear layer, by name: the largest magnitude of its inputs while the
    model translates the texts, / 127.

    Raises: DataError if none of the texts can be translated.
    """
    longest = saved.config["data"]["max_length"] - 1
    rows = [row for row in saved.source.encode_batch([*texts]) if row and len(row) <= longest]
    if not rows:
        raise DataError("there is no sentence to calibrate with: give a file of source sentences")
    maxima = input_maxima(saved.build(), rows)
    return {name: largest / LEVELS for name, largest in maxima.items() if 0 < largest < inf}
