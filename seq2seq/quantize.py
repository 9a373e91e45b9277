"""One model from another: its matrices rounded to 8 bits, in a file of a quarter of the size."""

from pathlib import Path

from seq2seq import checkpoint
from seq2seq.checkpoint.archive import save_archive
from seq2seq.checkpoint.int8 import quantize_weights


def quantize_checkpoint(file: Path, output: Path) -> int:
    """Write a checkpoint with the matrices of another in int8, and without the state of a training.

    Args:
        output: where to write; self-sufficient, as `file` is.

    Returns: the bytes of the same weights in float32.
    Raises: CheckpointError for a file that is not a checkpoint, or has weights that are not finite,
        and if the new one cannot be written.
    """
    saved = checkpoint.read(file)
    model = saved.build()
    weights, scales = quantize_weights(model)
    state = {f"{checkpoint.PREFIX}{name}": value for name, value in weights.items()}
    entry = checkpoint.make_entry(saved.config, saved.source, saved.target)
    entry |= {"format": checkpoint.INT8_FORMAT, "row_scales": scales}
    save_archive({"state_dict": state, checkpoint.ENTRY: entry}, output)
    return sum(parameter.nbytes for parameter in model.parameters())
