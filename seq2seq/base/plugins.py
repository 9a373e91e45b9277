"""Plug-ins: other packages that add attention mechanisms, position schemes, searches, tokenizers
and metrics.

    [project.entry-points."seq2seq.attention"]
    leaky = "leaky_attention.mechanism:Leaky"

A name is looked up first in the built-in tables, then among the entry points of installed packages.
Only the entry point with exactly that name is imported, and only when it is needed; no file can
name a module to import. Presets are files in the plug-in's package, `conf/attn/leaky.yaml`.
"""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table, matches

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

GROUP = "seq2seq.{}"  # group of entry points
KINDS = ("attention", "position", "search", "tokenizer", "metric")


class PluginTable(Table[T]):
    """A table that plug-ins extend; their entries are imported when they are first needed.

    Args:
        kind: one of KINDS.
        entries: the built-in entries.
        suits: returns True if an object can be an entry.
        expected: description of a suitable object, for messages.
    """

    def __init__(
        self, kind: str, entries: Mapping[str, T], suits: Callable[[Any], bool], expected: str
    ):
        super().__init__(kind, entries)
        self.ours, self.suits, self.expected = frozenset(entries), suits, expected

    def find(self, name: str) -> T:
        """The entry called `name`, built in or from a plug-in.

        Raises: ConfigError if the name is unknown or declared by two plug-ins, or if the plug-in
            cannot be imported or provides an unsuitable object.
        """
        if isinstance(name, str) and name not in self:
            declared = find_entry_points(self.kind, name)
            if len(declared) > 1:
                both = " and ".join(map(describe_source, declared))
                raise ConfigError(
                    f"{self.kind} {name!r} is declared by {both}: pip uninstall all but one of them"
                )
            for entry_point in declared:
                self[name] = self._load(entry_point)
        return super().find(name)

    def list_names(self) -> set[str]:
        return {*self, *(each.name for each in find_entry_points(self.kind))}

    def has(self, name: str) -> bool:
        """True if the name belongs to a built-in entry or to an installed plug-in."""
        return name in self or bool(find_entry_points(self.kind, name))

    def check_unclaimed(self, name: str) -> None:
        """Check that no plug-in reuses this built-in name.

        Raises: ConfigError if a plug-in reuses the name.
        """
        if name in self.ours:
            for each in find_entry_points(self.kind, name):
                raise ConfigError(
                    f"{self.kind} {name!r} is a name of seq2seq itself, and "
                    f"{describe_source(each)} declares it too: give its entry point another "
                    f"name, or type pip uninstall {distribution_name(each)}"
                )

    def _load(self, entry_point: "EntryPoint") -> T:
        source = f"{describe_source(entry_point)}, which has the {self.kind} {entry_point.name!r},"
        try:
            entry: Any = entry_point.load()
        except (Exception, SystemExit) as error:  # third-party code may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"{source} cannot be imported: {reason}. python -c 'import {entry_point.module}' "
                f"shows where. Repair it, or type pip uninstall {distribution_name(entry_point)}"
            ) from error
        if not self.suits(entry):
            raise ConfigError(f"{source} gives {entry!r}, which should be {self.expected}")
        found: T = entry
        return found


def find_entry_points(kind: str, name: str | None = None) -> list["EntryPoint"]:
    """Installed entry points of one kind, sorted by name. Imports nothing."""
    from importlib.metadata import entry_points  # imported here because it is slow

    declared = entry_points(group=GROUP.format(kind))
    chosen = (each for each in declared if name is None or each.name == name)
    return sorted(chosen, key=lambda each: (each.name, distribution_name(each)))


def distribution_name(entry_point: "EntryPoint") -> str:
    return entry_point.dist.name if entry_point.dist else "an unknown package"


def describe_source(entry_point: "EntryPoint") -> str:
    """Describe a plug-in for messages: `the plug-in leaky-attention 0.1`."""
    version = f" {entry_point.dist.version}" if entry_point.dist else ""
    return f"the plug-in {distribution_name(entry_point)}{version}"


def preset_folders() -> dict[Path, str]:
    """The conf/ folders of all plug-ins, each with a description of its plug-in."""
    folders: dict[Path, str] = {}
    for entry_point in (each for kind in KINDS for each in find_entry_points(kind)):
        try:
            # Without a dot in the name, nothing is imported.
            spec = find_spec(entry_point.module.partition(".")[0])
        except (ImportError, ValueError):
            continue
        for location in (spec and spec.submodule_search_locations) or ():
            if (folder := Path(location) / "conf").is_dir():
                folders.setdefault(folder, describe_source(entry_point))
    return folders


def check_presets(choices: Mapping[str, str | None], ours: Path) -> None:
    """Check that each chosen preset exists only once.

    Args:
        choices: names of the presets that Hydra chose, by group: `attn: leaky`.
        ours: the conf/ folder of this package.

    Raises: ConfigError if a plug-in's preset has the same name as another preset.
    """
    folders = {ours: "seq2seq itself", **preset_folders()}
    if len(folders) == 1:
        return
    for group, name in choices.items():
        file = Path(group.partition("@")[0], f"{name}.yaml")
        sources = [source for folder, source in folders.items() if (folder / file).is_file()]
        if len(sources) > 1:
            raise ConfigError(
                f"the preset conf/{file} is in {' and in '.join(sources)}: rename all but one of "
                "these files, or pip uninstall a plug-in"
            )


def record_plugins(names: Mapping[str, set[str]]) -> dict[str, dict[str, str]]:
    """The packages that provide plug-in entries, for the message if one is missing later.

    Args:
        names: names of entries, by kind.

    Returns: distribution and version of each plug-in entry, by kind and name.
    """
    record: dict[str, dict[str, str]] = {}
    for kind, wanted in names.items():
        for each in find_entry_points(kind):
            if each.name in wanted and each.dist:
                record.setdefault(kind, {})[each.name] = f"{each.dist.name} {each.dist.version}"
    return record


def explain_missing(kind: str, name: str, record: Any) -> str:
    """The message for an entry that a model needs but that is neither built in nor installed.

    Args:
        record: result of `record_plugins` from the model's file; not trusted, any value is allowed.
    """
    source = record[kind][name] if matches(record, {kind: {name: str}}) else ""
    needs = f"the model needs the {kind} {name!r}, which"
    if not is_release(source):
        return (
            f"{needs} is neither part of this version of seq2seq nor of an installed plug-in: "
            "pip install the package that declares it, or install a newer seq2seq"
        )
    return (
        f"{needs} belongs to a plug-in that is not installed: according to the model, {source}. If "
        f"you trust it: pip install {source.split()[0]}"
    )


def is_release(text: str) -> bool:
    """True if the text is a distribution and its version, with nothing else that a shell or pip
    would interpret.
    """
    return bool(re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99} [A-Za-z0-9][\w.+!-]{0,99}", text, re.A))


def import_library(name: str) -> Any:
    """Import an optional package, or a module of it.

    Raises: ConfigError with the command that installs the package, if it is missing.
    """
    try:
        return import_module(name)
    except ImportError as error:
        root = name.partition(".")[0]
        raise ConfigError(f"the package {root} is not installed: pip install {root}") from error
