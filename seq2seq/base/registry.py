"""Tables of classes by their names in a configuration, and checks of their options.

The constructor is the schema: an option file is a preset of its keyword arguments, so names and
types are compared with its signature before anything is built.
"""

import difflib
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from seq2seq.base.errors import ConfigError
from seq2seq.base.options import Option, declarations

T = TypeVar("T")

LIMIT = 2**32  # for any option, so that numbers that libraries compute from it do not overflow


class Table(dict[str, T], Generic[T]):
    """Name -> class, with an error for an unknown name that lists the known ones.

    A program only has to add an entry (`ATTENTION["mine"] = Mine`). For plug-ins see `plugins`.
    """

    def __init__(self, kind: str, entries: Mapping[str, T]):
        super().__init__(entries)
        self.kind = kind

    def find(self, name: str) -> T:
        """The entry called `name`. Raises: ConfigError with the closest name and all known ones."""
        if not isinstance(name, str) or name not in self:
            known = self.list_names()
            raise ConfigError(
                f"unknown {self.kind} {name!r}{did_you_mean(name, known)} "
                f"Known: {', '.join(sorted(known))}"
            )
        return self[name]

    def configure(self, node: Mapping[str, Any], where: str) -> Any:
        """The entry that a node of a configuration names, with the node's other values as options.

        Raises: ConfigError as `find` and `check_options`.
        """
        options = dict(node)
        entry: Any = self.find(options.pop("name", None))
        check_options(entry, options, where)
        return partial(entry, **options)

    def list_names(self) -> set[str]:
        """All names that `find` accepts."""
        return {*self}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean 'gqa'?`; a full stop if no known name is close.

    The last words of dotted names must be alike too: `model.` alone makes no two names similar.
    """
    last = str(name).rpartition(".")[2]
    names = [str(k) for k in known]
    ends = difflib.get_close_matches(last, {k.rpartition(".")[2] for k in names}, 99, cutoff=0.5)
    alike = [k for k in names if k.rpartition(".")[2] in ends]
    near = difflib.get_close_matches(str(name), alike, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else "."


def options_of(callable_: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The options of a constructor: its keyword-only arguments, or all fields of a dataclass.

    Options in the class's `absent_options` are left out; `**options` is replaced by the remaining
    options of the base class.
    """
    parameters = inspect.signature(callable_).parameters.values()
    every = hasattr(callable_, "__dataclass_fields__")
    absent = getattr(callable_, "absent_options", {})
    typed = (p for p in parameters if p.name not in absent)
    own = {p.name: p for p in typed if every or p.kind is p.KEYWORD_ONLY}
    if not inspect.isclass(callable_) or all(p.kind is not p.VAR_KEYWORD for p in parameters):
        return own
    inherited = options_of(callable_.__mro__[1]).items()
    return {name: p for name, p in inherited if name not in absent} | own


def check_options(callable_: Callable[..., Any], options: Mapping[str, Any], where: str) -> None:
    """Compare a mapping of options with the keyword-only arguments of a constructor.

    Args:
        callable_: class or function whose keyword-only arguments are annotated. A class may explain
            in `absent_options` why it lacks an option that others have.
        options: plain values as the user gave them.
        where: configuration node, as typed on the command line (`attn`, `model`); empty for the
            top level.

    Raises: ConfigError naming every option that is unknown, missing, mistyped or out of range.
    """
    accepted = options_of(callable_)
    prefix = f"{where}." if where else ""
    reasons = getattr(callable_, "absent_options", {})
    declared = declarations(callable_)
    problems = []
    for name, value in options.items():
        if name in reasons:
            problems.append(f"{prefix}{name}={value!r} means nothing here: {reasons[name]}")
        elif name not in accepted:
            known = ", ".join(sorted(accepted))
            problems.append(
                f"unknown option {prefix}{name}{did_you_mean(name, accepted)} Accepted: {known}"
            )
        elif not matches(value, accepted[name].annotation):
            default, right = accepted[name].default, describe_type(accepted[name].annotation)
            example = "" if default is inspect.Parameter.empty else f", for example {default!r}"
            problems.append(f"{prefix}{name}={value!r} should be {right}{example}")
        elif isinstance(value, int | float) and abs(value) >= LIMIT:
            beyond = f"large: less than {LIMIT}" if value > 0 else f"small: more than {-LIMIT}"
            problems.append(f"{prefix}{name}={value} is too {beyond} is possible")
        elif name in declared:
            problems += list_outside(f"{prefix}{name}", value, declared[name])
    for name, parameter in accepted.items():
        if name not in options and parameter.default is inspect.Parameter.empty:
            problems.append(f"{prefix}{name} is missing: {describe_type(parameter.annotation)}")
    if problems:
        raise ConfigError("\n".join(problems))


def list_outside(name: str, value: Any, option: Option) -> list[str]:
    """One message for each number of an option that is out of range."""
    if isinstance(value, list | tuple):
        each = enumerate(value)
        return [text for i, item in each for text in list_outside(f"{name}[{i}]", item, option)]
    if isinstance(value, int | float) and option.minimum > -math.inf:
        try:
            check_range(name, value, option.minimum, option.below, maximum=option.maximum)
        except ConfigError as error:
            return [f"{error}{option.instead}"]
    return []


def check_range(
    option: str,
    value: float | None,
    minimum: float,
    below: float = math.inf,
    *,
    maximum: float = math.inf,
) -> None:
    """Check the range of an option; None is always allowed.

    Raises: ConfigError unless minimum <= value < below and value <= maximum.
    """
    if value is not None and not (minimum <= value < below and value <= maximum):
        bounds = f"at least {minimum}" if below == math.inf else f"in [{minimum}, {below})"
        bounds += "" if maximum == math.inf else f" and at most {maximum:,}"
        raise ConfigError(f"{option}={value} should be {bounds}")


def matches(value: Any, hint: Any) -> bool:
    """True if a plain value (None, bool, number, string, list, mapping) satisfies an annotation.

    Args:
        hint: the annotation; or a dict of annotations, for a mapping with at least these keys.
    """
    if isinstance(hint, dict):
        return isinstance(value, Mapping) and all(
            matches(value.get(name), part) for name, part in hint.items()
        )
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(matches(value, a) for a in arguments)
    if origin is typing.Literal:
        return value in arguments
    if isinstance(value, bool):  # Python counts bool as int; users do not
        return hint is bool
    if hint is float:
        return isinstance(value, int | float)
    if origin in (list, tuple):
        items = arguments[:1] if origin is list or arguments[1:] == (...,) else arguments
        if not isinstance(value, list | tuple) or (len(items) > 1 and len(items) != len(value)):
            return False
        return all(matches(v, items[i % len(items)]) for i, v in enumerate(value))
    if origin in (dict, Mapping):
        return isinstance(value, Mapping)
    return isinstance(value, hint) if inspect.isclass(hint) else True


def describe_type(hint: Any) -> str:
    """An annotation in plain words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(a) for a in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(a) for a in arguments)
    if hint is None or hint is type(None):
        return "null"
    names = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
    if origin in (list, tuple):
        return "a list of " + " and ".join(describe_type(a) for a in arguments if a is not ...)
    return names.get(hint, getattr(hint, "__name__", str(hint)))
