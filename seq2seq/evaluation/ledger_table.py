"""The ledger of a run's data as a table."""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from seq2seq.evaluation.labels import visible

NUMBERS = ("Read", "Kept", "Empty", "Too long", "Twice", "In train", "Unknown pieces")


def ledger_table(ledger: Mapping[str, Any]) -> str:
    """What data.json holds, a row for each corpus. See docs/data.md."""
    rows = "".join(row for name, part in ledger["parts"].items() for row in _rows(name, part))
    numbers = "".join(f'<th class="number">{column}</th>' for column in NUMBERS)
    head = f"<tr><th></th><th>Files</th>{numbers}</tr>"
    return (
        f'<p class="note">{_tokenizer(ledger["tokenizer"])}</p>'
        f'<div class="wide"><table class="plain">{head}{rows}</table></div>'
    )


def _tokenizer(found: Mapping[str, Any]) -> str:
    sizes = {found["source_size"], found["target_size"]}
    size = " and ".join(f"{n:,}" for n in sorted(sizes))
    joint = "one for both languages" if found.get("joint") else "one for each language"
    return (
        f"Tokenizer {escape(str(found.get('name', 'of an earlier run')))}, {joint}: {size} pieces."
    )


def _rows(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    for number, corpus in enumerate(part["corpora"]):
        # Both are counted over a whole part, and so are said once.
        whole = [part["duplicates"], part.get("in_train")] if number == 0 else ["", ""]
        title = ".".join(filter(None, (name, corpus["name"])))
        dropped = corpus["dropped"]
        counts = [
            corpus["read"],
            corpus["kept"],
            dropped["empty"]["count"],
            dropped["long"]["count"],
            *whole,
        ]
        cells = "".join(f'<td class="number">{_number(count)}</td>' for count in counts)
        rates = [corpus[side]["unknown_rate"] for side in ("source", "target")]
        unknown = " / ".join(f"{rate:.2%}" for rate in rates)
        yield (
            f"<tr><td>{escape(visible(title))}</td><td>{_files(corpus['files'])}</td>{cells}"
            f'<td class="number">{unknown}</td></tr>'
        )


def _number(count: int | str | None) -> str:
    return f"{count:,}" if isinstance(count, int) else count or ""


def _files(files: list[Mapping[str, Any]]) -> str:
    return "<br>".join(
        f"{escape(visible(Path(file['path']).name, 60))} <code>{escape(file['sha256'][:12])}</code>"
        for file in files
    )
