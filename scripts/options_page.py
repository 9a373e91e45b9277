"""Write docs/options.md: every option of conf/ with its default and its meaning.

    python scripts/options_page.py

Options are explained only in the files of conf/; this page shows them together.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CONF, PAGE = ROOT / "conf", ROOT / "docs" / "options.md"
SETTING = re.compile(
    r"(?P<indent> *)(?P<key>[\w@.]+): *(?P<value>[^#]*?) *(?:#\s*(?P<meaning>.*))?"
)
INTRODUCTION = """# Options

Written by `scripts/options_page.py` from the files of `conf/`: change them, not this page.

`python train.py GROUP=OPTION key=value ...` chooses a file of a folder and changes a value; a dot
goes down into a node (`attn.num_kv_heads=2`). An experiment is a file that makes such choices.
"""


class Option(NamedTuple):
    """A line of a file of conf/."""

    key: str  # with the nodes above it: checkpoint.every
    value: str
    meaning: str  # its comment


def options(file: Path) -> Iterator[Option]:
    """The values that a file sets, in order, without nodes and the list of defaults."""
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
    """The first comment of a file: what the option is, and its source."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def meanings(files: Iterable[Path]) -> dict[str, str]:
    """The meaning of each key, for files that only change its value."""
    return {o.key: o.meaning for file in files for o in options(file) if o.meaning}


def groups() -> list[Path]:
    return sorted(path for path in CONF.iterdir() if path.is_dir())


def read_meanings() -> dict[str, str]:
    """`model.dim` -> its meaning, over all groups."""
    known = meanings([CONF / "train.yaml"])
    for group in groups():
        of_group = meanings(sorted(group.glob("*.yaml"), reverse=True))
        known |= {f"{group.name}.{key}": meaning for key, meaning in of_group.items()}
    return known


def meaning_of(option: Option, group: str, known: dict[str, str]) -> str:
    """The comment of the option; else of its key in another file; else of its node."""
    key = option.key if group == "experiment" else f"{group}.{option.key}"
    return option.meaning or known.get(key) or known.get(key.rsplit(".", 1)[0], "")


def table(listed: list[Option], group: str, known: dict[str, str]) -> str:
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in listed:
        meaning = meaning_of(option, group, known).replace("|", "\\|")
        rows.append(f"| `{option.key}` | `{option.value}` | {meaning} |")
    return "\n".join(rows)


def page() -> str:
    known = read_meanings()
    alone = [o for o in options(CONF / "train.yaml") if not o.key.startswith(("hydra", "defaults"))]
    parts = [INTRODUCTION, "## Outside the groups", table(alone, "", known)]
    for group in groups():
        parts.append(f"## `{group.name}=`")
        for file in sorted(group.glob("*.yaml")):
            parts.append(f"### `{group.name}={file.stem}`\n\n{title(file)}")
            if listed := [o for o in options(file) if o.key != "name"]:
                parts.append(table(listed, group.name, known))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
