"""Learning curves from the rows of a run's metrics.csv."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.evaluation.charts import Point, Series, line_chart

PARTS = ("train", "valid")
TITLES = {"bleu": "BLEU", "chrf": "chrF"}
FALLING = ("loss", "align_loss")  # what is best where it is least


def curves(rows: Sequence[Mapping[str, str]]) -> str:
    """A chart for each metric, training and validation in one; the best validation is marked."""
    columns = (name.partition("/") for name in {name for row in rows for name in row})
    names = sorted({name for part, _, name in columns if part in PARTS}, key=_rank)
    charts, until = [], max((update for update, _ in points(rows, "step")), default=0.0)
    for name in names:
        found = [(part, points(rows, f"{part}/{name}")) for part in PARTS]
        series = [_series(part, name, of) for part, of in found if of]
        if series:
            title = TITLES.get(name, name.replace("_", " "))
            charts.append(line_chart(series, x="update", y=title, until=until))
    if not charts:
        return '<p class="missing">Not here: nothing was measured yet</p>'
    return (
        '<p class="note">A dot marks the best validation.</p>'
        f'<div class="charts">{"".join(charts)}</div>'
    )


def read_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv, behind those of the runs that it resumed.

    Those were given a number when it began: metrics-1.csv is the oldest. A run that began anew in
    the same folder starts no later than the one before it, of which nothing is read then.

    Raises: OSError, UnicodeDecodeError or csv.Error if metrics.csv cannot be read.
    """
    rows = _read(folder / "metrics.csv")
    number = len(list(folder.glob("metrics-*.csv")))
    while number and (earlier := folder / f"metrics-{number}.csv").is_file():
        before, begin = _read(earlier), _first(rows)
        if not _first(before) < begin < math.inf:
            break
        rows = [row for row in before if _first([row]) < begin] + rows
        number -= 1
    return rows


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        # Cells that no column is for stand in a damaged file only; they get a name, as all do.
        return list(csv.DictReader(file, restkey="more"))


def _first(rows: Sequence[Mapping[str, str]]) -> float:
    """The update of the first of some rows; infinite if there is none."""
    return next((update for update, _ in points(rows, "step")), math.inf)


def points(rows: Sequence[Mapping[str, str]], column: str) -> list[Point]:
    """(update, value) of all finite values of a column; updates count from 1, steps from 0."""
    found = []
    for row in rows:
        try:
            step, value = float(row["step"]), float(row[column])
        except (KeyError, TypeError, ValueError):  # no such column, an empty cell, half a line
            continue
        if math.isfinite(value):
            found.append((step + 1, value))
    return found


def _series(part: str, name: str, of: list[Point]) -> Series:
    if part == "train":
        return Series(part, of)
    choose = min if name in FALLING else max
    return Series(part, of, choose(of, key=lambda point: point[1]))


def _rank(name: str) -> tuple[int, str]:
    """The loss first, the speed last."""
    return {"loss": 0, "tokens_per_second": 2}.get(name, 1), name
