"""What was typed, kept beside what it came to."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from seq2seq.durable import write_text
from seq2seq.environment import is_first

RECORD = ".hydra"


def write_record(config: DictConfig, folder: Path) -> None:
    """Write what Hydra composed, and what was typed, into a run's folder; the first process does.

    Hydra would do it before anything is checked: a command that is refused, or only looks, would
    write over the record of the run that is there.
    """
    if not is_first():
        return
    typed = HydraConfig.get().overrides.task
    parts = {"config": config, "hydra": HydraConfig.instance().cfg, "overrides": typed}
    (folder / RECORD).mkdir(exist_ok=True)
    for name, part in parts.items():
        write_text(folder / RECORD / f"{name}.yaml", OmegaConf.to_yaml(part))
