"""Options of commands: fields of dataclasses declare what can be typed, and hold what was typed."""

import types
import typing
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Collection
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from typing import Any, Literal, TypeVar, dataclass_transform

from seq2seq.base.errors import ConfigError
from seq2seq.base.options import DECLARED, Option
from seq2seq.base.registry import list_outside

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Options:
    """The base of all classes of options, which makes each a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


OWN = (DECLARED, "flags", "either")  # keys of metadata that are not for `add_argument`


def value(
    text: str,
    metavar: str | None = None,
    *flags: str,
    default: Any = None,
    maximum: float | None = None,
    **more: Any,
) -> Any:
    """A field that is typed as `--name`.

    Args:
        text: description for --help.
        flags: short name, or a long name that differs from that of the field.
        maximum: largest number that is accepted; the smallest is then 1.
        more: further arguments of `add_argument`. Options with `either` exclude each other; if it
            is true, one of them must be given.
    """
    option = Option(text, metavar) if maximum is None else Option(text, metavar, 1, maximum)
    return field(default=default, metadata={DECLARED: option, "flags": flags, **more})


flag = partial(value, default=False)
repeated = partial(value, action="append", default=())


def argument(text: str, metavar: str, **more: Any) -> Any:
    """A field that is typed without a name. `more` holds further arguments of `add_argument`."""
    return field(metadata={DECLARED: Option(text, metavar), "flags": None, **more})


def group(title: str) -> Any:
    """A field of several options, which --help lists under a title."""
    return field(metadata={"title": title})


def subset(owner: Any, names: str, prefix: str = "") -> Any:
    """A field for options that another class declares; it holds the values given, by name.

    Args:
        names: names of the options, separated by spaces.
        prefix: beginning of each description in --help.
    """
    declared = {each.name: each for each in fields(owner)}
    chosen = [declared[name] for name in names.split()]
    return field(default_factory=dict, metadata={"subset": chosen, "prefix": prefix})


def add_options(where: Any, kind: Any, often: Collection[str] = (), first: Any = None) -> None:
    """Add the fields of a dataclass to a parser; a field that is itself a dataclass is a group.

    Args:
        often: names of the options that --help lists first, out of their groups.
        first: parser or group for these; None = the parser itself.
    """
    either, first = None, first or where
    if often and first is where:
        where = where.add_argument_group("more options")
    for each in sorted(fields(kind), key=lambda each: is_dataclass(each.type)):
        if is_dataclass(each.type):
            title = each.metadata.get("title", each.name)
            add_options(first.add_argument_group(title), each.type, often, first)
            continue
        for one in each.metadata.get("subset", [each]):
            place = first if one.name in often or one.metadata.get("flags", ()) is None else where
            if "either" in one.metadata:
                required = one.metadata["either"]
                place = either = either or where.add_mutually_exclusive_group(required=required)
            prefix = each.metadata.get("prefix")
            place.add_argument(*names_of(one), **keywords_of(one, prefix))


def names_of(each: "Field[Any]") -> tuple[str, ...]:
    """The names of an option as typed, the long one last; or the name of an argument."""
    flags: tuple[str, ...] | None = each.metadata.get("flags", ())
    if flags is None:
        return (each.name,)
    is_named = flags and flags[-1].startswith("--")
    return flags if is_named else (*flags, option_name(each.name))


def keywords_of(each: "Field[Any]", prefix: str | None) -> dict[str, Any]:
    """The arguments of `add_argument` for a field.

    Args:
        prefix: beginning of the help text, for an option of `subset`; None for other options.
    """
    declared: Option = each.metadata[DECLARED]
    more = {name: value for name, value in each.metadata.items() if name not in OWN}
    keywords = {"help": declared.help, **kind_of(each.type), **more}
    if declared.metavar is not None:
        keywords["metavar"] = declared.metavar
    if prefix is not None:
        meaning, *_ = declared.help.split("; null:")  # null cannot be typed
        keywords["help"] = f"{prefix}{meaning}".replace("%", "%%")
        if keywords["type"] is positive:
            keywords["type"] = int  # `fill` checks its range
    elif each.metadata["flags"] is not None:
        # A list, since argparse appends to a copy of it.
        keywords |= {"dest": each.name, "default": [] if each.default == () else each.default}
    if more.get("nargs") == "*":
        keywords["default"] = []  # otherwise Python 3.11 calls it required
    if "type" in more:
        keywords["type"] = reporting(more["type"])
    return keywords


def kind_of(hint: Any) -> dict[str, Any]:
    """The arguments of `add_argument` that follow from the type of a field."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = typing.get_args(hint)[0]  # of X | None
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        return {"type": type(choices[0]), "choices": choices}
    if hint is bool:
        return {"action": "store_true"}
    if typing.get_origin(hint) is not None:  # a list
        hint = typing.get_args(hint)[0]
    return {"type": {int: positive, float: numeric}.get(hint, hint)}


def reporting(read: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap a reader of values so that the parser reports its ConfigError, and names the option."""

    @wraps(read)
    def reader(text: str) -> T:
        try:
            return read(text)
        except ConfigError as error:
            raise ArgumentTypeError(str(error)) from error

    return reader


def fill(kind: type[T], arguments: Namespace) -> T:
    """An object of the dataclass that was given to `add_options`, with the values that were typed.

    Raises: ConfigError for numbers out of range, and for options that exclude each other.
    """
    values: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        if is_dataclass(each.type):
            values[each.name] = fill(each.type, arguments)  # type: ignore[arg-type]
            continue
        subset = each.metadata.get("subset")
        typed = {one.name: getattr(arguments, one.name) for one in subset or [each]}
        for one in subset or [each]:
            name = option_name(one.name)
            if problems := list_outside(name, typed[one.name], one.metadata[DECLARED]):
                raise ConfigError(problems[0])
        given = {name: value for name, value in typed.items() if value is not None}
        values[each.name] = typed[each.name] if subset is None else given
    return kind(**values)


def collect_given(options: Any, kind: Any = None) -> dict[str, Any]:
    """The options that differ from their defaults, by their names as typed.

    Args:
        kind: base class whose fields alone count; None = the class of the options.
    """
    given: dict[str, Any] = {}
    for each in fields(kind or options):
        value = getattr(options, each.name)
        if is_dataclass(value):
            given |= collect_given(value)
        elif "subset" in each.metadata:
            given |= {option_name(name): one for name, one in value.items()}
        elif each.metadata["flags"] is not None and value not in (each.default, []):
            given[names_of(each)[-1]] = value
    return given


def check_absent(options: Any, names: Collection[str], reason: str) -> None:
    """Raises: ConfigError, with this reason, if one of these options is given."""
    if given := [name for name in collect_given(options) if name in names]:
        raise ConfigError(f"{given[0]} {reason}")


def option_name(name: str) -> str:
    """The name of an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def numeric(text: str) -> float:
    """Read a number; 99 stays an integer, so that messages show it as typed."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ArgumentTypeError(f"{value} should be at least 1")
    if value >= 2**31:
        raise ArgumentTypeError(f"{value} is too large")
    return value


def natural_number(text: str) -> int:
    return 0 if text == "0" else positive(text)
