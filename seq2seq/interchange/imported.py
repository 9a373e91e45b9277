"""What an import makes of another program's model: a run like any other."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq import checkpoint
from seq2seq.checkpoint.archive import save_archive
from seq2seq.errors import DataError
from seq2seq.models import Seq2Seq, build_model
from seq2seq.symbols import BOS
from seq2seq.tokenization.tokenizer import Tokenizer

NEVER = -1e4  # a logit that no softmax notices


class Rows(NamedTuple):
    """How a vocabulary of ours is made of one of theirs.

    Attributes:
        ids: their id of each of ours; the four symbols come first.
        names: of ours, after the four symbols.
        missing: how many at the end have no id of their own there.
    """

    ids: list[int]
    names: list[str]
    missing: int

    @property
    def theirs(self) -> int:
        """The size of their vocabulary."""
        return max(self.ids) + 1

    def extend(self, more: list[str]) -> "Rows":
        """With more pieces that have no id of their own."""
        unknown = [self.ids[3]] * len(more)
        return Rows([*self.ids, *unknown], [*self.names, *more], self.missing + len(more))


class Imported(NamedTuple):
    """A model of another program in our terms."""

    config: dict[str, Any]
    source: Tokenizer
    target: Tokenizer
    weights: dict[str, Tensor]
    files: dict[str, str]  # name -> SHA-256
    piece_models: list[bytes]  # of the sides, as SentencePiece reads them

    def write(self, folder: Path) -> Seq2Seq:
        """Write a run, and return its model.

        Raises: CheckpointError if description and weights do not fit together, or it cannot be
            written.
        """
        model = self.to_saved().build()
        described = {**self.config, "imported": self.files}
        entry = checkpoint.make_entry(described, self.source, self.target)
        state = {f"{checkpoint.PREFIX}{name}": x for name, x in model.state_dict().items()}
        folder.mkdir(parents=True, exist_ok=True)
        save_archive({"state_dict": state, checkpoint.ENTRY: entry}, folder / "best.ckpt")
        return model

    def to_saved(self) -> checkpoint.Saved:
        return checkpoint.Saved(self.config, self.source, self.target, self.weights, False)


def model_nodes(heads: list[int], **model: Any) -> dict[str, Any]:
    """The nodes `model`, `position` and `attention` of a Transformer with multi-head attention.

    Args:
        heads: of encoder and decoder.
        model: the options that differ from those of conf/model/transformer.yaml.
    """
    dropout = model.pop("attention_dropout", 0.0)
    endpoint = model.pop("endpoint", False)
    shared = {
        "name": "multihead",
        "score": "scaled_dot",
        "kernel": "auto",
        "project": True,
        "bias": True,
        "dropout": dropout,
    }
    attention = {
        role: {**shared, "num_heads": number, "num_kv_heads": number}
        for role, number in zip(("encoder", "decoder", "cross"), [*heads, heads[-1]], strict=True)
    }
    described = {
        "name": "transformer",
        "num_heads": heads[0],
        "project_scores": True,
        "norm": "layernorm",
        "norm_eps": None,
        "attention_dropout": dropout,
        "word_dropout": 0.0,
        **model,
    }
    position = {"name": "sinusoidal", "endpoint": endpoint}
    return {"model": described, "position": position, "attention": attention}


def other_nodes(
    languages: Sequence[str | None], max_length: int, beams: int, penalty: Any = 1.0
) -> dict[str, Any]:
    """The nodes `decode` and `data`. Raises: DataError for a penalty that is no number."""
    if not isinstance(penalty, int | float):
        raise DataError(f"length_penalty={brief(penalty)} should be a number")
    beam = {"name": "beam", "beam_size": beams, "length_penalty": float(penalty)}
    search = {"name": "greedy"} if beams == 1 else beam
    source, target = languages
    data = {"source": source or "source", "target": target or "target", "max_length": max_length}
    return {"decode": {**search, "length_ratio": 2.0, "length_extra": 20}, "data": data}


class Tensors(NamedTuple):
    """The tensors of a file by their names there."""

    where: str
    named: Mapping[str, Tensor]

    def take(self, names: Sequence[str], shape: Sequence[int]) -> Tensor:
        """The first of these that there is, in float32.

        Raises: DataError if it is misshapen, not finite, or another of the names has other values.
        """
        present = [name for name in names if name in self.named]
        if not present:
            raise DataError(f"{self.where}: the weights lack {names[0]}")
        first, *others = (self.named[name] for name in present)
        if tuple(first.shape) != tuple(shape) or not first.is_floating_point():
            raise DataError(
                f"{self.where}: {present[0]} is {tuple(first.shape)} of {first.dtype}; the "
                f"description and the vocabulary ask for {tuple(shape)}"
            )
        for name, other in zip(present[1:], others, strict=True):
            if not torch.equal(first, other):
                raise DataError(
                    f"{self.where}: {name} and {present[0]} should be equal: one is read"
                )
        found = first.detach().to(torch.float32)
        if not found.isfinite().all():
            raise DataError(f"{self.where}: {present[0]} has values that are not finite")
        return found


def our_weights(
    nodes: Mapping[str, Any],
    rows: Sequence[Rows],
    tensors: Tensors,
    their_names: Callable[[str], list[str]],
) -> dict[str, Tensor]:
    """Every parameter of the described model.

    Args:
        nodes: from `model_nodes`.
        rows: of the source and of the target.
        tensors: theirs, shaped as ours.
        their_names: the names that a parameter of ours may have there.

    Raises: DataError naming tensors that are missing, damaged, or of no parameter.
    """
    with torch.device("meta"):  # names and shapes need no memory
        model = build_model(nodes, len(rows[0].ids), len(rows[1].ids))
    weights, unread = {}, set(tensors.named)
    for name, value in model.state_dict().items():
        names = their_names(name)
        unread.difference_update(names)
        if not name.startswith("embeddings."):
            weights[name] = tensors.take(names, value.shape)
            continue
        side = rows[not name.startswith("embeddings.source")]
        found = tensors.take(names, (side.theirs, *value.shape[1:]))[side.ids]
        if value.dim() == 1:
            found[BOS] = NEVER
            found[len(found) - side.missing :] = NEVER
        weights[name] = found
    if unread:
        raise DataError(
            f"{tensors.where}: nothing reads {len(unread)} of the tensors, such as "
            f"{', '.join(sorted(unread)[:3])}: the description is of a smaller or another model"
        )
    return weights


def number(
    config: Mapping[str, Any], name: str, at: str, low: int, high: int, default: int | None = None
) -> int:
    """A whole number of a description. Raises: DataError for anything else, or out of range."""
    value = default if config.get(name) is None else config[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise DataError(
            f"{at}: {name}={brief(value)} should be a whole number from {low:,} to {high:,}"
        )
    return value


def brief(value: Any) -> str:
    """A value of a description in a message; lists of lists may be endless."""
    plain = isinstance(value, str | int | float | None)
    return f"{value!r:.60}" if plain else f"a {type(value).__name__}"
