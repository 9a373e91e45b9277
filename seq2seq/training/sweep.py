"""The jobs of a sweep: one that fails says so at once, and the others go on.

A launcher may run jobs in processes, or on machines, of their own. What they come to is read from
their folders: result.json where one ended well, error.txt where it did not.
"""

import json
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from seq2seq.errors import Seq2SeqError, fail

RESULT = "result.json"  # in a run's folder: its best score, for whoever started it
ERROR = "error.txt"  # in the folder of a job that failed: why


class JobFailedError(Exception):
    """A job of a sweep failed, and has said why."""


class Sweep(Callback):
    """Where a sweep goes, and what was there before; Hydra makes one, as conf/train.yaml asks."""

    begun: ClassVar["Sweep | None"] = None  # in the process that starts the jobs

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        self.folder = Path(config.hydra.sweep.dir).absolute()
        self.before = self._outcomes()
        Sweep.begun = self

    def summary(self) -> str:
        """How many jobs ended and how: a line each, in the order in which they ended; nothing of
        dry runs.
        """
        found = self._outcomes().items()
        ended = sorted((time, path) for path, time in found if self.before.get(path) != time)
        lines = {str(path.parent.relative_to(self.folder)): outcome(path) for _, path in ended}
        width = max(map(len, lines), default=0)
        failed = sum(line.startswith("failed: ") for line in lines.values())
        count = f"{len(lines)} jobs" + (f", {failed} of them failed" if failed else "")
        listed = (f"  {name:<{width}}  {line}" for name, line in lines.items())
        if not lines:
            return ""
        return "\n".join((f"sweep of {count}: {self.folder}", *listed))

    def _outcomes(self) -> dict[Path, int]:
        """The files that say what a job came to, and when they were written, in nanoseconds."""
        found = {}
        for path in chain(*(self.folder.glob(f"*/{name}") for name in (RESULT, ERROR))):
            with suppress(OSError):  # it may vanish meanwhile
                found[path] = path.stat().st_mtime_ns
        return found


def outcome(path: Path) -> str:
    """`bleu 31.20`, or the first line of what went wrong."""
    text = path.read_text(encoding="utf-8")
    if path.name == ERROR:
        return "failed: " + text.partition("\n")[0]
    result = json.loads(text)
    return (
        "no validation" if result["value"] is None else f"{result['monitor']} {result['value']:.2f}"
    )


def is_job() -> bool:
    """Is the configuration in hand one of a sweep?"""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def run_job(fit: Callable[[DictConfig], float | None], config: DictConfig) -> float | None:
    """Train one job.

    Raises: JobFailedError after a message, which is left in error.txt. Hydra then begins the next
    job, and raises the first of these errors when all have ended.
    """
    folder = Path(HydraConfig.get().runtime.output_dir)
    (folder / ERROR).unlink(missing_ok=True)
    try:
        return fit(config)
    except Seq2SeqError as error:
        fail(str(error))
        reason = str(error)
    except Exception as error:  # a bug, or no memory left; no reason to lose the other jobs
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    (folder / ERROR).write_text(f"{reason}\n", encoding="utf-8")
    # Not inside `except`: this error outlives the job, and would keep the model of the first alive.
    raise JobFailedError(reason)
