"""A trained model on disk: one self-sufficient file.

A Lightning checkpoint with one more entry, `seq2seq`:

    {"format": 1,
     "version": "0.1.0",
     "config": {"model": ..., "position": ..., "attention": {role: ...},
                "decode": ..., "data": ..., "order": ..., "update": ...,
                "guided": ...},
     "tokenizer": {"source": "<json>", "target": "<json>"}}

`config` is resolved and plain: dicts, lists, numbers, strings. So `torch.load(weights_only=True)`
opens the file, and runs no code that the file names.
"""

import os
import zipfile
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from seq2seq import __version__
from seq2seq.data.groups import group_marks
from seq2seq.durable import replacing
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.models import Seq2Seq, build_model
from seq2seq.tokenization.tokenizer import Tokenizer

FORMAT = 1
ENTRY = "seq2seq"
SIDES = ("source", "target")
MAX_ENTRIES = 10_000  # of folders, in the search for a run
# Parts of the entry in every format; and what readers rely on in this one.
EVER = {"format": int, "version": str, "config": dict, "tokenizer": dict}
RELIED_ON = {
    **{f"config.{node}.name": str for node in ("model", "position", "attention.cross", "decode")},
    **{f"config.data.{side}": str for side in SIDES},
    **{f"tokenizer.{side}": str for side in SIDES},
    "config.data.max_length": int,
}
LAST = "last.ckpt"  # in a run's folder, the state of its training
KEPT = "kept"  # folder in a run's folder, for the weights of several validations
# Options that do not change what a trained model computes.
INDIFFERENT = ("dropout", "activation_dropout", "attention_dropout", "word_dropout", "kernel")
# Values of options that older checkpoints lack.
BEFORE: dict[str, Any] = {
    **dict.fromkeys(("attention_dropout", "word_dropout", "r_drop", "bpe_dropout"), 0.0),
    "endpoint": False,
}
COMPUTED = ("model", "position", "attention")  # nodes on which depends what a model computes
# Differences whose values say nothing to a reader.
IN_WORDS = {
    "order.weights": "the weights of data.train differ",
    "order.text": "data.train holds other text",
    "order.links": "guided.links holds other links",
    **{
        f"tokenizer.{side}": f"the tokenizer of the {side} differs: it was learnt from other text "
        "or options"
        for side in SIDES
    },
}
PREFIX = "model."  # of the weights, in the state of the Lightning module


class Saved(NamedTuple):
    """A model as it was saved."""

    config: dict[str, Any]
    source: Tokenizer
    target: Tokenizer
    weights: dict[str, Tensor]
    resumable: bool  # does it hold the state of the training?

    def build(self) -> Seq2Seq:
        """The model, on the CPU, in evaluation mode.

        Raises: CheckpointError if configuration, tokenizers and weights do not fit together.
        """
        try:
            marks = group_marks(self.source, **grouping(self.config))
            with limit_size_to(self.weights):
                model = build_model(self.config, self.source.size, self.target.size, marks)
        # A model was built from this once. If it is damaged, torch raises almost anything.
        except Exception as error:
            raise CheckpointError(
                f"the checkpoint is damaged: no model can be built from its description: {error}"
            ) from error
        try:
            model.load_state_dict(self.weights)
        except RuntimeError as error:
            raise CheckpointError(f"the weights do not fit the model: {error}") from error
        return model.eval()


@contextmanager
def limit_size_to(weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Inside, no model can be built with many more elements than these weights store, so that a
    description costs no more time and memory than its file warrants. Layers allocate memory,
    register it and only then fill it: until then the system has committed none. Twice the size is
    allowed, since a tied matrix replaces one that was allocated before.

    Raises: CheckpointError as soon as there are more.
    """
    tensors = 2 * len(weights)
    # Not the product of a shape: a tensor may repeat the few elements that it stores.
    stored = (
        value.untyped_storage().nbytes() // value.element_size() for value in weights.values()
    )
    elements = 2 * sum(stored)

    larger = CheckpointError("it describes a larger model than the file has weights for")

    def count(module: nn.Module, name: str, value: Tensor | None) -> None:
        nonlocal tensors, elements
        if value is not None:
            tensors, elements = tensors - 1, elements - value.numel()
        if tensors < 0 or elements < 0:
            raise larger

    with ExitStack() as hooks:
        hooks.enter_context(register_module_parameter_registration_hook(count))
        hooks.enter_context(register_module_buffer_registration_hook(count))
        try:
            yield
        except RuntimeError as error:
            if "allocate" in str(error):  # more than the machine has, so it was not registered
                raise larger from error
            raise


def grouping(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a configuration for groups of tokens; older ones lack them."""
    data = config["data"]
    return {
        "groups": data.get("groups", "none"),
        "sentence_separator": data.get("sentence_separator"),
    }


def make_entry(config: Mapping[str, Any], source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """The entry that makes a checkpoint self-sufficient."""
    return {
        "format": FORMAT,
        "version": __version__,
        "config": dict(config),
        "tokenizer": {"source": source.to_json(), "target": target.to_json()},
    }


def read(path: str | Path) -> Saved:
    """Open a checkpoint, or the best one of a run's folder.

    Raises: CheckpointError if there is none, with what is at the path instead.
    """
    file = find(Path(path))
    content = load(file)
    entry = content.get(ENTRY) if isinstance(content, dict) else None
    if not entry:
        raise CheckpointError(f"{file} was not written by seq2seq: it has no entry {ENTRY!r}")
    if not is_whole(entry):
        raise CheckpointError(
            f"{file} is damaged: its entry {ENTRY!r} is incomplete; if it is a copy, copy it again"
        )
    if entry["format"] > FORMAT:
        raise CheckpointError(
            f"{file} was written by seq2seq {entry['version']} in format {entry['format']}; "
            f"this is {__version__}, which reads up to format {FORMAT}. Install the newer version"
        )
    state = content.get("state_dict")
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise CheckpointError(f"{file} is damaged: it holds no named weights")
    weights = {name.removeprefix(PREFIX): value for name, value in state.items()}
    tokenizers: dict[str, Tokenizer] = {}  # by their texts: both sides may have the same
    for side in SIDES:
        text = entry["tokenizer"][side]
        try:
            pieces = tokenizers.get(text) or Tokenizer.from_json(text)
            check_embedding_rows(pieces, weights.get(f"embeddings.{side}.weight"))
        except DataError as error:
            raise CheckpointError(f"{file} is damaged: of the {side}, {error}") from error
        tokenizers[text] = pieces
    source, target = (tokenizers[entry["tokenizer"][side]] for side in SIDES)
    return Saved(entry["config"], source, target, weights, "optimizer_states" in content)


def check_embedding_rows(pieces: Tokenizer, embeddings: Tensor | None) -> None:
    """Raises: DataError unless each id of a tokenizer has a row (V, E) of its own."""
    rows = len(embeddings) if embeddings is not None and embeddings.dim() else 0
    if rows != pieces.size:
        raise DataError(
            f"the tokenizer has {pieces.size:,} pieces, and the model rows for {rows:,}"
        )


def read_alike(paths: Sequence[str | Path]) -> list[Saved]:
    """Open models that read and write the same pieces, so that they can be used as one.

    Raises: CheckpointError as `read`; ConfigError if their tokenizers differ, or one of them
        translates in the other direction.
    """
    if not paths:
        raise ConfigError("there should be at least one model")
    saved = [read(path) for path in paths]
    languages = [[each.config["data"][side] for side in SIDES] for each in saved]
    for path, other, its_languages in zip(paths, saved, languages, strict=True):
        wrong = None
        if its_languages != languages[0] and its_languages == languages[0][::-1]:
            wrong = "it translates in the other direction"
        for side in SIDES:
            mine, theirs = getattr(saved[0], side), getattr(other, side)
            if mine.to_json() != theirs.to_json():
                wrong = wrong or f"the {side} pieces differ: {unlike(mine, theirs)}"
        if wrong:
            raise ConfigError(
                f"{path} cannot be joined with {paths[0]}: {wrong}. Train both on the same text, "
                "with the same options of data and tokenizer"
            )
    return saved


def unlike(one: Tokenizer, other: Tokenizer) -> str:
    """In what two tokenizers differ, in words."""
    if one.size != other.size:
        return f"{other.size:,} instead of {one.size:,}"
    for i, (mine, theirs) in enumerate(zip(one.symbols(), other.symbols(), strict=True)):
        if mine != theirs:
            return f"number {i} is {theirs!r} instead of {mine!r}"
    return "they have the same names, but texts are cut into them by other rules"


def load(file: Path) -> Any:
    """The content of a file that torch wrote, if that is only numbers and text.

    Raises: CheckpointError if there is more in it, or if torch did not write it.
    """
    if not zipfile.is_zipfile(file):
        raise CheckpointError(
            f"{file} is not a checkpoint, or only the first part of one: it is not a zip archive. "
            "Give a .ckpt file or the folder of a run; if this is one, copy it again"
        )
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()  # torch itself does not verify the checksums
        content = None if damaged else torch.load(file, map_location="cpu", weights_only=True)
    # For a damaged file torch raises almost anything: it takes the bytes for text, for numbers, and
    # for names of functions.
    except Exception as error:
        raise CheckpointError(
            f"{file} is not a checkpoint of seq2seq: it is damaged, or holds more than numbers and "
            "text"
        ) from error
    if damaged:
        raise CheckpointError(
            f"{file} is damaged: its part {damaged} does not match its checksum. If it is a copy, "
            "copy it again"
        )
    return content


def save(content: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint; if that fails, the file stays as it was.

    Raises: CheckpointError if it cannot be written.
    """
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is not a file, so it cannot hold a model: give another name")
    try:
        with replacing(path) as file:
            torch.save(content, file)
    except (RuntimeError, OSError) as error:
        # When a write fails, torch raises an error of its own, whose context is the reason.
        reason = error if isinstance(error, OSError) else error.__context__ or error
        words = getattr(reason, "strerror", None) or str(reason).partition("\n")[0]
        before = ", and is as it was" if path.exists() else ""
        raise CheckpointError(f"{path} cannot be written{before}: {words}") from error


def is_whole(entry: Any) -> bool:
    """Does the entry have what every format has and readers rely on, of the right types?"""
    if not all(holds(entry, name, kind) for name, kind in EVER.items()):
        return False
    if entry["format"] > FORMAT:
        return True  # only a newer version knows what the parts contain
    config = entry["config"]
    later = [config.get(node, {}) for node in ("order", "update")]  # older ones lack them
    return (
        all(holds(entry, name, kind) for name, kind in RELIED_ON.items())
        and all(isinstance(node, dict) for node in later)
        and config["data"]["max_length"] > 0
    )


def holds(node: Any, name: str, kind: type) -> bool:
    """Is there a value of that type under a name such as config.model.name?"""
    for key in name.split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return isinstance(node, kind)


class Difference(NamedTuple):
    """What two models have different values of; None where one lacks it."""

    name: str  # in full, such as attention.cross.score
    one: Any
    other: Any

    @property
    def option(self) -> str:
        """The last word of the name."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        said = f"{self.name} was {self.one!r} and is {self.other!r} now"
        return IN_WORDS.get(self.name, said)


def mismatches(
    one: Saved, other: Saved, *, nodes: Sequence[str] = COMPUTED, may_differ: Container[str] = ()
) -> list[Difference]:
    """The options and tokenizers in which two models differ, or else the shapes of weights.

    Args:
        nodes: of their configurations; the groups of tokens are compared always.
        may_differ: options that are not compared.
    """
    before, now = (
        {
            **{node: model.config.get(node, {}) for node in nodes},
            "data": grouping(model.config),
            "tokenizer": {"source": model.source.to_json(), "target": model.target.to_json()},
        }
        for model in (one, other)
    )
    found = [
        difference
        for node in now
        for difference in list_differences(before[node], now[node], node)
        if difference.option not in may_differ
    ]
    if found:
        return found
    there, here = ({n: tuple(w.shape) for n, w in m.weights.items()} for m in (one, other))
    return list(list_differences(there, here, "weights"))


def list_differences(
    one: Mapping[str, Any], other: Mapping[str, Any], name: str
) -> Iterator[Difference]:
    """All options in which two nodes of that name differ, at any depth."""
    for key in sorted({*one, *other}):
        a, b = one.get(key, BEFORE.get(key)), other.get(key, BEFORE.get(key))
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from list_differences(a, b, f"{name}.{key}")
        elif a != b:
            yield Difference(f"{name}.{key}", a, b)


def find(path: Path) -> Path:
    """The file that a path means: itself, or best.ckpt in a run's folder, else last.ckpt."""
    if path.is_file():
        return path
    if not path.exists():
        raise CheckpointError(f"there is no {path}: give a .ckpt file or the folder of a run")
    if not path.is_dir():
        raise CheckpointError(f"{path} is a pipe or a device: give a .ckpt file, or a run's folder")
    for name in ("best.ckpt", "last.ckpt"):
        if (path / name).is_file():
            return path / name
    suggestion = max(runs_below(path), default=None)
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    raise CheckpointError(f"{path} holds neither best.ckpt nor last.ckpt{hint}")


def runs_below(folder: Path) -> Iterator[Path]:
    """The best.ckpt of all runs below a folder, those near the top first. Looks at `MAX_ENTRIES`
    entries at most, and skips folders that vanish meanwhile or cannot be read.
    """
    folders, left = deque([folder]), MAX_ENTRIES
    while folders and left > 0:
        with suppress(OSError), os.scandir(folders.popleft()) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.name == "best.ckpt":
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
