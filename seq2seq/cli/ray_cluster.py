"""Translate shards on all cores of a Ray cluster (`translate-files --ray`).

Each core runs an actor with the model in one thread, and each shard is a task. An actor that dies
is started again with its shard; a shard that kills its actor every time is given up. If this
process dies, the same command resumes the work.
"""

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError, format_count
from seq2seq.base.plugins import import_library
from seq2seq.cli import status, translate_files
from seq2seq.cli.models import Opened
from seq2seq.cli.shards import InputFiles, Lines, Shard, record_options
from seq2seq.cli.translate_files import Done, TranslateFilesOptions, translate_shards

Result = tuple[Shard, bool, list[str]]  # with True if a line failed, and the problems of all lines
TRIES = 3  # number of tries for a shard whose actor dies


class ShardTranslator:
    """An actor, which works in the folder of the command.

    It opens the model when the first shard arrives, so that errors are reported as for any shard.
    """

    def __init__(self, folder: Path, options: TranslateFilesOptions):
        with suppress(FileNotFoundError):  # other nodes may not have it
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
    """Hide what Ray prints in this process, also from threads and C++; its logs have it too."""
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

    Raises: ConfigError if Ray is not installed or no cluster answers; DataError if shards were
        given up.
    """
    connect(options.ray or "auto")
    import ray

    record_options(options)
    files, lost = translate_files.find_files(options), list[Shard]()
    shown = None if options.quiet else files
    results = status.with_progress(spread(options, files, lost), shown, "shard")
    try:
        code = translate_files.finish(options, files, results)
    except DataError:  # raised at the end, if shards are missing
        if not lost:
            raise
    finally:
        ray.shutdown()
    if lost:
        named = "; ".join(f"{shard.file}, line {shard.first}" for shard in lost)
        raise DataError(
            f"{format_count(len(lost), 'shard')} given up after {TRIES} tries that ended "
            f"their process, usually because memory ran out: {named}. All others are translated. "
            "The same command tries again; with --batch-size 1 it takes less memory"
        )
    return code


def connect(address: str) -> None:
    """Connect to a cluster, or start one. Raises: ConfigError if this fails."""
    ray = import_library("ray")
    try:
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        if colon:  # Ray would wait for minutes if nobody listens
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # many kinds, for instance if processes do not start in time
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"--ray {address}: no cluster answers: {reason}. To start one: ray start --head, "
            "then --ray auto. For this machine alone: --ray local"
        ) from error


def spread(options: TranslateFilesOptions, files: InputFiles, lost: list[Shard]) -> Iterator[Done]:
    """Spread the missing shards over actors. Yields: each shard, when it is written.

    Args:
        lost: list to which shards that are given up are added.

    Raises: the errors of actors.
    """
    import ray

    # Shards may be repeated, since writing one twice gives the same file.
    again: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": TRIES - 1}
    actor: Any = ray.remote(**again)(ShardTranslator)
    resources: Any = ray.cluster_resources
    cores = max(1, int(resources().get("CPU", 1)))
    free = [actor.remote(Path.cwd(), options) for _ in range(cores)]
    asked: dict[Any, tuple[Any, Shard]] = {}  # busy actors and their shards, by future result

    def results() -> Iterator[Done]:
        """Wait for one shard, which frees its actor. Yields: nothing if the shard is given up."""
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
                raise ConfigError(f"the cluster cannot start the translators: {error}") from error
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
