"""Read the presets of conf/attn, for scripts that list all mechanisms."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from options_page import CONF, title

from seq2seq.attention import ATTENTION, Attention, Cost, Place, Role, build_attention
from seq2seq.attention.roles import without_elsewhere
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import options_of
from seq2seq.models.layers.positions import POSITIONS, PositionScheme

# A full stop ends a sentence only before a capital, since formulas contain dots, too.
SENTENCE_END = re.compile(r"(?<=\S)\. (?=[A-Z])")


class Preset(NamedTuple):
    """A preset: a file of conf/attn."""

    name: str
    words: str  # description
    paper: str  # source; empty if the file names none
    options: dict[str, Any]  # `name` and the arguments of the class, in a Transformer

    @property
    def mechanism(self) -> type[Attention[Any]]:
        return ATTENTION.find(self.options["name"])

    @property
    def cost(self) -> Cost:
        return self.mechanism.cost(self.options)

    @property
    def is_subquadratic(self) -> bool:
        """True if its declared cost is less than one score per pair of query and key."""
        return not re.search(r"\bT S\b|\bS T\b|\b[TS]\^2", self.cost.time)

    def build(self, place: Place) -> Attention[Any]:
        """Build the mechanism.

        Raises: ConfigError if it is not defined for the role, or does not support the positions.
        """
        return build_attention(self.options, place)


def preset_names() -> list[str]:
    return sorted(path.stem for path in (CONF / "attn").glob("*.yaml"))


def presets(names: list[str], *overrides: str) -> list[Preset]:
    """The presets with these names, with overrides such as `model.dim=256`.

    Raises: SystemExit for a name that is not in conf/attn.
    """
    if unknown := sorted(set(names) - set(preset_names())):
        raise SystemExit(f"unknown preset {unknown[0]!r}. Known: {', '.join(preset_names())}")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return [read(name, overrides) for name in names]


def read(name: str, overrides: tuple[str, ...]) -> Preset:
    config = compose("train", overrides=[f"attn={name}", *overrides])
    node: Any = OmegaConf.to_container(config.attn, resolve=True)
    words, paper = describe_preset(CONF / "attn" / f"{name}.yaml")
    return Preset(name, words, paper, without_elsewhere(node))


def describe_preset(file: Path) -> tuple[str, str]:
    """The description in the first comment of a preset, and the paper after its last dash."""
    text = title(file)
    words, dash, paper = text.rpartition(" - ")
    if not dash:
        words, paper = text, ""
    return SENTENCE_END.split(words)[0], paper


def schemes(dim: int, heads: int, causal: bool) -> Iterator[tuple[str, PositionScheme]]:
    """Every position scheme that acts inside attention, by its name in conf/position."""
    for name, scheme in POSITIONS.items():
        if scheme.hook not in (None, "embed"):
            options = {"num_heads": heads} if "num_heads" in options_of(scheme) else {}
            yield name, scheme(causal, dim, **options)


def list_positions(preset: Preset, role: Role, dim: int, heads: int) -> list[str]:
    """The position schemes that the mechanism can be built with, and that act inside it."""
    if role is Role.CROSS or role not in preset.mechanism.roles:
        return []
    names = []
    for name, scheme in schemes(dim, heads, role is Role.DECODER):
        try:
            preset.build(Place(role, dim, dim, scheme))
        except ConfigError:
            continue
        names.append(name)
    return names
