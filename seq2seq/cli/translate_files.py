"""Translate the lines of all files in a folder, on one or many machines; resumes after a kill.

    seq2seq translate-files PATH IN OUT                on one machine; joins the results at the end
    seq2seq translate-files PATH IN OUT --shard 3/8    on the third of eight machines
    seq2seq translate-files PATH IN OUT --merge        joins the results of all machines
    seq2seq translate-files PATH IN OUT --ray auto     on all cores of a Ray cluster

The files are cut into shards, and each shard is written whole or not at all, compressed and with a
checksum. So type a command that was killed again, and it translates what is missing. The name of a
shard contains a hash of its lines: if a file has changed, its changed shards are translated again.
"""

import gzip
import os
import re
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError, DataError, format_count
from seq2seq.base.text_stream import check_text
from seq2seq.cli import shards, status
from seq2seq.cli.files import InputPath, check_apart, check_written, inputs_of
from seq2seq.cli.models import Opened, choose_shortlist, open_engine
from seq2seq.cli.options import argument, flag, value
from seq2seq.cli.requests import LineOptions, format_of, put_best_first, request_of
from seq2seq.cli.shards import LINES, SHARDS, Block, InputFiles, Shard, files_below
from seq2seq.data.text.lines import check_parallel
from seq2seq.data.text.provenance import check_ledger, describe_provenance, write_provenance

if TYPE_CHECKING:
    from seq2seq.translation.request import TranslationRequest

HELP = "translate all files of a folder, on one or many machines"
Part = tuple[int, int]  # its number, and the number of parts
Done = tuple[Shard, bool]  # a shard that is written, and True if a line of it failed
NAMED = 5  # maximum number of names in a message
LISTED = 100  # maximum number of warnings in a ledger, which counts them all


class IncompleteError(Exception):
    """Some shards of a file are missing."""


def parse_part(text: str) -> Part:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigError(f"{text!r} should be like 1/8, 2/8, ..., 8/8")
    return int(match[1]), int(match[2])


class TranslateFilesOptions(LineOptions):
    """The options of `seq2seq translate-files`."""

    folder: InputPath = argument("the folder of the files to translate, plain or .gz", "IN")
    output_dir: Path = argument("the folder for the translations", "OUT")
    shard: Part | None = value("part I of N (default: as Slurm says)", "I/N", type=parse_part)
    shard_lines: int | None = value(f"lines of a shard ({LINES})", "N")
    ray: str | None = value("on all cores of a Ray cluster: auto, local, or HOST:PORT", "ADDRESS")
    nearest: InputPath | None = value("choose translations nearest to these", "FOLDER")
    merge: bool = flag("check that all shards are complete, and join them")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nearest and self.requirements.mbr:
            raise ConfigError("--nearest and --mbr both choose translations: leave one out")
        if self.ray and self.engine.workers is not None:
            raise ConfigError("--ray takes all cores of its cluster: leave --workers out")

    @property
    def ledger(self) -> Path:
        """The file beside the output folder that records how the translations were made."""
        return Path(f"{self.output_dir.resolve()}.json")

    @property
    def part(self) -> Part:
        """The part of this machine: that of --shard or of a task of a Slurm array, or else all.

        Raises: ConfigError if the task numbers of the array have gaps.
        """
        if self.shard or "SLURM_ARRAY_TASK_ID" not in os.environ:
            return self.shard or (1, 1)
        number, first, step, count = (
            int(os.environ.get(f"SLURM_ARRAY_TASK_{name}", 1))
            for name in ("ID", "MIN", "STEP", "COUNT")
        )
        part = (number - first) // step + 1
        if part > count:
            raise ConfigError(f"number the {count} tasks without gaps: sbatch --array=1-{count}")
        return part, count


def run(options: TranslateFilesOptions) -> int:
    check_folders(options)
    if options.merge:
        return merge(options, find_files(options))
    found = choose_shortlist(options.path, options.engine.shortlist)
    options = replace(options, engine=replace(options.engine, shortlist=InputPath(found or "none")))
    if options.ray:
        from seq2seq.cli.ray_cluster import translate_on_ray

        return translate_on_ray(options)
    opened = open_files_engine(options)
    shards.record_options(options)
    files = find_files(options)
    shown, wanted = None if options.quiet else files, missing_shards(options, files)
    code = finish(options, files, translate_shards(wanted, options, opened, shown))
    opened.print_stats(options.engine)
    return code


def check_folders(options: TranslateFilesOptions) -> None:
    """Raises: ConfigError if a folder cannot be read or written; DataError if a file is not
    text.
    """
    folder, output = options.folder, options.output_dir
    from seq2seq.cli.documents import check_lines_of_text  # imports all formats

    if not folder.is_dir():
        wrong = "is a file: give its folder" if folder.exists() else "there is no such folder"
        raise ConfigError(f"{folder}: {wrong}")
    source, target = folder.resolve(), output.resolve()
    if source == target or source in target.parents or target in source.parents:
        raise ConfigError(f"the folders {folder} and {output} should not contain each other")
    begun = (output / SHARDS).is_dir()
    if output.exists() and not begun and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(f"{output} holds something else: give a new or empty folder")
    files = sorted(files_below(folder))
    if not files:
        raise ConfigError(f"{folder} holds no files")
    check_lines_of_text(files)
    read = inputs_of(options)
    if inside := [path for path in read if target in path.resolve().parents]:
        raise ConfigError(f"{inside[0]} is an input inside {output}: give another folder")
    outputs = (output / file.relative_to(folder) for file in files)
    check_apart(outputs, str(output), [*read, *files])
    check_written(options.ledger, *read, *files)
    check_ledger(options.ledger, "translate")
    for file in files:
        check_text(file)
        if options.nearest and file.stat().st_size:
            check_parallel(file, options.nearest / file.relative_to(folder), "choosing by")


def open_files_engine(options: TranslateFilesOptions) -> Opened:
    """Open the model and make its engine. Raises: ConfigError as in `open_engine`, and if --nearest
    has only one translation to choose from.
    """
    opened = open_engine(options.path, options, options.nbest)
    if options.nearest and opened.search.beams == 1:
        raise ConfigError("--nearest chooses among several: add --beam-size 8")
    return opened


def find_files(options: TranslateFilesOptions) -> InputFiles:
    """The input files, cut into shards in the same way as those that are translated."""
    known = shards.read_options(options.output_dir)
    nearest = options.nearest or known.get("nearest")
    lines = options.shard_lines or known.get("shard_lines", LINES)
    return InputFiles(options.folder, options.output_dir, lines, nearest and Path(nearest))


def missing_shards(options: TranslateFilesOptions, files: InputFiles) -> Iterator[Block]:
    """The shards of this machine's part that are missing, and their lines."""
    part, parts = options.part
    every = (each for file in files.files for each in files.shards(file))
    for index, (shard, block) in enumerate(every):
        if index % parts == part - 1 and shards.read_shard(shard, bool(options.nbest)) is None:
            yield shard, block


def finish(options: TranslateFilesOptions, files: InputFiles, results: Iterable[Done]) -> int:
    """Wait for the shards of this machine's part, and join them if there are no other parts.

    Args:
        results: shards that are written, each with True if one of its lines failed.

    Returns: the exit code. Raises: as in `merge`.
    """
    ended = [(shard.lines, failed) for shard, failed in results]
    lines = format_count(sum(count for count, _ in ended), "line")
    print(f"{lines} in {format_count(len(ended), 'shard')} translated", file=sys.stderr)
    code = merge(options, files) if options.part[1] == 1 else 0
    return code or int(any(failed for _, failed in ended))


def translate_shards(
    wanted: Iterable[Block],
    options: TranslateFilesOptions,
    opened: Opened,
    read: status.Input | None = None,
    **more: Any,
) -> Iterator[Done]:
    """Translate and write shards.

    Args:
        wanted: shards and their lines.
        read: input whose progress is shown; None = show no progress.
        more: arguments of `warn_of_problems`.

    Yields: each shard when it is written, with True if one of its lines failed.
    """
    from seq2seq.translation.problems import warn_of_problems

    begun: deque[Shard] = deque()

    def requests() -> "Iterator[TranslationRequest]":
        for shard, block in wanted:
            begun.append(shard)
            for line_no, line in enumerate(block, shard.first):
                request = request_of(line, f"{shard.file}, line {line_no}", options)
                # Samples depend on the number of the line alone.
                request.draw_id = line_no - 1
                yield request

    texts = opened.text_engine(options.max_source)
    ended = warn_of_problems(texts.translate(requests()), lenient=options.json_input, **more)
    ended = status.with_progress(ended, read)
    formatted = format_of(options, opened.translator.target)
    for first in ended:
        shard, text, failed, told = begun.popleft(), "", False, list[str]()
        of_shard = chain([first], islice(ended, shard.lines - 1))
        for line_no, request in enumerate(of_shard, shard.first):
            failed = failed or request.is_flawed
            told += [problem.at(request.place) for problem in request.result.problems]
            reference = shard.references[line_no - shard.first] if shard.references else None
            put_best_first(request.result, options.requirements.mbr, reference)
            text += formatted(line_no, request)
        shards.write_shard(shard, text, failed, told)
        yield shard, failed


def merge(options: TranslateFilesOptions, files: InputFiles) -> int:
    """Check that all shards are complete, and join those of each file to a file of the same name.

    The ledger lists the warnings about all lines, whichever process gave them.

    Returns: the exit code, 1 if a line failed. Raises: ConfigError if the shards are from another
        model; DataError if shards are missing (all other files are written).
    """
    folder, output_dir = options.folder, options.output_dir
    models = options.ensemble.paths(options.path)
    if known := shards.read_options(output_dir):  # the ledger will name their model
        shards.check_same_options(output_dir, {**known, "path": shards.hash_models(models)})
    warn_of_orphans(folder, output_dir)
    outputs = [output_dir / file.relative_to(folder) for file in files.files]
    absent, told, flawed = list[str](), list[str](), False
    for file, path in zip(files.files, outputs, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            suppress(IncompleteError),
            replacing(path) as output,
            warnings.catch_warnings(record=True) as of_reading,
        ):
            warnings.simplefilter("always")
            before = len(absent)
            for shard, _ in files.shards(file):
                text = shards.read_shard(shard, several="nbest" in known)
                failed, of_shard = shards.read_notes(shard)
                flawed, told = flawed or failed, told + of_shard
                if text is None:
                    absent.append(f"{file}, line {shard.first}")
                elif len(absent) == before:
                    output.write(shard.path.read_bytes() if path.suffix == ".gz" else text)
            if len(absent) > before:
                raise IncompleteError
            if path.suffix == ".gz" and not output.tell():
                output.write(gzip.compress(b""))
        told += [str(warning.message) for warning in of_reading]
    if absent:
        raise DataError(
            f"{format_count(len(absent), 'shard')} missing or damaged: {name_some(absent, '; ')}. "
            "The same command without --merge translates them"
        )
    nearest = [files.references / f.relative_to(folder) for f in files.files if files.references]
    read, named = [*files.files, *nearest], list(map(str, models))
    listed = {"count": len(told), "first": told[:LISTED]}
    details = {"models": named, "options": known, "warnings": listed}
    write_provenance(options.ledger, describe_provenance("translate", read, outputs, **details))
    print(f"{format_count(len(outputs), 'file')} joined in {output_dir}", file=sys.stderr)
    return int(flawed)


def warn_of_orphans(folder: Path, output: Path) -> None:
    """Warn of output files whose input file does not exist any more."""
    paths = sorted(files_below(output))
    orphans = [str(p) for p in paths if not (folder / p.relative_to(output)).is_file()]
    if orphans:
        warnings.warn(
            f"{format_count(len(orphans), 'file')} without a source in {folder}: "
            f"{name_some(orphans, ', ')}. Delete what is no longer wanted",
            stacklevel=2,
        )


def name_some(names: list[str], separator: str) -> str:
    """The first names of a list, which may be long."""
    return separator.join(names[:NAMED]) + ", ..." * (len(names) > NAMED)
