"""The table of the study as Markdown, between two marks of a page; the rest is written by hand."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

from seq2seq.base.errors import Seq2SeqError
from study.cells import PLAIN, TASKS, Row, rows_of
from study.running import Line

BEGIN, END = "<!-- table: python scripts/zoo_study.py --table -->", "<!-- end of the table -->"
LENGTHS = ("copy", "reverse")
SCAN = ("scan_length_26", "scan_length", "scan_jump")
Key = tuple[str, str]  # task, row


def read_cells(path: Path) -> list[Line]:
    """The lines of a file of cells; none if it does not exist. Raises: Seq2SeqError for a line that
    is none, as a kill may leave the last.
    """
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise Seq2SeqError(f"{path} has a damaged line: {error}. Delete that line") from error


def insert_table(page: str, content: str) -> str:
    """The page with this content between its two marks.

    Raises: SystemExit unless the page has one of each.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise SystemExit(f"the page needs these two lines where the table goes:\n{BEGIN}\n{END}")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{rest.partition(END)[2]}"


def render_tables(cells: Sequence[Line]) -> str:
    """The tables of strings and of SCAN; a row for what is measured, with means over seeds."""
    parts = [*(strings_table(cells, task) for task in LENGTHS), scan_table(cells)]
    return "\n\n".join([*(part for part in parts if part), conditions(cells)])


def strings_table(cells: Sequence[Line], task: str) -> str:
    """Exact matches in each bucket of lengths, symbols right beyond the trained length, cost."""
    found = group(cells)
    buckets = TASKS[task].buckets
    header = [f"{task}: row", "used in", *(span(each) for each in buckets)]
    header += ["symbols", "parameters", "CPU s"]
    lines = []
    for row in rows_of(task):
        if seeds := found.get((task, row.name)):
            values = [fmean(bucket_score(seed, each) for seed in seeds) for each in buckets]
            symbols = fmean(seed["symbols"]["beyond"] for seed in seeds)
            line = [label(row, seeds), place(seeds[0]), *map(percent, [*values, symbols])]
            lines.append(line + cost(seeds))
    return markdown(header, lines)


def scan_table(cells: Sequence[Line]) -> str:
    """Exact matches on validation and on the test of each split, and the mean cost."""
    found = group(cells)
    header = ["SCAN: row", *(f"{name}, {part}" for name in SCAN for part in ("valid", "test"))]
    header += ["parameters", "CPU s"]
    lines = []
    for row in rows_of(SCAN[0]):
        tasks = [found.get((task, row.name), []) for task in SCAN]
        if any(tasks):
            values = [
                percent(fmean(seed["exact"][part] for seed in seeds)) if seeds else "-"
                for seeds in tasks
                for part in ("within", "beyond")
            ]
            seeds = [*chain(*tasks)]
            lines.append([label(row, next(filter(None, tasks))), *values, *cost(seeds)])
    return markdown(header, lines)


def group(cells: Iterable[Line]) -> dict[Key, list[Line]]:
    """The seeds of each cell."""
    groups: dict[Key, list[Line]] = {}
    for cell in cells:
        groups.setdefault((cell["task"], cell["row"]), []).append(cell)
    return groups


def bucket_score(cell: Line, bucket: range) -> float:
    """Exact matches in percent, of all pairs whose length is in the bucket."""
    inside = [each for each in cell["by_length"] if each["length"] in bucket]
    pairs = sum(each["pairs"] for each in inside)
    return sum(each["exact"] * each["pairs"] for each in inside) / pairs if pairs else 0.0


def label(row: Row, seeds: Sequence[Line]) -> str:
    return f"`{row.name}`" + (f", {len(seeds)} seeds" if len(seeds) > 1 else "")


def place(cell: Line) -> str:
    """`cross` for `encoder mha, decoder mha, cross fixed`: where it is not what `mha` is."""
    roles = [role.split(" ", 1) for role in cell["attention"].split(", ")]
    if len(roles) == 1 or cell["row"].partition("+")[0] == PLAIN:
        return "all"
    return ", ".join(role for role, mechanism in roles if mechanism != PLAIN) or "all"


def cost(seeds: Sequence[Line]) -> list[str]:
    known = [seed["cpu_seconds"] for seed in seeds if seed["cpu_seconds"] is not None]
    return [
        f"{seeds[0]['parameters']:,}",
        f"{fmean(known):.0f}" if known else "-",
    ]


def conditions(cells: Sequence[Line]) -> str:
    """The machines and updates, as the cells say."""
    if not cells:
        return "No cell has been run yet."
    machines = sorted({f"{cell['processor']}, torch {cell['torch']}" for cell in cells})
    updates = {(cell["task"], cell["updates"]) for cell in cells}
    told = ", ".join(f"{task} {count:,}" for task, count in sorted(updates))
    return f"{len(cells)} cells; updates: {told}; one thread of {'; '.join(machines)}."


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Empty for no lines."""
    if not lines:
        return ""
    words = 1 + ("used in" in header)
    rule = ["---"] * words + ["---:"] * (len(header) - words)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *lines))


def percent(value: float) -> str:
    return f"{value:.1f}"


def span(bucket: range) -> str:
    return f"{bucket.start}-{bucket.stop - 1}"
