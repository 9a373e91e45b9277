"""What conf/train.yaml asks of the process: one folder for all processes of a run.

torchrun starts every process with the same command, and each composes a configuration of its own.
"""

import os
from datetime import datetime
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from seq2seq.environment import is_first
from seq2seq.training.lock import is_in_use


def register_resolvers() -> None:
    """What conf/train.yaml asks for: `${start:}`, the same in all processes of a run, and
    `${record:}`, where Hydra is to write down what was typed.
    """
    OmegaConf.register_new_resolver("start", start, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("record", record, replace=True)


def start() -> str:
    """When the run began, or the name that torchrun gave it."""
    given = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"{datetime.now():%m%d-%H%M%S}" if given == "none" else given


def record() -> str | None:
    """A folder in the run's; none in all processes but the first, and while another run is there,
    whose record it is.
    """
    folder = Path(HydraConfig.get().runtime.output_dir)
    return ".hydra" if is_first() and not is_in_use(folder) else None
