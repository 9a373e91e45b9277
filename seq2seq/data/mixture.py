"""The mixture of corpora that makes up a part of the data (train, valid, test)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seq2seq.data.formats import TextFormat, find_format
from seq2seq.errors import ConfigError
from seq2seq.registry import check_options

Spec = str | list[str] | dict[str, Any]

EXAMPLE = "{news: {path: my/news}, talks: {path: my/talks, weight: 2}}"


@dataclass(frozen=True)
class Component:
    """One corpus of a part.

    Attributes:
        name: its name in messages; empty if it is the only one.
        text: its pairs.
        weight: how often an epoch sees each of its pairs, on average.
        tag: the symbol put before each of its sources, if any.
    """

    name: str
    text: TextFormat
    weight: float = 1.0
    tag: str | None = None


@dataclass(frozen=True)
class ComponentOptions:
    """The options of one corpus of several; see `Component`."""

    path: str | list[str]
    weight: float = 1.0
    tag: str | None = None


def check_spec(spec: Spec, what: str) -> None:
    """Check an option that names several corpora, before any file is looked for.

    Raises: ConfigError with the corpus and its faulty option.
    """
    if not isinstance(spec, Mapping):
        return
    if not spec:
        raise ConfigError(f"{what} names no corpus; expected {what}={EXAMPLE}")
    for name, options in spec.items():
        where = f"{what}.{name}"
        if not isinstance(options, Mapping) or "path" not in options:
            raise ConfigError(f"{where}={options!r} should say where it is: {what}={EXAMPLE}")
        check_options(ComponentOptions, options, where)
        weight, tag = options.get("weight", 1), options.get("tag")
        if not 0 < weight <= 1000:
            raise ConfigError(
                f"{where}.weight={weight!r} should be a number above 0, at most 1000: how often an "
                f"epoch sees a pair. To leave a corpus out, leave out {where}"
            )
        if "weight" in options and what != "data.train":
            raise ConfigError(
                f"{where}.weight={weight!r}: only training corpora have weights; leave it out"
            )
        if tag is not None and not re.fullmatch(r"[\w-]+", tag):
            raise ConfigError(
                f"{where}.tag={tag!r} should be a word of letters, digits, _ or -: {where}.tag=de"
            )


def find_components(spec: Spec, source: str, target: str, what: str) -> list[Component]:
    """The corpora that an option names; a prefix or a file is one corpus without a name.

    Args: as `find_format`.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths.
    """
    if not isinstance(spec, dict):
        return [Component("", find_format(spec, source, target, what))]
    return [
        Component(
            str(name),
            find_format(options["path"], source, target, f"{what}.{name}.path"),
            float(options.get("weight", 1)),
            options.get("tag"),
        )
        for name, options in spec.items()
    ]
