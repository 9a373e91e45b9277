"""The mixture of corpora that makes up a part of the data (train, valid, test)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seq2seq.data.formats import TextFormat, find_format
from seq2seq.errors import ConfigError
from seq2seq.tables import did_you_mean

Spec = str | list[str] | dict[str, Any]

OPTIONS = ("path", "weight", "tag")
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
        for option in options:
            if option not in OPTIONS:
                raise ConfigError(
                    f"unknown option {where}.{option}{did_you_mean(option, OPTIONS)} "
                    f"Accepted: {', '.join(OPTIONS)}"
                )
        check_values(options, where, train=what == "data.train")


def check_values(options: Mapping[str, Any], where: str, train: bool) -> None:
    path, weight, tag = (options.get(name) for name in OPTIONS)
    if not isinstance(path, str) and not (
        isinstance(path, list) and all(isinstance(one, str) for one in path)
    ):
        raise ConfigError(f"{where}.path={path!r} should be a prefix, a file or two files")
    if "weight" in options:
        numeric = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not numeric or not 0 < weight <= 1000:  # type: ignore[operator]
            raise ConfigError(
                f"{where}.weight={weight!r} should be a number above 0, at most 1000: how often an "
                f"epoch sees a pair. To leave a corpus out, leave out {where}"
            )
        if not train:
            raise ConfigError(
                f"{where}.weight={weight!r}: only training corpora have weights; leave it out"
            )
    if tag is not None and not (isinstance(tag, str) and re.fullmatch(r"[\w-]+", tag)):
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
