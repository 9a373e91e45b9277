"""Write the comparison as one HTML page: the answer in words, scores and costs, lengths, learning
curves, maps of a sentence, memory.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from seq2seq.checkpoint.folder import BEST
from seq2seq.comparison import rows as tables
from seq2seq.comparison.maps import Sentence, map_figure
from seq2seq.comparison.memory import decoding_by_length, training_by_length
from seq2seq.comparison.rows import LABELS, SPREAD, Column, Row, digits_of, title_of
from seq2seq.comparison.runs import Group
from seq2seq.pages.charts import Point, Series, line_chart, series_class
from seq2seq.pages.page import build_page, write_file
from seq2seq.pages.report import html_table, section, to_html
from seq2seq.translation.translator import Translator

METHOD = (
    "Differences are those of the mean over seeds. Intervals and p-values count the chance in the "
    "choice of test sentences and in the seeds; p-values are corrected for the number of rows "
    "(Holm), intervals are not. A difference is shown if p is below 0.05."
)
STYLES = ("theme.css", "report.css", "comparison.css")
Curves = Mapping[str, Sequence[Point]]


def write_comparison(
    path: Path,
    groups: Sequence[Group],
    rows: Sequence[Row],
    sentence: Sentence,
    lead: str,
    notes: Sequence[str],
) -> None:
    """Write the page, which any browser can show without a network.

    Args:
        groups, rows: mechanisms and their table rows, in the same order.
        sentence: sentence whose maps are drawn.
        lead: text under the title, which says what was compared on which data.
        notes: conditions, and messages about runs that are missing or not comparable.

    Raises: ConfigError if the file cannot be written.
    """
    answer = (f"<li>{to_html(sentence)}</li>" for sentence in tables.verdicts(rows))
    body = [
        "<h1>Comparison of attention</h1>",
        f'<p class="lead">{to_html(lead)}</p>',
        f'<ul class="verdicts">{"".join(answer)}</ul>',
        section("Scores: which, by how much, how sure", rows, scores_table),
        section("Costs", rows, costs_table),
        section("Where: by length of the source", rows, lengths_table),
        section("Learning curves", groups, curves_section),
        section("Maps of one sentence", sentence, lambda it: maps_section(groups, it)),
        section("Memory against length", groups, memory_section),
        section("Conditions", notes, notes_section),
    ]
    html = build_page("Comparison of attention", "\n".join(body), {}, STYLES, ())
    write_file(path, html.encode(), "page")


def scores_table(rows: Sequence[Row]) -> str:
    note = (
        "Test scores are of the weights with the best validation. Validation scores are of the "
        "same weights, and of the best weights within the time in which the first row was trained."
    )
    said = to_html(" ".join((METHOD, note, SPREAD)))
    return f'<p class="note">{said}</p>{table_of(rows, tables.score_columns(rows), 2)}'


def costs_table(rows: Sequence[Row]) -> str:
    note = (
        "Seconds are those of training, validation included. Bytes are what a hypothesis stores "
        "for each token while decoding, plus a part that does not grow."
    )
    return f'<p class="note">{note}</p>{table_of(rows, tables.cost_columns(rows), 1)}'


def table_of(rows: Sequence[Row], columns: Sequence[Column], words: int) -> str:
    """A table whose first columns, as many as `words`, hold words, the others numbers."""
    head = [to_html(column.title) for column in columns]
    inside = ([to_html(column.text(row)) for column in columns] for row in rows)
    return html_table(head, inside, range(words, len(head)))


def lengths_table(rows: Sequence[Row]) -> str:
    """The score of each mechanism on short, medium and long sources."""
    label, first = next(iter(rows[0].tests.items()))
    digits = digits_of(label)
    inside = []
    for row in rows:
        scores = row.tests[label].lengths
        apart = (
            f"{s:.{digits}f} ({s - first.lengths[part]:+.{digits}f})" for part, s in scores.items()
        )
        inside.append([to_html(title_of(row)), *apart])
    note = (
        f"{label} on parts of the test set with equally many sentences, the mean over seeds; after "
        "it the difference to the first row."
    )
    head = ("attn", *first.lengths)
    table = html_table(head, inside, range(1, len(head)))
    return f'<p class="note">{note}</p>{table}'


def curves_section(groups: Sequence[Group]) -> str:
    charts, metric = [], groups[0].runs[0].metric
    titles = {metric: LABELS.get(metric, metric), "loss": "loss"}
    for axis, unit in (("step", "update"), ("seconds", "seconds of training")):
        for column, title in titles.items():
            curves = {group.name: mean_curve(group, axis, f"valid/{column}") for group in groups}
            # Earlier versions did not record seconds.
            if all(curves.values()):
                charts.append(chart(curves, unit, f"{title}, validation"))
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
        {int(row["step"]): row for row in run.validations if row.get(axis)} for run in group.runs
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
    paths, kind, target = [g.runs[0].folder / BEST for g in groups], "reference", sentence.reference
    if target is None:
        kind = f"translation by {groups[0].name}"
        (target,) = Translator.load(paths[0], "cpu").translate([sentence.source])
    named = zip(groups, paths, strict=True)
    figures = [map_figure(g.name, path, sentence, target) for g, path in named]
    texts = (("source", sentence.source), (kind, target))
    pair = "".join(f'<dt>{n}</dt><dd dir="auto">{to_html(text)}</dd>' for n, text in texts)
    place = f" The sentence is {escape(sentence.place)}." if sentence.place else ""
    return (
        '<p class="note">Where each model looked in the source, along the top, when it read each '
        f"word of the same {to_html(kind)}, down the side; above the map, its own translation. "
        "Unless a layer was chosen by links (<code>seq2seq align --choose</code>), it is the one "
        f"with the sharpest map.{place}</p>"
        f'<dl class="pair">{pair}</dl><div class="looks">{"".join(figures)}</div>'
    )


def memory_section(groups: Sequence[Group]) -> str:
    models = {group.name: group.runs[0].saved.build().eval() for group in groups}
    held = {name: decoding_by_length(model) for name, model in models.items()}
    peak = {name: training_by_length(model) for name, model in models.items()}
    charts = []
    for title, curves, scale in (
        ("decoding, kB held", held, 1e3),
        ("training, MB at the peak", peak, 1e6),
    ):
        scaled = {n: [(x, y / scale) for x, y in points] for n, points in curves.items()}
        charts.append(
            chart({n: points or [(0, 0)] for n, points in scaled.items()}, "tokens", title)
        )
    return (
        '<p class="note">Measured on sentences of one length on both sides: what one hypothesis '
        "and its source hold in all layers while decoding; and what tensors take at the peak of "
        "one forward and backward pass over one pair, gradients included, weights not. A line ends "
        "where a model takes no longer sentence; it falls where another kernel takes over.</p>"
        f'{legend(models)}<div class="charts">{"".join(charts)}</div>'
    )


def notes_section(notes: Sequence[str]) -> str:
    return "".join(f'<p class="note">{to_html(note)}</p>' for note in notes)
