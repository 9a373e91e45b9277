"""The figures of docs/: tables equal the files beside them, and what is derived is recomputed.

Derived figures are means, deviations (of a sample), ratios and differences of printed figures.
"""

import csv
import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
BESIDE = re.compile(r"The same figures: \[[\w.]+\]\(([\w./]+\.csv)\)")
FUNCTIONS = {"mean": lambda *x: fmean(x), "deviation": lambda *x: stdev(x), "__builtins__": {}}


class Table(NamedTuple):
    """A table of a page, and the line after it."""

    page: Path
    rows: list[list[str]]  # the first one is the header
    after: str


def tables_of(page: Path) -> list[Table]:
    blocks = page.read_text(encoding="utf-8").split("\n\n")
    found = []
    for block, after in zip(blocks, [*blocks[1:], ""], strict=True):
        lines = block.strip().splitlines()
        if len(lines) > 2 and all(line.startswith("|") for line in lines):
            rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
            cells = [
                [cell.strip() for cell in row] for row in rows if set("".join(row)) - set("-: ")
            ]
            found.append(Table(page, cells, after))
    return found


TABLES = [table for page in PAGES for table in tables_of(page)]
SEEDS = [table for table in TABLES if "seed 1" in table.rows[0]]
FILES = [(table, match[1]) for table in TABLES if (match := BESIDE.match(table.after))]
with (DOCS / "results" / "derived.csv").open(encoding="utf-8", newline="") as file:
    DERIVED = [tuple(row.values()) for row in csv.DictReader(file)]


def numbers(text: str) -> list[Decimal]:
    return [Decimal(each) for each in NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3})", "", text))]


def is_rounded(printed: str, value: float) -> bool:
    """Whether a number is printed as it should be, with as many digits as it has."""
    exact = Decimal(repr(round(value, 9)))  # 3.15 is not 3.1499999999999986
    return Decimal(printed) == exact.quantize(Decimal(printed), ROUND_HALF_UP)


@pytest.mark.parametrize(("table", "name"), FILES, ids=[name for _, name in FILES])
def test_a_table_has_the_figures_of_the_file_beside_it(table: Table, name: str) -> None:
    with (table.page.parent / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [numbers(" ".join(row)) for row in rows] == [
        numbers(" ".join(row)) for row in table.rows[1:]
    ]


@pytest.mark.parametrize("table", SEEDS, ids=lambda table: table.page.name)
def test_means_over_seeds_are_those_of_the_seeds(table: Table) -> None:
    header = table.rows[0]
    seeds = [column for column, name in enumerate(header) if re.fullmatch(r"seed \d", name)]
    (mean,) = (column for column, name in enumerate(header) if name.startswith("mean"))
    checked = 0
    for row in table.rows[1:]:
        values = [float(row[column]) for column in seeds if NUMBER.fullmatch(row[column])]
        printed = [str(each) for each in numbers(row[mean])]
        if printed:
            assert is_rounded(printed[0], fmean(values)), row
            checked += 1
        if len(printed) > 1:
            assert is_rounded(printed[1], stdev(values)), row
    assert checked


@pytest.mark.parametrize(("page", "text", "formula"), DERIVED)
def test_a_figure_that_is_derived_from_others_is_what_they_give(
    page: str, text: str, formula: str
) -> None:
    content = (DOCS / page).read_text(encoding="utf-8").replace("**", "")
    before, printed, after = re.split(r"[{}]", text)
    assert before + printed + after in " ".join(content.split()), "the page has no such text"
    assert re.fullmatch(r"[\w\s.,()/*+-]+", formula)
    linked = " ".join(each.read_text("utf-8") for each in linked_pages(DOCS / page, content))
    assert set(numbers(formula)) <= set(numbers(content + linked)), "figures that nobody printed"
    assert is_rounded(printed, eval(formula, dict(FUNCTIONS)))


def bounds(printed: str) -> tuple[float, float]:
    """The smallest and the largest value that is printed in this way."""
    half = 0.5 * 10 ** float(Decimal(printed).as_tuple().exponent)
    return float(printed) - half, float(printed) + half


def test_ratios_in_brackets_are_those_of_microseconds_before_rounding() -> None:
    checked = 0
    for table in tables_of(DOCS / "lab" / "decoding.md"):
        for row in table.rows[1:] if "float32" in table.rows[0] else ():
            base = bounds(row[table.rows[0].index("float32")])
            for match in filter(None, (re.fullmatch(r"([\d.]+) \(([\d.]+)\)", c) for c in row)):
                (low, high), ratio = bounds(match[1]), bounds(match[2])
                assert base[0] / high <= ratio[1] and base[1] / low >= ratio[0], row
                checked += 1
    assert checked > 20


def linked_pages(page: Path, content: str) -> list[Path]:
    """The pages of results that a page links to, whose figures it may use."""
    paths = [page.parent / link for link in re.findall(r"\]\((results/\w+\.md)[#)]", content)]
    return [path for path in paths if path.is_file()]


def test_rounding_is_that_of_school() -> None:
    assert is_rounded("3.2", 33.9 - 30.75) and not is_rounded("3.1", 33.9 - 30.75)
    assert is_rounded("40.9", fmean([41.4, 40.8, 40.4])) and not is_rounded("40.8", 40.87)


def cells_of_strings() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The cells of the tables of strings, one for each seed, by task and row."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in ("zoo.jsonl", "zoo_seeds.jsonl"):
        for line in (DOCS / "results" / name).read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            if cell["task"] in ("copy", "reverse") and cell["row"] != "scaled_dot":
                found.setdefault((cell["task"], cell["row"]), []).append(cell)
    return found


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_the_tables_of_strings_are_means_over_three_seeds(task: str) -> None:
    (table,) = [t for t in TABLES if t.page.name == "zoo.md" and t.rows[0][0] == f"{task}: row"]
    cells = cells_of_strings()
    columns = [("exact", "within"), ("exact", "beyond"), ("symbols", "beyond")]
    for name, _, *printed in table.rows[1:]:
        seeds = cells.pop((task, name.strip("`")))
        assert [cell["seed"] for cell in seeds] == [1, 2, 3]
        for (kind, part), text in zip(columns, printed, strict=False):
            values = [cell[kind][part] for cell in seeds]
            mean, deviation = text.split(" ± ")
            assert is_rounded(mean, fmean(values)) and is_rounded(deviation, stdev(values)), name
    assert not any(each == task for each, _ in cells), "rows without a line in the table"


@pytest.mark.parametrize("task, place", [("copy", 0), ("reverse", 1)])
def test_the_spread_of_the_zoo_is_that_of_its_seeds(task: str, place: int) -> None:
    said = (DOCS / "results" / "zoo.md").read_text(encoding="utf-8")
    said = " ".join(said[said.index("**What a seed changes") :].split("\n\n")[0].split())
    for kind, part, sentence in (
        ("exact", "within", said.split(". Beyond")[0]),
        ("symbols", "beyond", said.split(". Beyond")[1]),
    ):
        spread = {
            row: stdev(cell[kind][part] for cell in seeds)
            for (each, row), seeds in cells_of_strings().items()
            if each == task
        }
        row = max(spread, key=lambda row: spread[row])
        printed = [number for number in NUMBER.findall(sentence) if "." in number]
        assert is_rounded(printed[place], fmean(spread.values()))
        assert is_rounded(printed[2 + place], spread[row]) and f"`{row}`" in sentence


def test_the_table_of_spelling_to_sound_is_that_of_its_file() -> None:
    with (DOCS / "results" / "zoo_g2p.csv").open(encoding="utf-8", newline="") as file:
        figures = list(csv.DictReader(file))
    (table,) = [t for t in TABLES if t.page.name == "zoo.md" and "SER, test" in t.rows[0]]
    for cells, row in zip(table.rows[1:], figures, strict=True):
        assert cells[0].split()[0] == row["name"]
        for cell, label in ((cells[1], "SER"), (cells[3], "exact")):
            mean, deviation = (row[f"tests_{label}_mean_{part}"] for part in ("value", "deviation"))
            assert cell == f"{float(mean):.1f} ± {float(deviation):.1f}"
        assert cells[4] == f"{int(row['parameters']):,}"
        assert cells[5] == f"{float(row['seconds_value']):.0f}"
