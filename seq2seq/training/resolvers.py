"""What conf/train.yaml asks of the process: one folder for all processes of a run.

torchrun starts every process with the same command, and each composes a configuration of its own.
"""

import os
from datetime import datetime

from omegaconf import OmegaConf


def register_resolvers() -> None:
    """What conf/train.yaml asks for: `${start:}`, the same in all processes of a run."""
    OmegaConf.register_new_resolver("start", start, use_cache=True, replace=True)


def start() -> str:
    """When the run began, or the name that torchrun gave it."""
    given = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"{datetime.now():%m%d-%H%M%S}" if given == "none" else given
