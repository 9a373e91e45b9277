"""Write docs/options.md, which lists every option in conf/ with its value and meaning.

    python scripts/options_page.py

Meanings are the comments in conf/, which equal the help texts in the classes that check the options
(a test compares them). Ranges come from these classes.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.base.options import DECLARED
from seq2seq.data.augment.augmented_text import AugmentOptions
from seq2seq.data.options import DataOptions
from seq2seq.decoding import SEARCHES
from seq2seq.decoding.options import EngineOptions
from seq2seq.training.config.options import RunOptions
from seq2seq.training.config.plan import PLAIN_NODES

ROOT = Path(__file__).resolve().parents[1]
CONF, PAGE = ROOT / "conf", ROOT / "docs" / "options.md"
SETTING = re.compile(
    r"(?P<indent> *)(?P<key>[\w@.]+): *(?P<value>[^#]*?) *(?:#\s*(?P<meaning>.*))?"
)
INTRODUCTION = """# Options

Written by `scripts/options_page.py` from the files of `conf/` and the classes that check them:
change those, not this page.

`python train.py GROUP=OPTION key=value ...` chooses a file of a folder and changes a value; a dot
goes down into a node (`attn.num_kv_heads=2`). An experiment is a file that makes such choices.

What several files of a group have in common is explained once, before them. A file names the one
that it builds on and its other options, with values that differ, and explains what is its own."""


class Option(NamedTuple):
    """An option in a file of conf/."""

    key: str  # full name, such as checkpoint.every
    value: str
    meaning: str  # comment


def options(file: Path) -> Iterator[Option]:
    """The options that a file sets, in order; nodes and the list of defaults are left out."""
    above: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        match = SETTING.fullmatch(line)
        if not match:
            continue
        indent = len(match["indent"])
        above = [(depth, key) for depth, key in above if depth < indent]
        if match["value"]:
            key = ".".join([key for _, key in above] + [match["key"]])
            yield Option(key, match["value"], match["meaning"] or "")
        else:
            above.append((indent, match["key"]))


def title(file: Path) -> str:
    """The comment at the beginning of a file, which says what it chooses, and its source."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def bases(file: Path) -> list[Path]:
    """The files of the same group that a file builds on."""
    head = file.read_text(encoding="utf-8").partition("_self_")[0]
    return [file.with_stem(name) for name in re.findall(r"^  - (\w+)(?: +#.*)?$", head, re.M)]


def groups() -> list[Path]:
    return sorted(path for path in CONF.iterdir() if path.is_dir())


def declared() -> dict[str, "Field[Any]"]:
    """The options that classes declare, by their full names on the command line of training."""
    nodes: list[tuple[str, Any]] = [(f"{node}.", owner) for node, owner in PLAIN_NODES.items()]
    nodes += [("", RunOptions), ("data.", DataOptions), ("data.augment.", AugmentOptions)]
    nodes += [("decode.", owner) for owner in (*SEARCHES.values(), EngineOptions)]
    return {
        f"{node}{field.name}": field
        for node, owner in nodes
        for field in fields(owner)
        if DECLARED in field.metadata
    }


def describe_range(option: str) -> str:
    """The range of an option as text: ` (0 to 10)`, ` (at least 0)`, ` (0 to below 1)`; empty if it
    has no range.
    """
    field = declared().get(option)
    if field is None or field.metadata[DECLARED].minimum == -math.inf:
        return ""
    _, _, minimum, maximum, below, _ = field.metadata[DECLARED]
    if below < math.inf:
        return f" ({minimum:,} to below {below:,})"
    return f" (at least {minimum:,})" if maximum == math.inf else f" ({minimum:,} to {maximum:,})"


def table(listed: Iterable[Option], node: str = "") -> str:
    rows = ["| option | value | meaning |", "|---|---|---|"]
    for option in listed:
        meaning = option.meaning.replace("|", "\\|") + describe_range(f"{node}{option.key}")
        rows.append(f"| `{option.key}` | `{option.value}` | {meaning} |")
    return "\n".join(rows)


def shared_options(files: Iterable[Path]) -> dict[str, Option]:
    """The options that several files explain in the same words, with their most common values."""
    lines = [
        option
        for file in files
        for option in options(file)
        if option.meaning and option.key not in inherited_options(file)
    ]
    uses = Counter((option.key, option.meaning) for option in lines)
    shared: dict[str, Option] = {}
    for option, _ in Counter(lines).most_common():
        if uses[option.key, option.meaning] > 1:
            shared.setdefault(option.key, option)
    return shared


def inherited_options(file: Path) -> dict[str, Option]:
    """The options that are explained in the files that a file builds on."""
    inherited: dict[str, Option] = {}
    for base in bases(file):
        inherited |= inherited_options(base)
        inherited |= {option.key: option for option in options(base) if option.meaning}
    return inherited


def section(file: Path, shared: Mapping[str, Option]) -> Iterator[str]:
    """The section about a file: its title, the file it builds on, its options, and the meanings of
    the options that only it explains.
    """
    group = file.parent.name
    yield f"### `{group}={file.stem}`\n\n{title(file)}"
    known = {**shared, **inherited_options(file)}
    named, own = [], []
    for option in options(file):
        usual = known.get(option.key, Option(option.key, "", option.meaning))
        if option.key in ("name", "run_name"):
            continue
        if option.meaning and (option.key not in known or option.meaning != usual.meaning):
            own.append(option)
        else:
            named.append(option.key if option.value == usual.value else "=".join(option[:2]))
    like = [f"Like `{group}={base.stem}`" for base in bases(file)]
    listed = [f"`{' '.join(named)}`"] if named else []
    if like or listed:
        yield ", with ".join(like + listed)
    if own:
        yield table(own, "" if group == "experiment" else f"{group}.")


def page() -> str:
    alone = [o for o in options(CONF / "train.yaml") if not o.key.startswith(("hydra", "defaults"))]
    parts = [INTRODUCTION, "## Outside the groups", table(alone)]
    for group in groups():
        parts.append(f"## `{group.name}=`")
        files = sorted(group.glob("*.yaml"))
        shared = {} if group.name == "experiment" else shared_options(files)
        if shared:
            parts.append(table(shared.values(), f"{group.name}."))
        for file in files:
            parts += section(file, shared)
    return "\n\n".join(parts) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
