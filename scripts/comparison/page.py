"""Write the comparison as one HTML page: table, learning curves, maps of a sentence, memory."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from comparison.maps import Sentence, map_figure
from comparison.memory import held_by_length, peak_by_length
from comparison.rows import Row, cells, header, spread_note
from comparison.runs import Group, validations
from seq2seq.base.errors import DataError, Seq2SeqError
from seq2seq.checkpoint.folder import BEST
from seq2seq.pages.charts import Point, Series, line_chart, series_class
from seq2seq.pages.page import build_page, write_file
from seq2seq.pages.report import html_table, section, to_html

METRICS = {"valid/bleu": "BLEU, validation", "valid/loss": "loss, validation"}
STYLES = ("theme.css", "report.css", "comparison.css")
Curves = Mapping[str, Sequence[Point]]


def write_comparison(
    path: Path,
    groups: Sequence[Group],
    rows: Sequence[Row],
    sentence: Sentence | Seq2SeqError,
    lead: str,
    notes: Sequence[str],
) -> None:
    """Write the page, which any browser can show without a network.

    Args:
        groups, rows: mechanisms and their table rows, in the same order.
        sentence: sentence whose maps are drawn, or an error that says why there is none.
        lead: text under the title, which says what was compared on which data.
        notes: conditions, and messages about runs that are missing or not comparable.

    Raises: ConfigError if the file cannot be written.
    """
    body = [
        "<h1>Comparison of attention</h1>",
        f'<p class="lead">{to_html(lead)}</p>',
        section("Table", rows, table_section),
        section("Learning curves", groups, curves_section),
        section("Maps of one sentence", sentence, lambda it: maps_section(groups, it)),
        section("Memory against length", groups, memory_section),
        section("Conditions", notes, notes_section),
    ]
    html = build_page("Comparison of attention", "\n".join(body), {}, STYLES, ())
    write_file(path, html.encode(), "page")


def table_section(rows: Sequence[Row]) -> str:
    head = header(rows)
    inside = ([to_html(cell) for cell in cells(row, rows)] for row in rows)
    note = (
        "Validation figures are for the weights that were kept. Bytes are what a hypothesis stores "
        "for each token while decoding, plus a part that does not grow."
    )
    said = " ".join(filter(None, (note, spread_note(rows))))
    return f'<p class="note">{to_html(said)}</p>{html_table(head, inside, range(2, len(head)))}'


def curves_section(groups: Sequence[Group]) -> str:
    charts = []
    for axis, unit in (("step", "update"), ("seconds", "seconds of training")):
        for column, title in METRICS.items():
            curves = {group.name: mean_curve(group, axis, column) for group in groups}
            # Earlier versions did not record seconds.
            if all(curves.values()):
                charts.append(chart(curves, unit, title))
    note = (
        "One point for each validation; with several seeds, their mean. Seconds are wall-clock "
        "time and include validation: they are comparable only if the machine did nothing else."
    )
    names = [group.name for group in groups]
    inside = "".join(charts)
    return f'<p class="note">{note}</p>{legend(names)}<div class="charts">{inside}</div>'


def mean_curve(group: Group, axis: str, column: str) -> list[Point]:
    """The mean of a metric over the runs of a mechanism, at the validations that they share.

    Args:
        axis: column of the x values: `step` or `seconds`.
        column: column of the metric.
    """
    runs = [
        {int(row["step"]): row for row in validations(run.folder) if row.get(axis)}
        for run in group.runs
    ]
    shared = sorted(set.intersection(*(set(rows) for rows in runs)))
    # Updates count from 1, steps from 0.
    first = 1 if axis == "step" else 0
    return [
        (
            statistics.fmean(float(rows[step][axis]) + first for rows in runs),
            statistics.fmean(float(rows[step][column]) for rows in runs),
        )
        for step in shared
    ]


def chart(curves: Curves, x: str, y: str) -> str:
    """A chart with one line for each mechanism, in the order of the legend."""
    series = [Series(name, points) for name, points in curves.items()]
    return line_chart(series, x=x, y=y, until=max(p[0] for s in series for p in s.points))


def legend(names: Iterable[str]) -> str:
    items = (
        f'<li class="{series_class(n)}"><svg viewBox="0 0 32 10" aria-hidden="true">'
        f'<line class="{series_class(n)}" x1="0" y1="5" x2="32" y2="5"/></svg>{to_html(name)}</li>'
        for n, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def maps_section(groups: Sequence[Group], sentence: Sentence) -> str:
    texts = [("source", sentence.source)]
    texts += [("reference", sentence.reference)] if sentence.reference is not None else []
    pair = "".join(f'<dt>{n}</dt><dd dir="auto">{to_html(text)}</dd>' for n, text in texts)
    place = f" The sentence is {escape(sentence.place)}." if sentence.place else ""
    figures = [map_figure(g.name, g.runs[0].folder / BEST, sentence) for g in groups]
    return (
        '<p class="note">Where each model looked in the source, along the top, when it wrote each '
        "word of its own translation, down the side. Unless a layer was chosen by links "
        f"(<code>seq2seq align --choose</code>), it is the one with the sharpest map.{place}</p>"
        f'<dl class="pair">{pair}</dl><div class="looks">{"".join(figures)}</div>'
    )


def memory_section(groups: Sequence[Group]) -> str:
    models = {group.name: group.runs[0].saved.build().eval() for group in groups}
    held = {name: held_by_length(model) for name, model in models.items()}
    peak = {name: peak_by_length(model) for name, model in models.items()}
    parts = [
        '<p class="note">Measured on sentences of one length on both sides: what one hypothesis '
        "and its source hold in all layers while decoding; and what tensors take at the peak of "
        "one forward and backward pass over one pair, gradients included, weights not. A line ends "
        "where a model takes no longer sentence; it falls where another kernel takes over.</p>",
        legend(models),
    ]
    charts, tables = [], []
    for title, curves, scale in (
        ("decoding, kB held", held, 1e3),
        ("training, MB at the peak", peak, 1e6),
    ):
        scaled = {n: [(x, y / scale) for x, y in points] for n, points in curves.items()}
        charts.append(
            chart({n: points or [(0, 0)] for n, points in scaled.items()}, "tokens", title)
        )
        tables.append(f"<h3>{title[0].upper()}{title[1:]}</h3>{memory_table(scaled)}")
    return "".join([*parts, f'<div class="charts">{"".join(charts)}</div>', *tables])


def memory_table(curves: Curves) -> str:
    lengths = sorted({x for points in curves.values() for x, _ in points})
    rows = []
    for name, points in curves.items():
        known = dict(points)
        figures = [f"{known[x]:,.4g}" if x in known else "-" for x in lengths]
        rows.append([to_html(name), *figures])
    head = ("tokens", *(f"{x:,.0f}" for x in lengths))
    return html_table(head, rows, range(1, len(head)))


def notes_section(notes: Sequence[str]) -> str:
    return "".join(f'<p class="note">{to_html(note)}</p>' for note in notes)


def find_sentence(typed: str, pairs: Sequence[tuple[str, str]], place: str) -> Sentence:
    """The sentence with this line number (from 1), or the typed text itself.

    Raises: DataError if there is no such line, or if the line or the text is blank.
    """
    if not typed.isdecimal():
        if not typed.strip():
            raise DataError("--sentence is empty: give the number of a line, or a text")
        return Sentence(typed, None, "")
    number = int(typed)
    if not 1 <= number <= len(pairs):
        raise DataError(f"--sentence {number} is not a line of {place}: give 1 to {len(pairs):,}")
    source, reference = pairs[number - 1]
    if not source.strip():
        raise DataError(f"--sentence {number}: that line of {place} is empty. Choose another")
    return Sentence(source, reference, f"line {number:,} of {place}")
