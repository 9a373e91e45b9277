"""Write the comparison as one HTML page: the answer in words, scores and costs, lengths, learning
curves, maps of a sentence, memory.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template

from seq2seq.checkpoint.folder import BEST
from seq2seq.comparison import rows as tables
from seq2seq.comparison.maps import Sentence, map_figure
from seq2seq.comparison.memory import decoding_by_length, training_by_length
from seq2seq.comparison.rows import LABELS, SPREAD, Column, Row, digits_of, title_of
from seq2seq.comparison.runs import Group
from seq2seq.pages.charts import Point, Series, line_chart, series_class
from seq2seq.pages.page import read_part, write_html
from seq2seq.pages.report import html_table, to_html
from seq2seq.translation.translator import Translator

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
    target, figures = draw_maps(groups, sentence)
    texts = (("source", sentence.source), ("translation", target), ("place", sentence.place))
    pair = (f'<dt>{n}</dt><dd dir="auto">{to_html(text)}</dd>' for n, text in texts if text)
    body = Template(read_part("comparison.html")).substitute(
        lead=to_html(lead),
        verdicts="".join(f"<li>{to_html(verdict)}</li>" for verdict in tables.verdicts(rows)),
        scores=table_of(rows, tables.score_columns(rows)),
        validation=table_of(rows, tables.validation_columns(rows)),
        spread=SPREAD,
        costs=table_of(rows, tables.cost_columns(rows)),
        lengths=lengths_table(rows),
        legend=legend(group.name for group in groups),
        curves="".join(draw_curves(groups)),
        pair="".join(pair),
        maps="".join(figures),
        memory="".join(draw_memory(groups)),
        notes="".join(f'<p class="note">{to_html(note)}</p>' for note in notes),
    )
    write_html(path, "Comparison of attention", body, {}, *STYLES)


def table_of(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """A table of words in the first column and in that of roles, and of numbers in the others."""
    head = [to_html(column.title) for column in columns]
    inside = ([to_html(column.text(row)) for column in columns] for row in rows)
    return html_table(head, inside, [n for n, c in enumerate(columns) if n and c.title != "roles"])


def lengths_table(rows: Sequence[Row]) -> str:
    """The score of each mechanism on short, medium and long sources."""
    label, first = next(iter(rows[0].tests.items()))
    digits, inside = digits_of(label), []
    for row in rows:
        pairs = zip(row.tests[label].lengths.values(), first.lengths.values(), strict=True)
        form = "{0:.{2}f}" if row is rows[0] else "{0:.{2}f} ({1:+.{2}f})"
        cells = (form.format(score, score - base, digits) for score, base in pairs)
        inside.append([to_html(title_of(row)), *cells])
    head = (label, *first.lengths)
    return html_table(head, inside, range(1, len(head)))


def draw_curves(groups: Sequence[Group]) -> Iterator[str]:
    """Yield a chart of the score and of the loss, by updates and by seconds."""
    metric = groups[0].runs[0].metric
    titles = {metric: LABELS.get(metric, metric), "loss": "loss"}
    for axis, unit in (("step", "update"), ("seconds", "seconds of training")):
        for column, title in titles.items():
            curves = {group.name: mean_curve(group, axis, f"valid/{column}") for group in groups}
            # The runs of a mechanism may share no validation.
            if all(curves.values()):
                yield chart(curves, unit, f"{title}, validation")


def mean_curve(group: Group, axis: str, column: str) -> list[Point]:
    """The mean of a metric over the runs of a mechanism, at the validations that they share.

    Args:
        axis: column of the x values: `step` or `seconds`.
        column: column of the metric.
    """
    runs = [{int(row["step"]): row for row in run.validations} for run in group.runs]
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


def draw_maps(groups: Sequence[Group], sentence: Sentence) -> tuple[str, list[str]]:
    """The translation whose words are in all maps, and a figure for each mechanism."""
    paths, target = [group.runs[0].folder / BEST for group in groups], sentence.reference
    if target is None:
        (target,) = Translator.load(paths[0], "cpu").translate([sentence.source])
    named = zip(groups, paths, strict=True)
    return target, [map_figure(group.name, path, sentence, target) for group, path in named]


def draw_memory(groups: Sequence[Group]) -> Iterator[str]:
    """Yield a chart of the memory of decoding and one of that of training, by length."""
    models = {group.name: group.runs[0].saved.build().eval() for group in groups}
    for title, measure, scale in (
        ("decoding, kB held", decoding_by_length, 1e3),
        ("training, MB at the peak", training_by_length, 1e6),
    ):
        curves = {
            name: [(x, y / scale) for x, y in measure(model)] or [(0.0, 0.0)]
            for name, model in models.items()
        }
        yield chart(curves, "tokens", title)
