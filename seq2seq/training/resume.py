"""What has to be the same when an interrupted run goes on."""

from collections.abc import Mapping
from typing import Any

from seq2seq import checkpoint
from seq2seq.errors import ConfigError


def check_resumed(path: str, entry: Mapping[str, Any]) -> None:
    """Compare what a checkpoint trained, and in what order, with what is about to go on.

    Args:
        path: of the checkpoint.
        entry: from `checkpoint.describe`, of the run that begins.

    Raises: ConfigError with every difference; CheckpointError if the file is no checkpoint.
    """
    before, now = checkpoint.read(path), entry["config"]
    if not before.resumable:
        raise ConfigError(
            f"resume={path} holds a model, but not where its training stood. Resume from a "
            f"last.ckpt, or begin a new run with its weights: init={path}"
        )
    pairs = [
        (node, before.config.get(node, {}), now[node])
        for node in ("model", "position", "attention", "order", "update")
    ]
    pairs.append(("data", checkpoint.grouping(before.config), checkpoint.grouping(now)))
    found = [
        str(difference)
        for node, one, other in pairs
        for difference in checkpoint.differences(one, other, node)
    ]
    tokenizers = {"source": before.source.to_json(), "target": before.target.to_json()}
    if tokenizers != entry["tokenizer"]:
        found.append("the tokenizer is another one: it was learnt from other text or otherwise")
    if found:
        raise ConfigError(f"resume={path} goes on only as the run began: {'; '.join(found)}")
