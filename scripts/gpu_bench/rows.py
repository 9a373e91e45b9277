"""Rows of the report, and the page that they make. Nothing here needs more than Python."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

OK, FAILED, LEFT_OUT = "ok", "FAILED", "left out"


class Row(NamedTuple):
    """A line of the report: what was checked or measured, and the result."""

    what: str
    result: str
    verdict: str = ""  # OK, FAILED or LEFT_OUT; empty for a figure

    def to_json(self) -> str:
        return json.dumps(self)


def judge(what: str, result: str, passed: bool) -> Row:
    return Row(what, result, OK if passed else FAILED)


def to_page(
    command: str, conditions: Sequence[str], parts: Mapping[str, tuple[str, Sequence[Row]]]
) -> str:
    """docs/results/gpu.md.

    Args:
        conditions: device, versions.
        parts: by name, the title of each part that has ended, and its rows.
    """
    lines = ["# On a GPU", "", *(f"- {line}" for line in conditions), ""]
    lines += ["```bash", command, "```", ""]
    for title, rows in parts.values():
        lines += [f"## {title}", "", "| | | |", "|---|---|---|"]
        lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
        lines.append("")
    return "\n".join(lines)
