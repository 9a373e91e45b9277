"""The declaration of an option: its default, meaning and range, in the class that has it.

    patience: float = option(1.0, "finished hypotheses that end a search, in beam sizes", "P", 0)

Checks, the command line, docs/options.md and the comments of conf/ follow from it.
"""

import dataclasses
import math
from typing import Any, NamedTuple

DECLARED = "option"  # the key of a field's metadata
REQUIRED: Any = dataclasses.MISSING  # in place of a default


class Option(NamedTuple):
    """The meaning of an option, and the range of its number, or of each of its numbers."""

    help: str
    metavar: str | None = None  # what stands for the value on the command line
    minimum: float = -math.inf
    maximum: float = math.inf
    below: float = math.inf  # the smallest number that is too large

    @property
    def typed_help(self) -> str:
        """The help text for a command line, where nobody types null."""
        return self.help.split("; null:")[0]


def option(
    default: Any,
    help: str,
    metavar: str | None = None,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    *,
    below: float = math.inf,
) -> Any:
    """The field of a dataclass that is an option, see `Option`.

    Args:
        default: value, or a class to call for one (`dict`), or REQUIRED.
    """
    metadata = {DECLARED: Option(help, metavar, minimum, maximum, below)}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Declaration(NamedTuple):
    """An option as its class declares it."""

    type: Any
    default: Any  # REQUIRED if there is none
    option: Option


def declarations(owner: Any) -> dict[str, Declaration]:
    """The options that a class declares by `option`, inherited ones first, by name."""
    return {
        field.name: Declaration(field.type, field.default, field.metadata[DECLARED])
        for field in (dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ())
        if DECLARED in field.metadata
    }
