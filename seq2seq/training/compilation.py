"""Compiled layers, `trainer.compile`: one graph for each kind of layer, for batches of any shape.

A graph that relied on some sizes would have to be made again for others, and a resumed run would
begin with other graphs than those it had before, whose rounding differs.
"""

import shutil
from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import nn

from seq2seq.attention import Attention
from seq2seq.base.environment import is_first_process
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.data.batches.batch import Batch, pair_batch
from seq2seq.data.batches.transfer import map_tensors
from seq2seq.data.links.piece_links import BatchLinks
from seq2seq.models import Seq2Seq
from seq2seq.training.config.options import INT8_AWARE, TrainerOptions

COMPILERS = ("cc", "gcc", "clang")  # one of them builds the code that launches kernels
LENGTH = 31  # pieces of a usual sentence
CAPABILITY = (7, 0)  # the lowest that Triton generates code for


def check_compile(options: TrainerOptions, model: Seq2Seq) -> None:
    """Check that `trainer.compile=true` can be done.

    Raises: ConfigError naming what cannot be compiled.
    """
    if options.compile is not True:
        return
    reasons = [explain_refusal(options), *map(explain_eager, model.blocks)]
    if not model.blocks:
        reasons.append(f"{type(model).__name__} computes token by token, without layers")
    if reason := next(filter(None, reasons), None):
        raise ConfigError(
            f"trainer.compile=true is not possible here: {reason}. Type trainer.compile=auto, "
            "which compiles what it can on a GPU"
        )


def choose_compile(options: TrainerOptions) -> TrainerOptions:
    """The options with true or false in place of `auto`. The first process of a run on a GPU prints
    the choice.
    """
    if options.compile != "auto":
        return options
    if options.accelerator == "cpu" or not torch.cuda.is_available():
        return replace(options, compile=False)
    # With packed tokens only the loss is compiled.
    reason = explain_unable() or (None if options.packed else explain_refusal(options))
    if is_first_process():
        print("compile: on" if reason is None else f"compile: off ({reason})", flush=True)
    return replace(options, compile=reason is None)


def explain_refusal(options: TrainerOptions) -> str | None:
    """The option that rules out compiled layers, and why; None if there is none."""
    if options.precision == INT8_AWARE:
        return f"trainer.precision={INT8_AWARE} changes the inputs of layers on their way"
    if options.packed:
        return "trainer.packed=true repeats one graph of a whole update"
    return None


def explain_unable() -> str | None:
    """The reason why this machine cannot compile for its GPU; None if it can."""
    if find_spec("triton") is None:
        return "the package triton is missing"
    if not any(map(shutil.which, COMPILERS)):
        return "there is no C compiler"
    if torch.cuda.get_device_capability() < CAPABILITY:
        return "Triton does not support a GPU as old as this one"
    return None


def explain_eager(layer: nn.Module) -> str | None:
    """The attention that keeps a layer from being compiled, and why; None if there is none."""
    attentions = (part for part in layer.modules() if isinstance(part, Attention))
    reasons = (f"{type(each).__name__} {each.no_graph}" for each in attentions if each.no_graph)
    return next(reasons, None)


def typical_batch(tokens: int, has_cuts: bool, device: torch.device) -> Batch:
    """A batch of about `tokens` pieces a side, in sentences of usual lengths, with a link."""
    rows, one = max(2, tokens // (LENGTH + 1)), torch.zeros(1, dtype=torch.int64)
    source, target = (torch.full((rows, LENGTH + n), EOS, dtype=torch.int32) for n in (1, 2))
    links = BatchLinks(torch.stack((one, one, one)), torch.ones(1), 1, 1)
    batch = pair_batch(source, target, rows * (LENGTH + 1), range(rows), links)
    if has_cuts:
        batch = batch._replace(cuts=(source < EOS, target[:, 1:] < EOS))
    return map_tensors(batch, lambda x: x.to(device))


def compile_layers(model: Seq2Seq) -> None:
    """Compile the layers of a model that can be compiled, when they are first called. The first
    process of a run prints which are left as they are.
    """
    from torch.fx.experimental.symbolic_shapes import config  # type: ignore[attr-defined]

    config.use_duck_shape = False  # equal sizes of a batch mean nothing
    layers = dict.fromkeys(model.blocks)  # a shared layer once
    reasons = {layer: explain_eager(layer) for layer in layers}
    for layer, reason in reasons.items():
        if reason is None:
            layer.compile(dynamic=True)
    if is_first_process():
        for reason in dict.fromkeys(filter(None, reasons.values())):
            print(f"some layers are not compiled: {reason}", flush=True)
