"""`translate --files --ray`: shards on all cores of a Ray cluster.

An actor for each core has the model in one thread, and a task is a shard. An actor that dies starts
again elsewhere with the shard that it had. If this process dies, the same command goes on.
"""

import argparse
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.cli import progress
from seq2seq.cli.sharded import (
    InputFiles,
    Lines,
    Shard,
    finish,
    missing,
    shard_lines,
    translate_shards,
)
from seq2seq.errors import ConfigError, Seq2SeqError

if TYPE_CHECKING:
    from seq2seq.decoding.engine import Sentences
    from seq2seq.text_request import Rules
    from seq2seq.translator import Translator

Opened = tuple["Translator", "Sentences", "Rules"]
Open = Callable[[argparse.Namespace], Opened]
Result = tuple[Shard, bool, list[str]]  # whether a line failed, and what was said of lines


class ShardTranslator:
    """What an actor does. The model is opened with the first shard, so that an error belongs to it,
    as any other.
    """

    def __init__(self, arguments: argparse.Namespace, open_model: Open):
        self.arguments, self.open_model = arguments, open_model
        self.opened: Opened | None = None

    def translate(self, shard: Shard, lines: Lines) -> Result:
        import torch

        if self.opened is None:
            torch.set_num_threads(1)
            self.opened = self.open_model(self.arguments)
        with warnings.catch_warnings(record=True) as told:
            [(_, failed)] = translate_shards([(shard, lines)], self.arguments, *self.opened)
        return shard, failed, [str(each.message) for each in told]


def translate_on_ray(arguments: argparse.Namespace, open_model: Open) -> int:
    """As `translate_files`; `open_model` is called by each actor.

    Raises: ConfigError if Ray is not installed or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError("the package ray is not installed: pip install ray") from error
    try:
        host, colon, port = arguments.ray.removeprefix("ray://").rpartition(":")
        if colon:  # Ray waits for minutes where nobody listens
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(arguments.ray, logging_level="error", log_to_driver=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--ray {arguments.ray}: no cluster answers: {error}. To start one: ray start --head, "
            "then --ray auto. For this machine alone: --ray local"
        ) from error
    arguments = argparse.Namespace(**{k: absolute(v) for k, v in vars(arguments).items()})
    arguments.path = absolute(Path(arguments.path))
    files = InputFiles(arguments.files, arguments.output_dir, shard_lines(arguments))
    results = shards_done(arguments, files, open_model)
    if not arguments.quiet and sys.stderr is not None:
        results = progress.with_progress(results, files, "shards")
    try:
        return finish(arguments, results)
    finally:
        ray.shutdown()


def absolute(value: Any) -> Any:
    """Paths as an actor needs them, whose current folder is another."""
    if isinstance(value, list):
        return [absolute(each) for each in value]
    return value.absolute() if isinstance(value, Path) else value


def shards_done(
    arguments: argparse.Namespace, files: InputFiles, open_model: Open
) -> Iterator[tuple[Shard, bool]]:
    """Each missing shard once it is written, in the order in which they are."""
    import ray
    from ray.util import ActorPool

    # A shard that was written twice is the same, so any that was lost may be done again.
    again: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": -1}
    actor = ray.remote(**again)(ShardTranslator)
    cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
    pool = ActorPool([actor.remote(arguments, open_model) for _ in range(cores)])

    def next_done() -> tuple[Shard, bool]:
        try:
            shard, failed, told = pool.get_next_unordered()
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Seq2SeqError):
                raise error.cause from None
            raise
        for message in told:
            warnings.warn(message, stacklevel=2)
        return shard, failed

    for wanted in missing(arguments, files):
        if not pool.has_free():
            yield next_done()
        pool.submit(lambda each, shard: each.translate.remote(*shard), wanted)
    while pool.has_next():
        yield next_done()
