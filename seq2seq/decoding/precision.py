"""Numbers of another width for decoding."""

from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq


def with_precision(model: Seq2Seq, precision: str) -> Seq2Seq:
    """The model, computing in that precision. Raises: ConfigError for one that is not offered."""
    if precision != "float32":
        raise ConfigError(f"decode.precision={precision!r} should be float32")
    return model
