"""Stages of a training: weights of its corpora that change at certain updates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_options, check_range
from seq2seq.data.corpus.component_options import check_weight
from seq2seq.data.corpus.corpus import Corpus, Share, temper

EXAMPLE = "data.stages=[{until: 5000, weights: {web: 1, clean: 1}}, {weights: {clean: 1}}]"


class Stage(NamedTuple):
    """The weights of the corpora for updates before `until` (from 0); None for the last stage."""

    until: int | None
    shares: Sequence[Share]


@dataclass(frozen=True)
class StageOptions:
    """The options of one stage: the weights of the corpora that it trains on, by name."""

    weights: dict[str, Any]
    until: int | None = None


def check_stages(stages: Sequence[Any], train: object) -> None:
    """Check `data.stages` before any file is opened.

    Args:
        train: the value of `data.train`.

    Raises: ConfigError naming the stage and its invalid option.
    """
    if not isinstance(train, Mapping):
        raise ConfigError(
            "data.stages gives weights to several corpora, but data.train has only one: give "
            "several, data.train={NAME: {path: FILES}, ...}, or data.stages=null"
        )
    if not stages:
        raise ConfigError(f"data.stages is empty: null for none, or {EXAMPLE}")
    begins = 0
    for number, options in enumerate(stages):
        where = f"data.stages[{number}]"
        if not isinstance(options, Mapping):
            raise ConfigError(f"{where}={options!r} should be a stage: {EXAMPLE}")
        check_options(StageOptions, options, where)
        check_corpora(options["weights"], train, f"{where}.weights")
        until, is_last = options.get("until"), number == len(stages) - 1
        if is_last != (until is None):
            raise ConfigError(
                f"{where}.until={'null' if until is None else until}: every stage but the last "
                f"says before which update it ends, and the last has no end: {EXAMPLE}"
            )
        check_range(f"{where}.until", until, begins + 1)
        begins = until or 0
    for name, options in train.items():
        if not any(name in each["weights"] for each in stages):
            raise ConfigError(
                f"data.train.{name} is in no stage: give it a weight in data.stages, or leave it "
                "out of data.train"
            )
        if options.get("weight", 1) != 1:
            raise ConfigError(
                f"data.train.{name}.weight={options['weight']} has no effect with data.stages, "
                "which give all weights: leave it out, and write it there"
            )


def check_corpora(weights: Mapping[str, Any], train: Mapping[str, Any], where: str) -> None:
    """Check the weights of a stage. Raises: ConfigError for an unknown corpus or invalid weight."""
    if not weights:
        raise ConfigError(f"{where} names no corpus: {EXAMPLE}")
    for name, weight in weights.items():
        if name not in train:
            raise ConfigError(
                f"{where}.{name}: data.train has no such corpus. Its corpora: {', '.join(train)}"
            )
        check_weight(weight, f"{where}.{name}", "it")


def find_stages(
    stages: Sequence[Mapping[str, Any]], corpus: Corpus, temperature: float
) -> list[Stage]:
    """The stages of a training on a corpus; all directions of a corpus have its weight."""
    found = []
    for options in stages:
        weights = options["weights"]
        of_stage = [
            share._replace(weight=float(weights[component.corpus]))
            for component, share in zip(corpus.components, corpus.shares, strict=True)
            if component.corpus in weights
        ]
        found.append(Stage(options.get("until"), temper(of_stage, temperature)))
    return found
