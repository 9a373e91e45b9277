"""`translate --files`: the lines of many files, cut into shards that are translated anywhere, once.

A shard is its file and the number of its first line. It is written whole or not at all, compressed
with a checksum, so a command that was killed is typed again and does what is missing. Its name also
holds a hash of its lines: where a file has changed, its shards are missing.
"""

import gzip
import os
import re
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError, DataError, format_count
from seq2seq.base.text_stream import check_text
from seq2seq.cli import status
from seq2seq.cli.files import InputPath, check_apart, check_written, inputs_of
from seq2seq.cli.lines import format_of
from seq2seq.cli.options import Option, add_options, list_given, model_paths, positive
from seq2seq.cli.requirements import put_best_first, request_of
from seq2seq.cli.shards import (
    LINES,
    SHARDS,
    InputFiles,
    Lines,
    Shard,
    check_same_options,
    files_below,
    hash_models,
    read_options,
    read_shard,
    record_options,
    shard_lines,
)
from seq2seq.data.text.lines import check_parallel
from seq2seq.data.text.provenance import check_ledger, describe_provenance, write_provenance

if TYPE_CHECKING:
    from seq2seq.translation.request import TranslationRequest
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translation.translator import Translator

OF_OTHERS = ("texts", "input", "output", "document")
NAMED = 5  # shards in a message


class IncompleteError(Exception):
    """A file of which shards are missing."""


def add_files(command: ArgumentParser) -> None:
    group = command.add_argument_group("many files")
    folder = "translate all files in FOLDER, plain or .gz"
    group.add_argument("--files", type=InputPath, metavar="FOLDER", help=folder)
    add_options(group, OF_FILES)
    merge = "for --files: check that all is there, and join it"
    group.add_argument("--merge", action="store_true", help=merge)


def parse_part(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ArgumentTypeError(f"{text!r} should be like 1/8, 2/8, ..., 8/8")
    return int(match[1]), int(match[2])


NEAREST = "for --files: of all beams, what is nearest to the references in FOLDER"
RAY = "for --files: on all cores of a Ray cluster: auto, local, or HOST:PORT"
OF_FILES = {
    "output_dir": Option(Path, "FOLDER", "for --files: where they are written"),
    "shard": Option(parse_part, "I/N", "for --files: part I of N (that of a Slurm array)"),
    "shard_lines": Option(positive, "N", f"for --files: lines of a shard ({LINES})"),
    "ray": Option(str, "ADDRESS", RAY),
    "nearest": Option(InputPath, "FOLDER", NEAREST),
}


def part_of_array() -> tuple[int, int]:
    """The part that a task of a Slurm array does; all, where there is none.

    Raises: ConfigError for an array with gaps.
    """
    if "SLURM_ARRAY_TASK_ID" not in os.environ:
        return 1, 1
    number, first, step, count = (
        int(os.environ.get(f"SLURM_ARRAY_TASK_{name}", 1))
        for name in ("ID", "MIN", "STEP", "COUNT")
    )
    part = (number - first) // step + 1
    if part > count:
        raise ConfigError(
            f"task {number} is not one of {count} without gaps: sbatch --array=1-{count}"
        )
    return part, count


def check_files(arguments: Namespace) -> None:
    """Raises: ConfigError for options that need or exclude another, and for folders that cannot be
    read or written; DataError for a file that is not text.
    """
    folder, output = arguments.files, arguments.output_dir
    if folder is None:
        if given := list_given(arguments, (*OF_FILES, "merge")):
            raise ConfigError(f"{given[0]} is for many files: add --files FOLDER")
        return
    if given := list_given(arguments, OF_OTHERS):
        what = "texts" if given[0] == "--texts" else given[0]
        raise ConfigError(f"{what} cannot be joined with --files: leave one out")
    if arguments.nearest and arguments.mbr:
        raise ConfigError("--nearest and --mbr choose in two ways: leave one out")
    if arguments.ray and arguments.workers is not None:
        raise ConfigError("--ray takes all cores of its cluster: leave --workers out")
    if output is None:
        raise ConfigError("--files needs a folder for the translations: add --output-dir FOLDER")
    if not folder.is_dir():
        wrong = "is a file: give its folder" if folder.exists() else "there is no such folder"
        raise ConfigError(f"--files {folder}: {wrong}")
    source, target = folder.resolve(), output.resolve()
    if source == target or source in target.parents or target in source.parents:
        raise ConfigError(f"--output-dir {output} and --files {folder} should be apart")
    begun = (output / SHARDS).is_dir()
    if output.exists() and not begun and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(f"--output-dir {output} holds something else: give a new or empty folder")
    files = sorted(files_below(folder))
    if not files:
        raise ConfigError(f"--files {folder} holds no files")
    read = inputs_of(arguments)
    if inside := [path for path in read if target in path.resolve().parents]:
        raise ConfigError(
            f"{inside[0]} is read, and is in --output-dir {output}: give another folder"
        )
    outputs = (output / file.relative_to(folder) for file in files)
    check_apart(outputs, f"--output-dir {output}", [*read, *files])
    check_written(ledger_of(arguments), *read, *files)
    check_ledger(ledger_of(arguments), "translate")
    for file in files:
        check_text(file)
        if arguments.nearest and file.stat().st_size:
            check_parallel(file, arguments.nearest / file.relative_to(folder), "choosing by")


def translate_files(arguments: Namespace, translator: "Translator", texts: "TextEngine") -> int:
    """Translate the shards of this machine's part that are missing; join all if it does them all.

    Returns: the exit code. Raises: ConfigError if shards were made by other options; as `merge`.
    """
    files = begin_files(arguments)
    bar = None if arguments.quiet or sys.stderr is None else files
    wanted = missing_shards(arguments, files)
    return finish(arguments, translate_shards(wanted, arguments, translator, texts, bar))


def begin_files(arguments: Namespace) -> InputFiles:
    """The files, cut as the options say that all machines translate them with.

    Raises: as `record_options`.
    """
    record_options(arguments)
    return input_files(arguments)


def input_files(arguments: Namespace) -> InputFiles:
    nearest = arguments.nearest or read_options(arguments.output_dir).get("nearest")
    references = Path(nearest) if nearest else None
    return InputFiles(arguments.files, arguments.output_dir, shard_lines(arguments), references)


def missing_shards(arguments: Namespace, files: InputFiles) -> Iterator[tuple[Shard, Lines]]:
    """The shards of this machine's part that are not there, and their lines."""
    part, parts = arguments.shard or part_of_array()
    shards = (each for file in files.files for each in files.shards(file))
    for index, (shard, block) in enumerate(shards):
        if index % parts == part - 1 and read_shard(shard, bool(arguments.nbest)) is None:
            yield shard, block


def finish(arguments: Namespace, results: Iterable[tuple[Shard, bool]]) -> int:
    """Wait for the shards of this machine's part; join all if it does them all.

    Args:
        results: each shard, once it is written, and whether a line of it failed.

    Returns: the exit code. Raises: as `merge`.
    """
    lines, shards, failed = 0, 0, False
    for shard, one_failed in results:
        lines, shards, failed = lines + shard.lines, shards + 1, failed or one_failed
    done = f"{format_count(lines, 'line')} in {format_count(shards, 'shard')}"
    print(f"{done} translated", file=sys.stderr)
    _, parts = arguments.shard or part_of_array()
    return merge(arguments) or int(failed) if parts == 1 else int(failed)


def translate_shards(
    wanted: Iterable[tuple[Shard, Lines]],
    arguments: Namespace,
    translator: "Translator",
    texts: "TextEngine",
    read: status.Input | None = None,
) -> Iterator[tuple[Shard, bool]]:
    """Translate and write shards.

    Args:
        wanted: shards and their lines.
        read: what the progress that is shown refers to; None = show none.

    Yields: each shard, once it is written, and whether a line of it failed.
    """
    from seq2seq.translation.problems import warn_of_problems

    begun: deque[Shard] = deque()

    def requests() -> "Iterator[TranslationRequest]":
        for shard, block in wanted:
            begun.append(shard)
            for line_no, line in enumerate(block, shard.first):
                request = request_of(line, f"{shard.file}, line {line_no}", arguments)
                # Random draws depend on the line, whatever was translated before.
                request.draw_id = line_no - 1
                yield request

    ended = warn_of_problems(texts.translate(requests()), lenient=arguments.json_input)
    if read is not None:
        ended = status.with_progress(ended, read)
    formatted = format_of(arguments, translator.target)
    for first in ended:
        shard, text, failed = begun.popleft(), [], False
        of_shard = chain([first], islice(ended, shard.lines - 1))
        for line_no, request in enumerate(of_shard, shard.first):
            failed = failed or request.is_flawed
            reference = shard.references[line_no - shard.first] if shard.references else None
            put_best_first(request.result.translations, arguments, reference)
            text += [f"{line}\n" for line in formatted(line_no, request)]
        shard.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(shard.path) as output:
            output.write(gzip.compress("".join(text).encode(), mtime=0))
        yield shard, failed


def merge(arguments: Namespace) -> int:
    """Check that all shards are there with all their lines, and join them to a file for each file;
    gzip for gzip.

    Returns: the exit code, 0. Raises: ConfigError for another model than that of the shards;
        DataError that names what is missing; all other files are written.
    """
    if options := read_options(arguments.output_dir):  # those of a model, which the ledger names
        check_same_options(arguments, {**options, "path": hash_models(arguments)})
    name_orphans(arguments)
    files = input_files(arguments)
    absent: list[str] = []
    for file in files.files:
        path = arguments.output_dir / file.relative_to(arguments.files)
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(IncompleteError), replacing(path) as output, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lines: whoever translated them was told
            before = len(absent)
            for shard, _ in files.shards(file):
                text = read_shard(shard, several="nbest" in options)
                if text is None:
                    absent.append(f"{file}, line {shard.first}")
                elif len(absent) == before:
                    output.write(shard.path.read_bytes() if path.suffix == ".gz" else text)
            if len(absent) > before:
                raise IncompleteError
            if path.suffix == ".gz" and not output.tell():
                output.write(gzip.compress(b""))
    if absent:
        raise DataError(
            f"{format_count(len(absent), 'shard')} missing or damaged: {name_some(absent, '; ')}. "
            "The same command without --merge translates them"
        )
    outputs = [arguments.output_dir / file.relative_to(arguments.files) for file in files.files]
    models = list(map(str, model_paths(arguments.path, arguments)))
    details = {"models": models, "options": options}
    entry = describe_provenance("translate", files.read_files, outputs, **details)
    write_provenance(ledger_of(arguments), entry)
    done = format_count(len(files.files), "file")
    print(f"{done} joined in {arguments.output_dir}", file=sys.stderr)
    return 0


def ledger_of(arguments: Namespace) -> Path:
    """The file beside the folder of translations that says how they were made."""
    return Path(f"{arguments.output_dir.resolve()}.json")


def name_orphans(arguments: Namespace) -> None:
    """Warn of files that were joined once, and of which the source is gone."""
    folder, output = arguments.files, arguments.output_dir
    paths = sorted(files_below(output))
    orphans = [str(p) for p in paths if not (folder / p.relative_to(output)).is_file()]
    if orphans:
        warnings.warn(
            f"{format_count(len(orphans), 'file')} without a source in {folder}: "
            f"{name_some(orphans, ', ')}. Delete what is no longer wanted",
            stacklevel=2,
        )


def name_some(names: list[str], separator: str) -> str:
    """The first names of a list that may be long."""
    return separator.join(names[:NAMED]) + ", ..." * (len(names) > NAMED)
