"""Shards on disk: their lines, the files of their translations, and the options that were used."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.base.durable import create_text, replacing, write_text
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.cli.lines import InputLines
from seq2seq.cli.models import choose_shortlist
from seq2seq.cli.options import collect_given, option_name
from seq2seq.data.corpus.cache import sha256_of
from seq2seq.data.text.lines import read_lines

if TYPE_CHECKING:
    from seq2seq.cli.translate_files import TranslateFilesOptions

SHARDS = ".shards"  # subfolder of the output
# The file in SHARDS that records the options. It is hidden, as no input is, since the shards of an
# input of the same name would be there. Earlier versions wrote the second name.
OPTION_FILES = (".options.json", "options.json")
# Options that translations do not depend on, or that are recorded in another way.
OF_A_MACHINE = {
    *("device", "with", "batch_size", "cache", "workers", "shortlist", "stats", "copy_numbers"),
    *("quiet", "shard", "shard_lines", "ray", "nearest", "merge"),
}
LINES, BYTES = 1000, 2**24  # maximum of a shard, plus one line; shards are held in memory

Lines = list[str | None]
Block = tuple["Shard", Lines]  # a shard and its lines


class Shard(NamedTuple):
    """Consecutive lines of a file; their translations are in `path`.

    Attributes:
        references: references of these lines, for choosing the nearest translations; may be empty.
    """

    file: Path
    first: int
    lines: int
    path: Path
    references: tuple[str, ...] = ()


class InputFiles:
    """The lines of all files below a folder, in shards.

    Args:
        references: folder with files of the same names, which have a reference for each line.

    Attributes:
        size: bytes of all files.
        bytes: bytes that were read so far.
    """

    def __init__(self, folder: Path, output: Path, lines: int, references: Path | None = None):
        self.folder, self.output, self.lines = folder, output, lines
        self.references = references
        self.files = sorted(files_below(folder))
        self.size = sum(file.stat().st_size for file in self.files)
        self.bytes = 0

    def shards(self, file: Path) -> Iterator[Block]:
        """The shards of a file and their lines. Raises: as in `InputLines`."""
        from seq2seq.data.text.windows import windows  # only here: tokenizers take a moment

        before, first = self.bytes, 1
        references: Iterator[str] = iter(())
        if self.references:
            references = read_lines(self.references / file.relative_to(self.folder))
        folder = self.output / SHARDS / file.relative_to(self.folder)
        with file.open("rb") as stream:
            lines = InputLines(stream, str(file), f"{file}, line")
            for block in windows(lines, self.lines, lambda line: len((line or "").encode()), BYTES):
                self.bytes = before + stream.tell()
                nearest = tuple(islice(references, len(block)))
                named = repr((block, nearest) if nearest else block).encode(errors="replace")
                digest = hashlib.blake2b(named, digest_size=8).hexdigest()
                path = folder / f"{first:010d}.{digest}.gz"
                yield Shard(file, first, len(block), path, nearest), block
                first += len(block)


def files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, except hidden ones."""
    for where, folders, names in os.walk(folder):
        folders[:] = (name for name in folders if not name.startswith("."))
        paths = (Path(where, name) for name in names if not name.startswith("."))
        yield from (path for path in paths if path.is_file())


def read_shard(shard: Shard, several: bool) -> bytes | None:
    """The translations of a shard; None if they are missing or damaged.

    Args:
        several: True if a line can have any number of translations.
    """
    try:
        packed = shard.path.read_bytes()
        text = gzip.decompress(packed)  # an empty file gives empty text
    except (OSError, EOFError, zlib.error):
        return None
    return text if packed and (several or text.count(b"\n") == shard.lines) else None


def write_shard(shard: Shard, text: str, failed: bool, told: Sequence[str]) -> None:
    """Write the translations of a shard, whole or not at all.

    Args:
        failed: True if one of its lines failed.
        told: warnings about its lines. They are written first, so that a run that is killed and
            repeated has them all in its ledger.
    """
    shard.path.parent.mkdir(parents=True, exist_ok=True)
    if failed or told:
        write_text(notes_of(shard), json.dumps({"failed": failed, "warnings": told}) + "\n")
    with replacing(shard.path) as output:
        output.write(gzip.compress(text.encode(), mtime=0))


def read_notes(shard: Shard) -> tuple[bool, list[str]]:
    """The arguments `failed` and `told` of `write_shard`; (False, []) if they were not written."""
    try:
        notes = json.loads(notes_of(shard).read_bytes())
        return bool(notes["failed"]), list(map(str, notes["warnings"]))
    except (OSError, ValueError, LookupError, TypeError):
        return False, []


def notes_of(shard: Shard) -> Path:
    return shard.path.with_name(f".{shard.path.stem}.json")


def read_options(output: Path) -> dict[str, Any]:
    """The options with which the shards of a folder were translated; empty without shards.

    Raises: DataError if the file of these options is damaged.
    """
    for path in (output / SHARDS / name for name in OPTION_FILES):
        try:
            return dict(json.loads(path.read_bytes()))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except (ValueError, TypeError) as error:
            advice = f"delete {output / SHARDS} to translate all again"
            raise DataError(f"{path} is damaged: {advice}") from error
    return {}


def record_options(options: "TranslateFilesOptions") -> None:
    """Record all options that translations depend on, unless another machine has done so.

    Raises: ConfigError if other options are recorded; DataError if the record is damaged.
    """
    from seq2seq.decoding.shortlist.file import path_of

    named = ((name[2:].replace("-", "_"), v) for name, v in collect_given(options).items())
    given = {name: value for name, value in named if name not in OF_A_MACHINE}
    if options.requirements.glossary:
        given["glossary"] = sha256_of(options.requirements.glossary)
    if shortlist := choose_shortlist(options.path, options.engine.shortlist):
        given["shortlist"] = sha256_of(path_of(shortlist))
    known = read_options(options.output_dir)
    if options.nearest:
        given["nearest"] = str(options.nearest)
    given["path"] = hash_models(options.ensemble.paths(options.path))
    given["shard_lines"] = options.shard_lines or known.get("shard_lines", LINES)
    now, folder = json.loads(json.dumps(given)), options.output_dir / SHARDS
    if not known:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another machine has just written it
            create_text(folder / OPTION_FILES[0], json.dumps(now))
    check_same_options(options.output_dir, now)


def check_same_options(output_dir: Path, now: Mapping[str, Any]) -> None:
    """Raises: ConfigError if the shards were translated with other options than these."""
    known = read_options(output_dir)
    if differing := [n for n in {**known, **now} if known.get(n) != now.get(n)]:
        named = ["the model" if name == "path" else option_name(name) for name in differing]
        raise ConfigError(
            f"{output_dir} was begun with other options ({', '.join(named)}): repeat them, or "
            "give another folder"
        )


def hash_models(paths: Sequence[Path]) -> list[str]:
    from seq2seq.checkpoint.folder import find_checkpoint  # only here: torch takes a second

    return [sha256_of(find_checkpoint(path)) for path in paths]
