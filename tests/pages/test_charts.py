"""Charts as SVG, and learning curves drawn with them."""

import re
from itertools import pairwise, zip_longest
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.pages.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    NAMES,
    RIGHT,
    TOP,
    WIDTH,
    Series,
    column_points,
    learning_curves,
    line_chart,
    read_rows,
)

VALUES = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=9)


def places(svg: str) -> list[tuple[float, float]]:
    """The points of the line in a chart."""
    (line,) = ElementTree.fromstring(svg).iter("polyline")
    pairs = [place.split(",") for place in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


@given(VALUES)
def test_a_line_stays_in_its_frame_and_keeps_its_order(values: list[float]) -> None:
    line = list(enumerate(values))
    drawn = places(line_chart([Series("a", line)], x="step", y="y", until=len(values)))
    assert all(
        LEFT <= x <= WIDTH - RIGHT and TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1 for x, y in drawn
    )
    for (_, one), (_, other), a, b in zip(drawn, drawn[1:], values, values[1:], strict=False):
        assert one >= other - 0.1 if a <= b else one <= other + 0.1  # down is less


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=3))
def test_names_of_lines_hide_neither_each_other_nor_the_ticks_below(ends: list[float]) -> None:
    lines = [Series(f"line {n}", [(0, 1), (9, end)]) for n, end in enumerate(ends)]
    svg = ElementTree.fromstring(line_chart(lines, x="step", y="y", until=9))
    texts = [text for text in svg.iter("text") if (text.text or "").startswith("line ")]
    heights = sorted(float(text.attrib["y"]) for text in texts)
    assert len(heights) == len(ends) and heights[-1] <= HEIGHT - BOTTOM + 5
    assert all(b - a > 13 for a, b in pairwise(heights))


def test_what_is_written_in_a_chart_is_no_markup() -> None:
    evil = "<script>&\"'"
    chart = line_chart([Series(evil, [(0, 1)]), Series("b", [(0, 1)])], x=evil, y=evil, until=1)
    assert "<script" not in chart
    assert evil in [t.text for t in ElementTree.fromstring(chart).iter("text")]


ROWS = [
    {"step": "9", "train/loss": "3.0", "valid/loss": "", "valid/bleu": ""},
    {
        "step": "9",
        "train/loss": "",
        "valid/loss": "2.5",
        "valid/bleu": "10",
        "valid/align_loss": "0.9",
    },
    {
        "step": "19",
        "train/loss": "nan",
        "valid/loss": "2.0",
        "valid/bleu": "30",
        "valid/align_loss": "0.5",
    },
    {"step": "29", "train/loss": "1.0", "valid/loss": "2.2", "valid/bleu": "20"},
    {"step": "3"},  # half a line, as of a run that was cut off
]


def test_the_best_validation_is_marked_lowest_loss_and_highest_bleu() -> None:
    drawn = learning_curves(ROWS)
    charts = [
        ElementTree.fromstring(f"<svg{c}")
        for c in drawn.split("<svg")[1:]
        for c in [c.removesuffix("</div>")]
    ]
    titles = {c.attrib["aria-label"]: [t.text for t in c.iter("title")] for c in charts}
    assert titles == {
        "loss by update": ["valid 2, update 20"],
        "align loss by update": ["valid 0.5, update 20"],
        "BLEU by update": ["valid 30, update 20"],
    }


@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("ser", "1"),
        ("truncated", "1"),
        ("exact", "3"),
        ("command", None),
        ("command_seconds", None),
    ],
)
def test_only_a_metric_whose_direction_is_known_has_a_best_value(
    name: str, marked: str | None
) -> None:
    values = [{"step": "9", f"valid/{name}": "3"}, {"step": "19", f"valid/{name}": "1"}]
    found = re.findall(r"<title>valid (\d), ", learning_curves(values))
    assert found == ([marked] if marked else [])


def test_values_that_are_not_finite_are_left_out_of_a_curve() -> None:
    assert column_points(ROWS, "train/loss") == [(10, 3.0), (30, 1.0)]
    assert column_points(ROWS, "train/none") == []


@pytest.mark.parametrize("rows", [[], [{"step": "1", "epoch": "0"}], [{"train/loss": "nan"}]])
def test_without_values_there_are_no_curves(rows: list[dict[str, str]]) -> None:
    assert "nothing was measured yet" in learning_curves(rows)


def write_metrics(path: Path, steps: list[int]) -> None:
    path.write_text("step,train/loss\n" + "".join(f"{n},{n}.5\n" for n in steps))


def test_a_resumed_run_has_the_rows_of_what_it_goes_on_from(tmp_path: Path) -> None:
    write_metrics(tmp_path / "metrics-1.csv", [9, 19, 29])  # saved after 20 updates, then killed
    write_metrics(tmp_path / "metrics-2.csv", [29, 39])
    write_metrics(tmp_path / "metrics.csv", [49])
    curve = column_points(read_rows(tmp_path), "train/loss")
    assert curve == [(10, 9.5), (20, 19.5), (30, 29.5), (40, 39.5), (50, 49.5)]


def test_a_run_that_started_again_has_nothing_of_the_one_before_it(tmp_path: Path) -> None:
    write_metrics(tmp_path / "metrics-1.csv", [9, 19])
    write_metrics(tmp_path / "metrics.csv", [9])
    assert column_points(read_rows(tmp_path), "train/loss") == [(10, 9.5)]
    write_metrics(tmp_path / "metrics.csv", [])
    assert read_rows(tmp_path) == []


def test_a_line_with_too_many_cells_is_no_curve(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,train/loss\n9,1.5,7,8\n19,2.5\n")
    rows = read_rows(tmp_path)
    assert column_points(rows, "train/loss") == [(10, 1.5), (20, 2.5)]
    assert learning_curves(rows).count("<svg") == 1


@given(st.integers(1, 30))
def test_many_lines_differ_and_are_named_where_there_is_room(count: int) -> None:
    lines = [Series(f"mechanism {n}", [(0, n), (9, n)]) for n in range(count)]
    svg = ElementTree.fromstring(line_chart(lines, x="step", y="y", until=9))
    drawn = list(svg.iter("polyline"))
    assert len({line.attrib["class"] for line in drawn}) == count
    labels = [text for text in svg.iter("text") if "name" in text.attrib["class"]]
    assert len(labels) == (count if 1 < count <= NAMES else 0)
    if count > 1:  # in full in a tooltip, where the label is shorter
        shown = [line.findtext("title") or label.text for line, label in zip_longest(drawn, labels)]
        assert shown == [line.name for line in lines]
