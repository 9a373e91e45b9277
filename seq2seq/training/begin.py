"""A new run that begins with the weights of another: fine-tuning, or a change of attention."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from seq2seq import checkpoint
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.models.convert import share_heads

FROM_CHECKPOINT = "checkpoint"  # the name of conf/tokenizer/checkpoint.yaml
SHOWN = 3  # differences named in a message
MAY_DIFFER = (*checkpoint.INDIFFERENT, "num_kv_heads", "length")


def given_tokenizers(tokenizer: Mapping[str, Any], path: str | None) -> Tokenizers | None:
    """The tokenizers of the checkpoint at `path`, if a run is to take those; None to learn them."""
    if tokenizer["name"] != FROM_CHECKPOINT or path is None:
        return None
    saved = checkpoint.read(path)
    return Tokenizers(saved.source, saved.target)


def begin_with(
    path: str, model: Seq2Seq, config: Mapping[str, Any], tokenizers: Tokenizers
) -> None:
    """Put the weights of a checkpoint into a model.

    Its attention may share heads that the checkpoint's does not: they take the mean.

    Args:
        path: of a checkpoint, or the folder of a run.
        model: changed in place.
        config: what it was built from.
        tokenizers: of the run that begins; the embeddings belong to them.

    Raises: ConfigError if the tokenizers are others, or the weights do not fit; CheckpointError for
        what is no checkpoint.
    """
    saved = checkpoint.read(path)
    before, now = (saved.source, saved.target), tuple(tokenizers)
    if [t.to_json() for t in before] != [t.to_json() for t in now]:
        raise ConfigError(
            f"init={path}: its embeddings belong to other tokenizers "
            f"({before[0].size:,} and {before[1].size:,} pieces, here {now[0].size:,} and "
            f"{now[1].size:,}). To take its tokenizers: tokenizer={FROM_CHECKPOINT}"
        )
    found = [
        str(difference)
        for node in ("model", "position", "attention")
        for difference in checkpoint.differences(saved.config[node], config[node], node)
        if difference.option not in MAY_DIFFER
    ]
    weights = share_heads(saved.weights, model)
    wrong = found or misfits(weights, model.state_dict())
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise ConfigError(
            f"init={path} is another model: {'; '.join(wrong[:SHOWN])}{more}. Give the options of "
            "model, position and attention that it was trained with"
        )
    model.load_state_dict(weights)


def misfits(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """What keeps weights from fitting a model, a phrase each."""
    found = [f"it has no {name}" for name in wanted if name not in weights]
    found += [f"it has {name}, which is not here" for name in weights if name not in wanted]
    found += [
        f"{name} is {tuple(weights[name].shape)} there and {tuple(value.shape)} here"
        for name, value in wanted.items()
        if name in weights and weights[name].shape != value.shape
    ]
    return found
