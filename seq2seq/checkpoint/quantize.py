"""One model from another: its matrices rounded to 8 bits, in a file of a quarter of the size."""

from collections.abc import Iterable
from math import inf
from pathlib import Path

from seq2seq import checkpoint
from seq2seq.base.errors import DataError
from seq2seq.checkpoint.folder import save_archive
from seq2seq.checkpoint.weights import quantize_weights
from seq2seq.decoding.calibration import input_maxima
from seq2seq.functional.int8 import LEVELS


def quantize_checkpoint(file: Path, output: Path, texts: Iterable[str] | None = None) -> int:
    """Write a checkpoint with the matrices of another in int8, and without the state of a training.

    Args:
        output: where to write; self-sufficient, as `file` is.
        texts: sources to calibrate by. None: the inputs of linear layers have the scales that they
            have in `file`, or none.

    Returns: the bytes of the same weights in float32.
    Raises: CheckpointError for a file that is not a checkpoint, or has weights that are not finite,
        and if the new one cannot be written; DataError if no text can be translated.
    """
    saved = checkpoint.read(file)
    model = saved.build()
    weights, row_scales = quantize_weights(model)
    state = {f"{checkpoint.PREFIX}{name}": value for name, value in weights.items()}
    input_scales = saved.input_scales if texts is None else calibrate(saved, texts)
    entry = checkpoint.make_entry(saved.config, saved.source, saved.target)
    scales = {"row_scales": row_scales, "input_scales": dict(input_scales)}
    entry |= {"format": checkpoint.INT8_FORMAT, **scales}
    save_archive({"state_dict": state, checkpoint.ENTRY: entry}, output, compressed=True)
    return sum(parameter.nbytes for parameter in model.parameters())


def calibrate(saved: checkpoint.Saved, texts: Iterable[str]) -> dict[str, float]:
    """The scale of the inputs of each linear layer, by name: the largest of them that enters while
    the model translates, / 127.

    Raises: DataError if none of the texts can be translated.
    """
    longest = saved.config["data"]["max_length"] - 1
    rows = [row for row in saved.source.encode_batch([*texts]) if row and len(row) <= longest]
    if not rows:
        raise DataError("there is no sentence to calibrate by: give a file of sources")
    maxima = input_maxima(saved.build(), rows)
    return {name: largest / LEVELS for name, largest in maxima.items() if 0 < largest < inf}
