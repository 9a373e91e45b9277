"""`translate-files --ray`: shards on all cores of a Ray cluster.

An actor for each core has the model in one thread, and a task is a shard. An actor that dies starts
again elsewhere with the shard that it had; a shard with which it dies each time is given up. If
this process dies, the same command goes on.
"""

import logging
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError, format_count
from seq2seq.cli import status, translate_files
from seq2seq.cli.models import Opened
from seq2seq.cli.shards import InputFiles, Lines, Shard, record_options
from seq2seq.cli.translate_files import Done, TranslateFilesOptions, translate_shards

Result = tuple[Shard, bool, list[str]]  # whether a line failed, and the problems of the lines
TRIES = 3  # of a shard whose actor dies


class ShardTranslator:
    """The work of an actor, which runs in the folder of the command.

    The model is opened with the first shard, so that an error belongs to it, as any other.
    """

    def __init__(self, folder: Path, options: TranslateFilesOptions):
        with suppress(FileNotFoundError):  # then all paths are absolute, or an error says what is
            os.chdir(folder)
        self.options = options
        self.opened: Opened | None = None

    def translate(self, shard: Shard, lines: Lines) -> Result:
        import torch

        if self.opened is None:
            torch.set_num_threads(1)
            self.opened = translate_files.open_files_engine(self.options)
        problems: list[str] = []
        wanted = [(shard, lines)]
        results = translate_shards(wanted, self.options, self.opened, warn=problems.append)
        [(_, failed)] = results
        return shard, failed, problems


@contextmanager
def mute_ray() -> Iterator[None]:
    """Keep to ourselves what Ray prints here, in threads and from C++; its logs have it, too."""
    ours, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with (
            open(nowhere, "w") as stdout,
            open(ours, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as stderr,
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


@mute_ray()
def translate_on_ray(options: TranslateFilesOptions) -> int:
    """Translate the missing shards and join them; each actor opens the model.

    Raises: ConfigError if Ray is not installed or no cluster answers; DataError that names the
        shards that were given up.
    """
    connect(options.ray or "auto")
    import ray

    record_options(options)
    files, lost = translate_files.find_files(options), list[Shard]()
    results = spread(options, files, lost)
    if not options.quiet and sys.stderr is not None:
        results = status.with_progress(results, files, "shard")
    try:
        code = translate_files.finish(options, files, results)
    except DataError:  # in the end, of what is missing
        if not lost:
            raise
    finally:
        ray.shutdown()
    if lost:
        named = "; ".join(f"{shard.file}, line {shard.first}" for shard in lost)
        raise DataError(
            f"{format_count(len(lost), 'shard')} given up, because whatever translated it died "
            f"{TRIES} times, usually because memory ran out: {named}. All others are translated. "
            "The same command tries again; with --batch-size 1 it takes less memory"
        )
    return code


def connect(address: str) -> None:
    """Let Ray know its cluster, or start one. Raises: ConfigError if there is none."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError("the package ray is not installed: pip install ray") from error
    try:
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        if colon:  # Ray waits for minutes where nobody listens
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # of many kinds, such as of processes that did not start in time
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"--ray {address}: no cluster answers: {reason}. To start one: ray start --head, "
            "then --ray auto. For this machine alone: --ray local"
        ) from error


def spread(options: TranslateFilesOptions, files: InputFiles, lost: list[Shard]) -> Iterator[Done]:
    """Each missing shard once it is written, in the order in which they are.

    Args:
        lost: gets the shards that are given up.

    Raises: what an actor raises.
    """
    import ray

    # A shard that was written twice is the same, so any that was lost may be done again.
    again: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": TRIES - 1}
    actor: Any = ray.remote(**again)(ShardTranslator)
    resources: Any = ray.cluster_resources
    cores = max(1, int(resources().get("CPU", 1)))
    free = [actor.remote(Path.cwd(), options) for _ in range(cores)]
    asked: dict[Any, tuple[Any, Shard]] = {}  # each actor that has a shard, by its future result

    def results() -> Iterator[Done]:
        """Of one shard, or none if it is given up; its actor is free again."""
        [done], _ = ray.wait(list(asked))
        each, shard = asked.pop(done)
        free.append(each)
        try:
            shard, failed, problems = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Seq2SeqError | OSError):
                raise error.cause from None
            raise
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as error:
            if getattr(error, "actor_init_failed", False):
                raise ConfigError(f"the cluster cannot start what translates: {error}") from error
            lost.append(shard)
            return
        for problem in problems:
            warnings.warn(problem, stacklevel=2)
        yield shard, failed

    for shard, lines in translate_files.missing_shards(options, files):
        if not free:
            yield from results()
        each = free.pop()
        asked[each.translate.remote(shard, lines)] = each, shard
    while asked:
        yield from results()
