"""Declare options with default, meaning and range, in the class that uses them.

    patience: float = option(1.0, "finished hypotheses that end a search, in beam sizes", "P", 0)

Checks, the command line, docs/options.md and the comments of conf/ are derived from them.
"""

import dataclasses
import math
from typing import Any, NamedTuple

DECLARED = "option"  # the key of a field's metadata
REQUIRED: Any = dataclasses.MISSING  # in place of a default


class Option(NamedTuple):
    """The meaning of an option, and the range of its number or numbers."""

    help: str
    metavar: str | None = None  # placeholder for the value on the command line
    minimum: float = -math.inf
    maximum: float = math.inf
    below: float = math.inf  # exclusive upper bound
    instead: str = ""  # advice for a value out of range


def option(
    default: Any,
    help: str,
    metavar: str | None = None,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    *,
    below: float = math.inf,
    instead: str = "",
) -> Any:
    """Declare a field of a dataclass as an option, see `Option`.

    Args:
        default: a value, a class to call for the value (`dict`), or REQUIRED.
    """
    metadata = {DECLARED: Option(help, metavar, minimum, maximum, below, instead)}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declarations(owner: Any) -> dict[str, Option]:
    """The options that a class declares with `option`, by name; inherited ones first."""
    return {
        field.name: field.metadata[DECLARED]
        for field in (dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ())
        if DECLARED in field.metadata
    }
