"""`translate --files --ray`: shards on all cores of a Ray cluster.

An actor for each core has the model in one thread, and a task is a shard. An actor that dies starts
again elsewhere with the shard that it had; a shard with which it dies each time is given up. If
this process dies, the same command goes on.
"""

import logging
import os
import socket
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError, format_count
from seq2seq.cli import status
from seq2seq.cli.sharded import begin_files, finish, missing_shards, translate_shards
from seq2seq.cli.shards import InputFiles, Lines, Shard

if TYPE_CHECKING:
    from seq2seq.decoding import Engine
    from seq2seq.decoding.workers import Workers
    from seq2seq.translation.text_engine import TextEngine
    from seq2seq.translation.translator import Translator

Opened = tuple["Translator", "Engine | Workers", "TextEngine"]
Open = Callable[[Namespace], Opened]
Result = tuple[Shard, bool, list[str]]  # whether a line failed, and what was said of lines
TRIES = 3  # of a shard whose actor dies


class ShardTranslator:
    """The work of an actor. The model is opened with the first shard, so that an error belongs to
    it, as any other.
    """

    def __init__(self, arguments: Namespace, open_model: Open):
        self.arguments, self.open_model = arguments, open_model
        self.opened: Opened | None = None

    def translate(self, shard: Shard, lines: Lines) -> Result:
        import torch

        if self.opened is None:
            torch.set_num_threads(1)
            self.opened = self.open_model(self.arguments)
        translator, _, texts = self.opened
        with warnings.catch_warnings(record=True) as told:
            [(_, failed)] = translate_shards([(shard, lines)], self.arguments, translator, texts)
        return shard, failed, [str(each.message) for each in told]


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
def translate_on_ray(arguments: Namespace, open_model: Open) -> int:
    """As `translate_files`; `open_model` is called by each actor.

    Raises: ConfigError if Ray is not installed or no cluster answers; DataError that names the
        shards that were given up.
    """
    connect(arguments.ray)
    import ray

    arguments = Namespace(**{k: absolute(v) for k, v in vars(arguments).items()})
    files, lost = begin_files(arguments), list[Shard]()
    results = shards_done(arguments, files, open_model, lost)
    if not arguments.quiet and sys.stderr is not None:
        results = status.with_progress(results, files, "shard")
    try:
        code = finish(arguments, results)
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


def absolute(value: Any) -> Any:
    """Paths as an actor needs them, whose current folder is another."""
    if isinstance(value, list):
        return [absolute(each) for each in value]
    return value.absolute() if isinstance(value, Path) else value


def shards_done(
    arguments: Namespace, files: InputFiles, open_model: Open, lost: list[Shard]
) -> Iterator[tuple[Shard, bool]]:
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
    free = [actor.remote(arguments, open_model) for _ in range(cores)]
    asked: dict[Any, tuple[Any, Shard]] = {}  # each actor that has a shard, by its future result

    def results() -> Iterator[tuple[Shard, bool]]:
        """Of one shard, or none if it is given up; its actor is free again."""
        [done], _ = ray.wait(list(asked))
        each, shard = asked.pop(done)
        free.append(each)
        try:
            shard, failed, told = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Seq2SeqError | OSError):
                raise error.cause from None
            raise
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as error:
            if getattr(error, "actor_init_failed", False):
                raise ConfigError(f"the cluster cannot start what translates: {error}") from error
            lost.append(shard)
            return
        for message in told:
            warnings.warn(message, stacklevel=2)
        yield shard, failed

    for shard, lines in missing_shards(arguments, files):
        if not free:
            yield from results()
        each = free.pop()
        asked[each.translate.remote(shard, lines)] = each, shard
    while asked:
        yield from results()
