"""The provenance of text: ledgers that commands write beside the corpora they make."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from seq2seq import __version__
from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError
from seq2seq.data.corpus.cache import file_entry

FOLDERS = 3  # number of parent folders to search for ledgers that name a file


def describe_provenance(
    command: str, inputs: Sequence[Path], outputs: Sequence[Path], **details: Any
) -> dict[str, Any]:
    """A ledger: the hashes of the files that a command read and wrote, and `details`.

    Raises: DataError for a file that cannot be read.
    """
    entry = {"version": __version__, "command": command, **details}
    return entry | {
        "inputs": list(map(file_entry, inputs)),
        "outputs": list(map(file_entry, outputs)),
    }


def check_ledger(path: Path, command: str) -> None:
    """Check that a command's ledger replaces no other file. Raises: ConfigError if it would."""
    if not path.exists() or (entry := parse_ledger(path)).get("command") == command:
        return
    what = f"the ledger of seq2seq {entry['command']}" if "outputs" in entry else "no ledger"
    raise ConfigError(
        f"{path}, which is {what}, would be replaced by the ledger of seq2seq {command}: write to "
        "another name"
    )


def parse_ledger(path: Path) -> dict[str, Any]:
    """Read a ledger; empty if the file is not a ledger."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) and {"command", "outputs"} <= entry.keys() else {}


def write_provenance(path: Path, entry: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        text = json.dumps(entry, indent=1, ensure_ascii=False) + "\n"
        file.write(text.encode(errors="backslashreplace"))  # file names may not be UTF-8


def find_provenance(file: Path, sha256: str) -> dict[str, Any] | None:
    """Path, command and models of the ledger that lists a file as output; None without one."""
    for path in possible_ledgers(file):
        entry = parse_ledger(path)
        with suppress(LookupError, TypeError):  # a ledger in another format
            if any(output["sha256"] == sha256 for output in entry.get("outputs", ())):
                provenance = {"ledger": str(path), "command": entry["command"]}
                return provenance | {key: entry[key] for key in ("models",) if key in entry}
    return None


def possible_ledgers(file: Path) -> Iterator[Path]:
    """Possible paths: `my/clean.json` for my/clean.de, `my/out.json` for my/out/a/b.de."""
    stem = file
    while stem.suffix:
        stem = stem.with_suffix("")
        yield Path(f"{stem}.json")
    yield from (Path(f"{folder}.json") for folder in file.resolve().parents[:FOLDERS])
