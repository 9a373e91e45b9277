"""The figures of docs/results/alignment.md are those of its csv file."""

import csv
import re
from collections.abc import Iterator
from itertools import groupby

from helpers.pages_of_docs import ROOT

PAGE = ROOT / "docs" / "results" / "alignment.md"
FIGURE = re.compile(r"\*{0,2}(\d+(?:\.\d+)?|\d+,\d{3})\*{0,2}")
Figure = tuple[str, str, str, float]  # section, row, column, value


def figures_of_page() -> Iterator[Figure]:
    """All cells of tables that hold nothing but a number; a row is named by its other cells."""
    section = ""
    for is_table, lines in groupby(PAGE.read_text().splitlines(), lambda line: line[:1] == "|"):
        for line in lines if not is_table else ():
            section = line[3:] if line.startswith("## ") else section
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        for row in rows[2:]:
            matches = [FIGURE.fullmatch(cell) for cell in row]
            name = ", ".join(c for c, m in zip(row, matches, strict=True) if not m and c)
            for column, match in zip(rows[0], matches, strict=True):
                if match:
                    yield section, name, column, float(match[1].replace(",", ""))


def test_every_figure_of_the_page_is_in_the_csv_file() -> None:
    with PAGE.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        recorded = [
            (row["section"], row["row"], row["column"], float(row["value"]))
            for row in csv.DictReader(file)
        ]
    assert len(recorded) > 50
    assert recorded == list(figures_of_page())
