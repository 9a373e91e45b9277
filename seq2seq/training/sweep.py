"""The jobs of a sweep: one that fails says so at once, and the others go on."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from seq2seq.errors import Seq2SeqError, fail


class JobFailedError(Exception):
    """A job of a sweep failed, and has said why."""


class Job(NamedTuple):
    """A job that has ended."""

    folder: Path
    outcome: str  # `bleu 31.20`, or the first line of what went wrong
    failed: bool


def is_job() -> bool:
    """Is the configuration in hand one of a sweep?"""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def run_job(
    fit: Callable[[DictConfig], float | None], config: DictConfig, ended: list[Job]
) -> float | None:
    """Train one job, and add it to those that ended.

    Raises: JobFailedError after a message. Hydra then begins the next job, and raises the first of
    these errors when all have ended.
    """
    folder = Path(HydraConfig.get().runtime.output_dir)
    try:
        value = fit(config)
    except Seq2SeqError as error:
        fail(str(error))
        reason = str(error)
    except Exception as error:  # a bug, or no memory left; no reason to lose the other jobs
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    else:
        score = "no validation" if value is None else f"{config.checkpoint.monitor} {value:.2f}"
        ended.append(Job(folder, score, failed=False))
        return value
    ended.append(Job(folder, reason.partition("\n")[0], failed=True))
    # Not inside `except`: this error outlives the job, and would keep the model of the first alive.
    raise JobFailedError(reason)


def summary(ended: list[Job]) -> str:
    """How many jobs ended and how, a line each."""
    failed = sum(job.failed for job in ended)
    width = max(len(job.folder.name) for job in ended)
    lines = [
        f"  {job.folder.name:<{width}}  {'failed: ' if job.failed else ''}{job.outcome}"
        for job in ended
    ]
    count = f"{len(ended)} jobs" + (f", {failed} of them failed" if failed else "")
    return "\n".join((f"sweep of {count}: {ended[0].folder.parent}", *lines))
