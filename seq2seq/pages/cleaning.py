"""A page about a cleaned corpus: how much each rule left out, and examples."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from seq2seq.pages.page import build_page, write_file
from seq2seq.pages.report import figure_list, html_table, to_html

Examples = Sequence[tuple[int, tuple[str, str]]]


def write_cleaning_page(
    path: Path, ledger: Mapping[str, Any], examples: Mapping[str, Examples]
) -> None:
    """Write a page for any browser, without a network.

    Args:
        ledger: of `seq2seq clean`.
        examples: by rule, and of what was kept: the numbers of some pairs, and their texts.

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
        f'<section class="part"><h2>Rules</h2>{html_table(("", "Limit", "Left out"), rows, (2,))}',
        "</section>",
    ]
    for name, pairs in examples.items():
        if pairs:
            items = "".join(pair_item(number, texts, ledger["columns"]) for number, texts in pairs)
            body.append(f'<section class="part"><h2>{name}</h2><ul class="sentences">{items}</ul>')
            body.append("</section>")
    html = build_page(escape(title), "\n".join(body), {}, ("theme.css", "report.css"), ())
    write_file(path, html.encode(), "page")


def pair_item(number: int, texts: Sequence[str], columns: Sequence[str]) -> str:
    rows = "".join(
        f'<dt>{to_html(column)}</dt><dd dir="auto">{to_html(text)}</dd>'
        for column, text in zip(columns, texts, strict=True)
    )
    return f'<li><div class="mark">pair {number:,}</div><dl>{rows}</dl></li>'
