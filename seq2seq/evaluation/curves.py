"""Learning curves from the rows of a run's metrics.csv."""

import math
from collections.abc import Mapping, Sequence

from seq2seq.evaluation.charts import Point, Series, line_chart

PARTS = ("train", "valid")
TITLES = {"bleu": "BLEU", "chrf": "chrF"}
FALLING = ("loss", "align_loss")  # what is best where it is least


def curves(rows: Sequence[Mapping[str, str]]) -> str:
    """A chart for each metric, training and validation in one; the best validation is marked."""
    columns = [name for name in rows[0] if name.partition("/")[0] in PARTS] if rows else []
    names = sorted({name.partition("/")[2] for name in columns}, key=_rank)
    charts, until = [], max((step for step, _ in points(rows, "step")), default=0.0)
    for name in names:
        found = [(part, points(rows, f"{part}/{name}")) for part in PARTS]
        series = [_series(part, name, of) for part, of in found if of]
        if series:
            title = TITLES.get(name, name.replace("_", " "))
            charts.append(line_chart(series, x="step", y=title, until=until))
    if not charts:
        return '<p class="missing">Not here: nothing was measured yet</p>'
    return (
        '<p class="note">A dot marks the best validation.</p>'
        f'<div class="charts">{"".join(charts)}</div>'
    )


def points(rows: Sequence[Mapping[str, str]], column: str) -> list[Point]:
    """(step, value) of all finite values of a column."""
    found = []
    for row in rows:
        try:
            step, value = float(row["step"]), float(row[column])
        except (KeyError, TypeError, ValueError):  # no such column, an empty cell, half a line
            continue
        if math.isfinite(value):
            found.append((step, value))
    return found


def _series(part: str, name: str, of: list[Point]) -> Series:
    if part == "train":
        return Series(part, of)
    choose = min if name in FALLING else max
    return Series(part, of, choose(of, key=lambda point: point[1]))


def _rank(name: str) -> tuple[int, str]:
    """The loss first, the speed last."""
    return {"loss": 0, "tokens_per_second": 2}.get(name, 1), name
