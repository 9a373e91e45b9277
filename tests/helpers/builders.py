"""Builders shared by the tests: configurations as a run composes them, small modules, batches."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch import Tensor

from seq2seq.alignment.links import Link, LinkCounts
from seq2seq.attention.roles import resolve_roles
from seq2seq.base.symbols import EOS, PAD
from seq2seq.decoding import Engine, Hypothesis, SentenceRequest
from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.models import MODELS, Seq2Seq, build_model
from seq2seq.models.layers.positions import POSITIONS
from seq2seq.testing.subject import assert_equal as assert_equal
from seq2seq.testing.subject import gradients as gradients
from seq2seq.testing.subject import mask_of as mask_of
from seq2seq.testing.subject import randomise as randomised

CONF = Path(__file__).resolve().parents[2] / "conf"
NODES = ("model", "position", "attn", "encoder_attn", "decoder_attn", "cross_attn")

# Small enough for a laptop, wide enough for four heads; two vocabularies of different sizes.
SMALL = {
    "transformer": (
        "model.dim=32",
        "model.encoder_layers=2",
        "model.decoder_layers=2",
        "model.ffn_dim=24",
        "model.tie=target",
    ),
    "rnn": ("model.dim=32",),
    "rnn_luong": ("model.dim=32",),
}
SOURCE_SIZE, TARGET_SIZE = 13, 11


def presets(group: str) -> list[str]:
    """The names of all files of a group of conf/."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def every_attention() -> list[str]:
    """Every model with every attention: `rnn attn=dot`."""
    return [f"{model} attn={preset}" for model in SMALL for preset in presets("attn")]


def marked(variants: Iterable[str], slow: tuple[str, ...] = ("rnn_luong attn=",)) -> list[Any]:
    """Variants such as `rnn attn=dot`; by default those of the second RNN are slow tests."""
    return [
        pytest.param(variant, marks=pytest.mark.slow) if variant.startswith(slow) else variant
        for variant in variants
    ]


def every_other(values: Iterable[Any]) -> list[Any]:
    """Values for a test; the second, fourth and so on are slow tests."""
    return [
        pytest.param(value, marks=pytest.mark.slow) if i % 2 else value
        for i, value in enumerate(values)
    ]


@cache
def composed(*overrides: str) -> dict[str, Any]:
    """The nodes that describe a model, as `python train.py OVERRIDES` resolves them. Read only."""
    *others, last = overrides or ("",)
    group, _, preset = last.partition("=")
    if group != "attn" or any("attn" in other for other in others):
        return resolved(*overrides)
    # Composing is slow, so all presets of attention are composed at once, each in its own package.
    packages = (f"+attn@presets.{name}={name}" for name in presets("attn"))
    nodes = resolved(*others, *packages)
    return {**nodes, "attn": nodes["presets"][preset]}


@cache
def resolved(*overrides: str) -> dict[str, Any]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=list(overrides))
    nodes = {node: OmegaConf.select(config, node) for node in (*NODES, "presets")}
    return {
        node: OmegaConf.to_container(value, resolve=True)
        for node, value in nodes.items()
        if value is not None
    }


def small(model: str, *overrides: str) -> dict[str, Any]:
    """The nodes of a small model of one kind, with further overrides."""
    return composed(f"model={model}", *SMALL[model], *overrides)


def model_config(model: str, *overrides: str) -> dict[str, Any]:
    """The argument of `build_model` for a small model of one kind."""
    config = small(model, *overrides)
    chosen = resolve_roles(config, MODELS.find(config["model"]["name"]).roles)
    attention = {role.value: choice.options for role, choice in chosen.items()}
    return {"model": config["model"], "position": config["position"], "attention": attention}


def position_scheme(name: str, causal: bool = False, dim: int = 32) -> Any:
    """The scheme of a preset of conf/position, with random parameters in float64."""
    options = dict(composed(f"position={name}")["position"])
    return randomised(POSITIONS.find(options.pop("name"))(causal, dim, **options))


def small_model(model: str, *overrides: str) -> Seq2Seq:
    """A small model of random parameters in float64, in evaluation mode."""
    return randomised(build_model(model_config(model, *overrides), SOURCE_SIZE, TARGET_SIZE))


def source_batch(*lengths: int, size: int | None = None) -> Tensor:
    """Random source ids of these lengths, eos included, padded at the right to `size`."""
    ids = torch.randint(4, SOURCE_SIZE, (len(lengths), size or max(lengths)))
    for row, length in zip(ids, lengths, strict=True):
        row[length - 1] = EOS
        row[length:] = PAD
    return ids


def error_rate(
    predicted: Sequence[set[Link]], sure: Sequence[set[Link]], possible: Sequence[set[Link]]
) -> float:
    """The alignment error rate of a corpus."""
    return LinkCounts.total(map(LinkCounts.of, predicted, sure, possible)).aer


def translate_copies(
    engine: SentenceEngine, requests: Iterable[SentenceRequest], **options: Any
) -> Iterator[list[Hypothesis]]:
    """Translate copies of requests, so that they can also be given to other engines."""
    for ended in engine.translate(map(replace, requests), **options):
        if ended.error:
            raise ended.error
        yield ended.hypotheses or []


def answer_all(hypotheses: list[Hypothesis], engine: Engine) -> list[SentenceRequest]:
    """A replacement for `Engine.advance` that gives every request the same answer."""
    requests, engine._requests = list(engine._requests.values()), {}
    for request in requests:
        request.finish([*hypotheses])
    return requests
