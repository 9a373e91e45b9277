"""The report on a run: an HTML page with learning curves, scores, sentences, alignments and data.

The parts are independent: if the input of one is missing, it says so, and the others are shown. The
page about a cleaned corpus is written here, too: how much each rule left out, with examples.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from seq2seq.base.errors import Seq2SeqError, format_count
from seq2seq.metrics.assessment import Assessment
from seq2seq.metrics.sentence_quality import SentenceQuality, extremes
from seq2seq.pages.charts import learning_curves
from seq2seq.pages.labels import to_label
from seq2seq.pages.page import read_part, write_html

SHOWN = 8  # number of best sentences, and of worst sentences
LONGEST = 1500  # longest sentence in characters
COUNTS = ("Read", "Kept", "Empty", "Too long", "Twice", "In train")
Examples = Sequence[tuple[int, tuple[str, str]]]
T = TypeVar("T")


class Tested(NamedTuple):
    """The results on a test set.

    Attributes:
        name: Name of the test set, taken from its files.
        total: Number of its sentences, of which the first were translated.
        judged: Translated sentences with their quality.
        assessment: Scores of the whole test set, and by length.
        cautions: Notes on comparing these scores with others.
    """

    name: str
    total: int
    judged: Sequence[SentenceQuality]
    assessment: Assessment
    cautions: Sequence[str]


def write_report(
    path: Path,
    *,
    title: str,
    figures: Sequence[tuple[str, str]],
    metrics: Sequence[Mapping[str, str]] | Seq2SeqError,
    tested: Tested | Seq2SeqError,
    alignments: Mapping[str, Any] | Seq2SeqError,
    ledger: str | Seq2SeqError,
) -> None:
    """Write a report as a page that any browser shows without a network.

    The last four arguments may each be an error, which explains why that part is missing.

    Args:
        title: Name of the run.
        figures: Name and value of each figure at the top.
        metrics: Rows from `read_rows`.
        tested: Results on a test set.
        alignments: Result of `alignment_data`.
        ledger: Result of `ledger_table`.

    Raises: ConfigError if the file cannot be written.
    """
    body = [
        f"<h1>{to_html(title)}</h1>",
        figure_list([*figures, *scores_in_short(tested)]),
        section("Learning curves", metrics, learning_curves),
        section("Scores", tested, scores_section),
        section("Length of the source", tested, lengths_section),
        section("Worst and best sentences", tested, sentences_section),
        section("Alignment", alignments, lambda _: read_part("alignment.html")),
        section("Data", ledger, str),
    ]
    data = {"alignments": None if isinstance(alignments, Seq2SeqError) else alignments}
    files = "theme.css", "report.css", "alignment.css", "alignment.js"
    write_html(path, escape(to_label(title, 200)), "\n".join(body), data, *files)


def to_html(raw: str) -> str:
    """A text escaped for HTML, with visible escapes for invisible characters."""
    return escape(to_label(raw, LONGEST))


def section(title: str, content: T | Seq2SeqError, draw: Callable[[T], str]) -> str:
    if isinstance(content, Seq2SeqError):
        inside = f'<p class="missing">Not available: {to_html(str(content))}</p>'
    else:
        inside = draw(content)
    return f'<section class="part"><h2>{title}</h2>\n{inside}</section>'


def figure_list(figures: Sequence[tuple[str, str]]) -> str:
    rows = (
        f"<div><dt>{to_html(name)}</dt><dd>{to_html(value)}</dd></div>" for name, value in figures
    )
    return f'<dl class="figures">{"".join(rows)}</dl>'


def scores_in_short(tested: Tested | Seq2SeqError) -> list[tuple[str, str]]:
    scores = [] if isinstance(tested, Seq2SeqError) else tested.assessment.scores
    return [(score.name, f"{score.value:.1f}") for score in scores]


def scores_section(tested: Tested) -> str:
    count, single = format_count(len(tested.judged), "sentence"), len(tested.judged) == 1
    if len(tested.judged) < tested.total:
        count = f"the first {len(tested.judged):,} of {tested.total:,} sentences"
    rows = []
    for score in tested.assessment.scores:
        drawn = score.interval
        interval = f"{drawn.mean:.1f} ± {drawn.half_width:.1f}" if drawn else "not defined" * single
        signature = f"<code>{to_html(drawn.signature if drawn else score.signature)}</code>"
        rows.append((to_html(score.name), f"{score.value:.1f}", interval, signature))
    notes = "".join(f'<p class="note">{to_html(caution)}</p>' for caution in tested.cautions)
    return (
        f'<p class="note">On {to_html(tested.name)}, {count}, by sacreBLEU. The interval '
        "is a 95% bootstrap over sentences: mean and half width over resamples. BLEU and chrF are "
        "best at 100, TER at 0.</p>"
        f"{notes}{html_table(('', 'Score', '95% interval', 'Signature'), rows, numbers=(1, 2))}"
    )


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[int]) -> str:
    """An HTML table; columns whose index is in `numbers` hold numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="number"' if n in numbers else "" for n in range(len(cells)))
        inside = (f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    lines = [line(head, "th"), *(line(row, "td") for row in rows)]
    return f'<div class="wide"><table class="plain">{"".join(lines)}</table></div>'


def lengths_section(tested: Tested) -> str:
    assessment = tested.assessment
    head = (f"{assessment.length_unit.capitalize()} of the source", "Sentences")
    rows = [(b.range, f"{b.sentences:,}", f"{b.score:.1f}") for b in assessment.lengths]
    return (
        '<p class="note">A model that breaks down on long sentences shows it here.</p>'
        f"{html_table((*head, assessment.scores[0].name), rows, numbers=(1, 2))}"
    )


def sentences_section(tested: Tested) -> str:
    worst, best = extremes(tested.judged, SHOWN)
    if not worst:
        return '<p class="missing">Not available: this needs at least two sentences</p>'
    return (
        '<p class="note">Sorted by sentence chrF; if equal, longer sentences come first.</p>'
        f'<h3>Worst</h3><ul class="sentences">{"".join(map(sentence_item, worst))}</ul>'
        f'<h3>Best</h3><ul class="sentences">{"".join(map(sentence_item, best))}</ul>'
    )


def sentence_item(judged: SentenceQuality) -> str:
    confidence = "" if judged.confidence is None else f"<br>confidence {judged.confidence:.2f}"
    texts = (
        ("source", judged.source),
        ("translation", judged.hypothesis or "(empty)"),
        ("reference", judged.reference),
    )
    mark = f"<b>{judged.quality:.0f}</b> chrF{confidence}<br>line {judged.line_no:,}"
    return list_item(mark, texts)


def list_item(mark: str, texts: Iterable[tuple[str, str]]) -> str:
    """A list item: texts with their names, beside the HTML `mark`."""
    texts = ((to_html(name), to_html(text)) for name, text in texts)
    rows = "".join(f'<dt>{name}</dt><dd dir="auto">{text}</dd>' for name, text in texts)
    return f'<li><div class="mark">{mark}</div><dl>{rows}</dl></li>'


def ledger_table(ledger: Mapping[str, Any]) -> str:
    """A table of the content of data.json, with a row per corpus; see docs/data.md."""
    rows = [row for name, part in ledger["parts"].items() for row in corpus_rows(name, part)]
    head = ("", "Files", *COUNTS, "Unknown pieces")
    table = html_table(head, rows, numbers=range(2, len(head)))
    return f'<p class="note">{tokenizer_note(ledger["tokenizer"])}</p>{table}'


def tokenizer_note(entry: Mapping[str, Any]) -> str:
    sizes = {entry["source_size"], entry["target_size"]}
    size = " and ".join(f"{n:,}" for n in sorted(sizes))
    joint = "one for both languages" if entry.get("joint") else "one for each language"
    name = escape(str(entry.get("name", "of an earlier run")))
    return f"Tokenizer {name}, {joint}: {size} pieces."


def corpus_rows(name: str, part: Mapping[str, Any]) -> Iterator[list[str]]:
    for index, corpus in enumerate(part["corpora"]):
        # These two are counted for a whole part, and shown in its first row.
        whole = [part["duplicates"], part.get("in_train")] if index == 0 else ["", ""]
        title = ".".join(filter(None, (name, corpus["name"])))
        dropped = corpus["dropped"]
        left_out = [dropped[why]["count"] for why in ("empty", "long")]
        counts = [corpus["read"], corpus["kept"], *left_out, *whole]
        rates = [corpus[side]["unknown_rate"] for side in ("source", "target")]
        unknown = " / ".join(f"{rate:.2%}" for rate in rates)
        yield [
            escape(to_label(title)),
            file_list(corpus["files"]),
            *map(format_cell, counts),
            unknown,
        ]


def format_cell(count: int | str | None) -> str:
    return f"{count:,}" if isinstance(count, int) else count or ""


def file_list(files: list[Mapping[str, Any]]) -> str:
    names = (escape(to_label(Path(file["path"]).name, 60)) for file in files)
    sums = (escape(file["sha256"][:12]) for file in files)
    return "<br>".join(f"{name} <code>{sha}</code>" for name, sha in zip(names, sums, strict=True))


def write_cleaning_page(
    path: Path, ledger: Mapping[str, Any], examples: Mapping[str, Examples]
) -> None:
    """Write the page about a cleaned corpus, which any browser shows without a network.

    Args:
        ledger: Ledger of `seq2seq clean`.
        examples: Some pairs that each rule left out, and some that were kept, as their numbers and
            texts.

    Raises: ConfigError if the file cannot be written.
    """
    title = "Cleaning of " + ", ".join(ledger["corpora"])
    figures = [("read", f"{ledger['read']:,}"), ("kept", f"{ledger['kept']:,}")]
    rules, counts = ledger["rules"], {n: each["count"] for n, each in ledger["left_out"].items()}
    rows = [
        (name, to_html(str(limit)), f"{counts.get(name, 0):,}") for name, limit in rules.items()
    ]
    body = [
        f"<h1>{to_html(title)}</h1>",
        '<p class="lead">A pair is left out for the first rule that it breaks.</p>',
        figure_list(figures),
        section("Rules", html_table(("", "Limit", "Left out"), rows, (2,)), str),
    ]
    for name, pairs in examples.items():
        named = ((n, zip(ledger["columns"], texts, strict=True)) for n, texts in pairs)
        items = "".join(list_item(f"pair {n:,}", texts) for n, texts in named)
        if items:
            body.append(section(name, f'<ul class="sentences">{items}</ul>', str))
    write_html(path, escape(title), "\n".join(body), {}, "theme.css", "report.css")
