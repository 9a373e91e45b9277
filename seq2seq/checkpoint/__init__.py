"""A trained model on disk, in one file that holds everything needed to use it.

The file is a Lightning checkpoint with an additional entry, `seq2seq`:

    {"format": 1,
     "version": "0.1.0",
     "config": {"model": ..., "position": ..., "attention": {role: ...},
                "decode": ..., "data": ..., "order": ..., "update": ...,
                "guided": ..., "sharpest_layer": ..., "plugins": ...},
     "tokenizer": {"source": "<json>", "target": "<json>"}}

In format 2, which `seq2seq quantize` writes, the weight matrices are int8, and the entry has two
more parts:

     "row_scales": {"embeddings.source.weight": ...},
     "input_scales": {"encoder.0.feed.up": 0.0371, ...}   (may be empty)

`config` is resolved and plain: dicts, lists, numbers, strings. `torch.load(weights_only=True)` can
therefore open the file without running any code that the file names.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from seq2seq import __version__
from seq2seq.alignment.choice import SHARPEST
from seq2seq.attention import ATTENTION
from seq2seq.base.errors import CheckpointError, ConfigError, DataError
from seq2seq.base.plugins import explain_missing
from seq2seq.base.registry import matches
from seq2seq.checkpoint.folder import find_checkpoint, load_archive, save_archive
from seq2seq.checkpoint.weights import (
    SkipInit,
    assign_weights,
    check_input_scales,
    copy_weights,
    dequantize_weights,
)
from seq2seq.data.corpus.groups import group_marks, mark_unpositioned
from seq2seq.functional.triton.launch import check_triton
from seq2seq.models import Seq2Seq, build_model
from seq2seq.models.layers.input_scale import set_input_scales
from seq2seq.models.layers.positions import POSITIONS
from seq2seq.text.tokenization.tokenizer import Tokenizer

FORMAT = 1
INT8_FORMAT = 2  # the newest format that this version reads
ENTRY = "seq2seq"
PREFIX = "model."  # of the names of the weights in the Lightning module's state
SIDES = ("source", "target")
# Types of the entry's parts: first those in every format, then those that this version relies on.
PARTS = {"format": int, "version": str, "config": dict, "tokenizer": dict}
NAMED = {"name": str}
CONFIG = {
    "model": NAMED,
    "position": NAMED,
    "attention": {"cross": NAMED},
    "decode": NAMED,
    "data": {
        "source": str | None,
        "target": str | None,
        "max_length": int,
        "languages": list[str] | None,  # of a model of several
        "language_tags": Literal["target", "both"] | None,
    },
    "order": dict | None,  # older checkpoints lack these three
    "update": dict | None,
    SHARPEST: int | None,
}
NO_SCALES: Mapping[str, float] = MappingProxyType({})
RELIED_ON = {"config": CONFIG, "tokenizer": {"source": str, "target": str}}


class Saved(NamedTuple):
    """A model as read from a checkpoint."""

    config: dict[str, Any]
    source: Tokenizer
    target: Tokenizer
    weights: dict[str, Tensor]
    resumable: bool  # True if the file also holds the training state
    input_scales: Mapping[str, float] = NO_SCALES  # calibrated for int8, by linear layer

    def write(self, path: Path, *, compressed: bool = False, **parts: Any) -> None:
        """Write the model as a checkpoint without a training state.

        Args:
            compressed: as for `save_archive`.
            parts: additional or different parts of its entry.

        Raises: CheckpointError if the file cannot be written.
        """
        entry = make_entry(self.config, self.source, self.target) | parts
        state = {f"{PREFIX}{name}": value for name, value in self.weights.items()}
        save_archive({"state_dict": state, ENTRY: entry}, path, compressed=compressed)

    def build(self) -> Seq2Seq:
        """Build the model on the CPU, in evaluation mode. Its parameters share memory with
        `weights`.

        Raises: CheckpointError if configuration, tokenizers and weights do not fit together, or if
            a plug-in is not installed.
        """
        check_mechanisms(self.config)
        try:
            data = self.config["data"]  # older checkpoints have no groups
            separator = data.get("sentence_separator")
            marks = group_marks(self.source, data.get("groups", "none"), separator)
            # Only Transformers have this option, and older checkpoints lack it.
            outside = mark_unpositioned(self.source, self.config["model"].get("unpositioned"))
            with limit_size_to(self.weights), SkipInit():
                config = with_kernels_of_this_machine(self.config)
                sizes = self.source.size, self.target.size
                model = build_model(config, *sizes, marks, outside)
        # This once built a model, so the file must be damaged, and torch raises almost anything.
        except Exception as error:
            raise CheckpointError(
                f"the checkpoint is damaged: no model can be built from its description: {error}"
            ) from error
        try:
            assign_weights(model, self.weights)
        except RuntimeError as error:
            raise CheckpointError(f"the weights do not fit the model: {error}") from error
        try:
            set_input_scales(model, self.input_scales)
        except KeyError as error:
            raise CheckpointError(f"it has a scale for {error}, which is not a layer") from error
        return model.eval()


def check_mechanisms(config: Mapping[str, Any]) -> None:
    """Check that all attention mechanisms and the position scheme of a model are installed.

    Raises: CheckpointError if one is missing (the message names its plug-in), or if a plug-in
        cannot be imported.
    """
    parts = {f"attention.{role}": options for role, options in config["attention"].items()}
    for where, options in (*parts.items(), ("position", config["position"])):
        table = POSITIONS if where == "position" else ATTENTION
        name = options.get("name") if isinstance(options, Mapping) else None
        if not isinstance(name, str):
            what = f"{where} should be a mapping of options, with a name"
            raise CheckpointError(f"the checkpoint is damaged: {what}")
        if not table.has(name):
            raise CheckpointError(explain_missing(table.kind, name, config.get("plugins")))
        try:
            table.find(name)
        except ConfigError as error:
            raise CheckpointError(str(error)) from error


def with_kernels_of_this_machine(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a model; where there is no Triton or no GPU, kernel=triton is replaced
    by kernel=auto, which computes the same.
    """
    try:
        check_triton()
    except ConfigError:
        attention = {
            role: {**options, "kernel": "auto"} if options.get("kernel") == "triton" else options
            for role, options in config["attention"].items()
        }
        return {**config, "attention": attention}
    return config


@contextmanager
def limit_size_to(weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Limit the size of models built inside this context to about that of the given weights, so
    that a damaged description cannot exhaust time and memory.

    Layers allocate memory, register it, and only then fill it; until it is filled, the system has
    committed none. Twice the size is allowed, since a tied matrix replaces one that was allocated
    before.

    Raises: CheckpointError as soon as a model exceeds the limit.
    """
    tensors = 2 * len(weights)
    # Do not count the elements of a shape: a tensor may repeat the few elements that it stores.
    stored = (each.untyped_storage().nbytes() // each.element_size() for each in weights.values())
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
            if "allocate" in str(error):  # more memory than the machine has
                raise larger from error
            raise


def make_entry(config: Mapping[str, Any], source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """The entry that a checkpoint needs besides its weights."""
    return {
        "format": FORMAT,
        "version": __version__,
        "config": dict(config),
        "tokenizer": {"source": source.to_json(), "target": target.to_json()},
    }


def read(path: str | Path) -> Saved:
    """Read a checkpoint, or the best one in a run's folder.

    Raises: CheckpointError if there is no usable checkpoint; the message says what is there.
    """
    file = find_checkpoint(Path(path))
    content = load_archive(file)
    entry = content.get(ENTRY) if isinstance(content, dict) else None
    if not entry:
        raise CheckpointError(f"{file} was not written by seq2seq: it has no entry {ENTRY!r}")
    if matches(entry, PARTS) and entry["format"] > INT8_FORMAT:
        raise CheckpointError(
            f"{file} was written by seq2seq {entry['version']} in format {entry['format']}; "
            f"this is {__version__}, which reads up to format {INT8_FORMAT}. Install the newer "
            "version"
        )
    if not matches(entry, PARTS | RELIED_ON) or entry["config"]["data"]["max_length"] < 1:
        raise CheckpointError(
            f"{file} is damaged: its entry {ENTRY!r} is incomplete; if it is a copy, copy it again"
        )
    try:
        state = copy_weights(content.get("state_dict"))
        state = {name.removeprefix(PREFIX): value for name, value in state.items()}
        weights = dequantize_weights(state, entry.get("row_scales", {}))
        input_scales = check_input_scales(entry.get("input_scales", {}))
    except CheckpointError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    tokenizers: dict[str, Tokenizer] = {}  # by their JSON: both sides may share one
    for side in SIDES:
        text = entry["tokenizer"][side]
        try:
            pieces = tokenizers.get(text) or Tokenizer.from_json(text)
        except DataError as error:
            raise CheckpointError(f"{file} is damaged: its {side} tokenizer: {error}") from error
        embeddings = weights.get(f"embeddings.{side}.weight")  # (V, E)
        rows = len(embeddings) if embeddings is not None and embeddings.dim() else 0
        if rows != pieces.size:
            raise CheckpointError(
                f"{file} is damaged: the {side} tokenizer has {pieces.size:,} pieces, but the "
                f"model has embeddings for {rows:,}"
            )
        tokenizers[text] = pieces
    source, target = (tokenizers[entry["tokenizer"][side]] for side in SIDES)
    is_resumable = "optimizer_states" in content
    return Saved(entry["config"], source, target, weights, is_resumable, input_scales)


def read_ensemble(paths: Sequence[str | Path]) -> list[Saved]:
    """Read several models that use the same pieces, so that they can translate together.

    Raises: CheckpointError as `read`; ConfigError if their tokenizers or their context differ, or
        if one of them translates in the other direction.
    """
    if not paths:
        raise ConfigError("there should be at least one model")
    first, *others = saved = [read(path) for path in paths]
    languages = [first.config["data"][side] for side in SIDES]
    several = describe_languages(first.config["data"])
    for path, other in zip(paths[1:], others, strict=True):
        its_languages = [other.config["data"][side] for side in SIDES]
        reason = None
        if its_languages != languages and its_languages == languages[::-1]:
            reason = "it translates in the other direction"
        if describe_languages(other.config["data"]) != several:
            reason = "it knows other languages"
        if other.config["data"].get("context", 0) != first.config["data"].get("context", 0):
            reason = "it was trained with a different data.context"
        for side in SIDES:
            change = describe_change(getattr(first, side), getattr(other, side))
            if change and not reason:
                reason = f"the {side} pieces differ: {change}"
        if reason:
            raise ConfigError(
                f"{path} cannot be joined with {paths[0]}: {reason}. Train both on the same text, "
                "with the same options of data and tokenizer"
            )
    return saved


def describe_languages(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """The languages of a model of several, and how it is told them. Older models lack options."""
    languages = data.get("languages") or ()
    tags = data.get("language_tags") if languages else None
    return tuple(languages), tags, bool(data.get("both_directions"))


def describe_change(one: Tokenizer, other: Tokenizer) -> str | None:
    """The first difference between two tokenizers, in words; None if they are equal."""
    if one.to_json() == other.to_json():
        return None
    if one.size != other.size:
        return f"{other.size:,} instead of {one.size:,}"
    for i, (before, now) in enumerate(zip(one.symbols(), other.symbols(), strict=True)):
        if before != now:
            return f"number {i} is {now!r} instead of {before!r}"
    return "they have the same names, but text is split into them by different rules"
