"""Resuming a run from its checkpoint, or starting a new run from the weights of another.

Both compare the run with the checkpoint first, and report what differs and what to type. Weights
can be transferred to another vocabulary.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor, nn
from yaml import YAMLError  # type: ignore[import-untyped]

from seq2seq import checkpoint
from seq2seq.attention.multihead import MultiHead
from seq2seq.base.errors import ConfigError, escape
from seq2seq.checkpoint import SIDES, Saved
from seq2seq.checkpoint.differences import MODEL_NODES, RUNTIME_OPTIONS, find_differences
from seq2seq.decoding.constraints.spelling import Spelling
from seq2seq.models import Seq2Seq
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers
from seq2seq.training.config.options import COMMAND, FROM_CHECKPOINT, InitOptions
from seq2seq.training.run_folder import RECORD

AGREED_PATH = "SEQ2SEQ_RESUME"  # environment variable: checkpoint that the first process resumes
SHOWN = 3  # differences named in a message
# Options in which a run may differ from the model it starts from.
OF_TEXT = "context", "groups", "sentence_separator"
MAY_DIFFER = (*RUNTIME_OPTIONS, "num_kv_heads", "length", *OF_TEXT)
OF_VOCABULARY, OF_SOURCE = "embeddings.", "embeddings.source."  # weights with a row for each piece
Sources = list[list[int]]  # for each new piece, the old pieces whose mean it starts as
# Command-line nodes of the options that a checkpoint records under `order` or `update` instead.
NODES = {
    "data": ("max_tokens", "max_length", "both_directions"),
    "loss": ("label_smoothing", "r_drop", "simcut", "simcut_p"),
    "trainer": ("precision", "accumulate_grad_batches", "gradient_clip_val"),
    "checkpoint": ("ema",),
}
OPTIONS = {option: f"{node}.{option}" for node, options in NODES.items() for option in options}
OPTIONS |= {"seed": "seed", "bpe_dropout": "tokenizer.dropout"}


def agree_on_path(trainer: L.Trainer, path: str | None) -> str | None:
    """The `path` of the first process of a run, in all of its processes.

    A process that starts the others passes its path on in their environment. Processes started by
    torchrun or Slurm form their process group for this, a little earlier than Lightning would.
    """
    strategy: Any = trainer.strategy
    if trainer.world_size == 1:
        return path
    if AGREED_PATH in os.environ:
        return os.environ[AGREED_PATH] or None
    if not strategy.cluster_environment.creates_processes_externally:
        os.environ[AGREED_PATH] = path or ""
        return path
    strategy.setup_environment()
    first: str | None = strategy.broadcast(path)
    return first


def check_resumed(path: str, now: checkpoint.Saved) -> None:
    """Check that a checkpoint has the same model, data and updates as the run that resumes it.

    Args:
        path: path of the checkpoint.
        now: content of a checkpoint that this run would save.

    Raises: ConfigError if they differ, with every difference; CheckpointError if the file is not a
        checkpoint.
    """
    before = checkpoint.read(path)
    if not before.resumable:
        raise ConfigError(
            f"resume={path} holds a model without the state of its training. Resume from a "
            f"last.ckpt, or start a new run from its weights: init={path}"
        )
    command = str(before.config.get("monitor", ""))
    if command.startswith(COMMAND) and command != now.config["monitor"]:
        raise ConfigError(
            f"resume={path}: its best model was chosen by checkpoint.monitor={escape(command)}. A "
            "command in a checkpoint is shown, but never run: if you trust it, type it to continue"
        )
    for name in ("monitor", "mode"):
        chooses = str(now.config[name])
        chose = str(before.config.get(name, chooses))  # older checkpoints lack the mode
        if chose != chooses:
            raise ConfigError(
                f"resume={path}: its best model was chosen by checkpoint.{name}={escape(chose)}, "
                f"but this run has checkpoint.{name}={escape(chooses)}. Type the option of the "
                f"checkpoint, or start a new run from its weights: init={path}"
            )
    nodes = (*MODEL_NODES, "order", "update")
    if differences := find_differences(before, now, nodes=nodes):
        words = "; ".join(str(each._replace(name=option_of(each.name))) for each in differences)
        start = describe_start(Path(path).parent)
        raise ConfigError(f"resume={path} continues only the same run: {words}{start}")


def option_of(name: str) -> str:
    """The name of a recorded option on the command line: `optimizer.lr` for
    `update.optimizer.lr`.
    """
    recorded = name.removeprefix("update.")
    return OPTIONS.get(recorded.removeprefix("order."), recorded)


def describe_start(before: Path) -> str:
    """A sentence with the overrides that started the run in a folder; empty if they are unknown."""
    try:
        typed = OmegaConf.to_container(OmegaConf.load(before / RECORD / "overrides.yaml"))
    except (OSError, ValueError, OmegaConfBaseException, YAMLError):
        return ""
    if not isinstance(typed, list):
        return ""
    overrides = [str(o) for o in typed if not str(o).startswith(("resume=", "hydra."))]
    return f". It was started with: {shlex.join(overrides)}" if overrides else ""


def read_tokenizers(tokenizer: Mapping[str, Any], path: str | None) -> Tokenizers | None:
    """The tokenizers of the checkpoint at `path`; None if the run learns its own."""
    if tokenizer["name"] != FROM_CHECKPOINT or path is None:
        return None
    saved = checkpoint.read(path)
    return Tokenizers(saved.source, saved.target)


def load_initial_weights(init: InitOptions, model: Seq2Seq, now: checkpoint.Saved) -> list[str]:
    """Load the weights of a checkpoint into a model.

    The model may have fewer key/value heads than the checkpoint (see `share_heads`) and, if
    `init.vocabulary` is mapped, another vocabulary (see `map_vocabulary`).

    Args:
        init: options that name the checkpoint.
        model: model to load the weights into, in place.
        now: content of a checkpoint that would be saved of this model.

    Returns: lines for the user that say how the vocabulary was mapped.
    Raises: ConfigError if the tokenizers differ, or the weights do not fit; CheckpointError if the
        file is not a checkpoint.
    """
    path = init.checkpoint
    assert path is not None, "asked for by a path"
    saved, told = checkpoint.read(path), list[str]()
    if init.vocabulary == "mapped":
        saved, told = map_vocabulary(saved, now)
    saved = saved._replace(weights=share_heads(saved.weights, model))
    wrong = find_differences(saved, now, ignore=MAY_DIFFER)
    if any(each.name.startswith("tokenizer.") for each in wrong):
        sizes = [f"{each.source.size:,} and {each.target.size:,}" for each in (saved, now)]
        raise ConfigError(
            f"init={path}: its embeddings belong to other tokenizers ({sizes[0]} pieces, here "
            f"{sizes[1]}). To use its tokenizers, type tokenizer={FROM_CHECKPOINT}; to convert its "
            "embeddings to the pieces of this run, type init.vocabulary=mapped"
        )
    if wrong:
        words = "; ".join(map(str, wrong[:SHOWN]))
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise ConfigError(
            f"init={path} is another model: {words}{more}. Give the options of "
            "model, position and attention that it was trained with"
        )
    model.load_state_dict(saved.weights)
    return told


def share_heads(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Convert weights to a model with fewer key/value heads: each of its heads becomes the mean of
    the heads that it replaces.

    Training then continues from there; the paper uses 5 % of the original number of steps.

    Args:
        weights: state dict of the same model except for `num_kv_heads`; it is not changed.
        model: model that the weights should fit.

    Returns: a state dict for `model`; tensors that fit already are not copied.
    Raises: ConfigError if the number of heads in the weights of an attention is not a multiple of
        the number in `model`.
    Source: Ainslie et al. 2023, arXiv:2305.13245.
    """
    fitted = dict(weights)
    for name, module in model.named_modules():
        if not isinstance(module, MultiHead):
            continue
        for projection in ("k.weight", "k.bias", "v.weight", "v.bias"):
            key = f"{name}.{projection}".removeprefix(".")
            if key in fitted:
                fitted[key] = mean_of_groups(fitted[key], module.num_kv_heads, module.width)
    return fitted


def mean_of_groups(rows: Tensor, groups: int, width: int) -> Tensor:
    """The mean over each group of consecutive heads.

    Args:
        rows: weight or bias of a projection, (heads * width, ...).
        groups: number of groups G.
        width: rows per head, D.

    Returns: (G * width, ...); `rows` itself if there are as many heads as groups.
    Raises: ConfigError if the number of heads is not a multiple of G.
    """
    heads = rows.shape[0] // width
    if heads == groups:
        return rows
    if heads * width != rows.shape[0] or heads % groups:
        raise ConfigError(
            f"a projection of {rows.shape[0]} rows, {width} per head, cannot be shared by "
            f"num_kv_heads={groups}: type a divisor of {heads}"
        )
    shared: Tensor = rows.reshape(groups, -1, width, *rows.shape[1:]).mean(1).flatten(0, 1)
    return shared


def map_vocabulary(saved: Saved, now: Saved) -> tuple[Saved, list[str]]:
    """Convert a trained model to the pieces of other tokenizers, for further training.

    A piece that writes the same bytes as an old one keeps its row of every matrix over the
    vocabulary and its bias, bit by bit. Any other piece starts as the mean of the fewest old pieces
    that spell it or, if they cannot spell it, as in a new run. Control symbols and tags are matched
    by name.

    Args:
        saved: trained model; it is not changed.
        now: new model with the other tokenizers.

    Returns: the converted model, and a line for each side that says how its pieces start.
    Raises: ConfigError for tokenizer=subword_nmt, whose pieces do not say what follows them.
    """
    sources = {side: find_sources(getattr(saved, side), getattr(now, side)) for side in SIDES}
    weights = {
        name: map_rows(value, now.weights[name], sources[SIDES[not name.startswith(OF_SOURCE)]])
        if name.startswith(OF_VOCABULARY) and name in now.weights
        else value
        for name, value in saved.weights.items()
    }
    mapped = saved._replace(source=now.source, target=now.target, weights=weights)
    told = [f"{side} vocabulary: {describe_sources(each)}" for side, each in sources.items()]
    return mapped, told


def find_sources(old: Tokenizer, new: Tokenizer) -> Sources:
    """The old pieces whose mean each new piece starts as: the one that writes the same text, or
    else the fewest that spell it, or else none.
    """
    of_old, of_new = Spelling(old), Spelling(new)
    ids = {named: i for i, named in enumerate(zip(old.symbols(), of_old.writes, strict=True))}
    return [
        [ids[named]] if named in ids else of_old.fewest_pieces(named[1])
        for named in zip(new.symbols(), of_new.writes, strict=True)
    ]


def map_rows(old: Tensor, new: Tensor, sources: Sources) -> Tensor:
    """A copy of `new` (W, ...) in which each row is the mean of its sources, which are rows of
    `old` (V, ...). Rows without sources are unchanged.
    """
    mapped = new.clone()
    for row, ids in enumerate(sources):
        if ids:
            mapped[row] = old[ids].mean(0)
    return mapped


def describe_sources(sources: Sources) -> str:
    kept = sum(len(ids) == 1 for ids in sources)
    spelled = sum(len(ids) > 1 for ids in sources)
    return (
        f"{len(sources):,} pieces, of which {kept:,} keep their rows, {spelled:,} start as the "
        f"mean of old pieces that spell them, {len(sources) - kept - spelled:,} have new rows"
    )
