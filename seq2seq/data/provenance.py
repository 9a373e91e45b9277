"""The provenance of text: ledgers that commands write beside the corpora that they make."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq import __version__
from seq2seq.data.file_memo import file_entry
from seq2seq.durable import write_text

FOLDERS = 3  # above a file, whose ledgers may name it


def describe_provenance(
    command: str, inputs: Sequence[Path], outputs: Sequence[Path], **details: Any
) -> dict[str, Any]:
    """A ledger: the hashes of what a command read and wrote, and `details`.

    Raises: DataError for a file that cannot be read.
    """
    entry = {"version": __version__, "command": command, **details}
    return entry | {
        "inputs": list(map(file_entry, inputs)),
        "outputs": list(map(file_entry, outputs)),
    }


def write_provenance(path: Path, entry: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(entry, indent=1, ensure_ascii=False) + "\n")


def find_provenance(file: Path, sha256: str) -> dict[str, Any] | None:
    """The ledger that names a file as written, if there is one: its path, command and models."""
    for path in possible_ledgers(file):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            if any(output["sha256"] == sha256 for output in entry["outputs"]):
                provenance = {"ledger": str(path), "command": entry["command"]}
                return provenance | {key: entry[key] for key in ("models",) if key in entry}
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


def possible_ledgers(file: Path) -> Iterator[Path]:
    """`my/clean.json` for my/clean.de, `my/out.json` for my/out/a/b.de."""
    stem = file
    while stem.suffix:
        stem = stem.with_suffix("")
        yield Path(f"{stem}.json")
    yield from (Path(f"{folder}.json") for folder in file.resolve().parents[:FOLDERS])
