"""From a composed configuration to a trained model: check, prepare, train."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from seq2seq.environment import training_command
from seq2seq.errors import ConfigError
from seq2seq.training.begin import given_tokenizers
from seq2seq.training.links import prepare_run
from seq2seq.training.lock import alone_in
from seq2seq.training.plan import check
from seq2seq.training.processes import (
    check_processes,
    is_job_of_a_sweep_with_many_processes,
    run_in_fresh_processes,
)
from seq2seq.training.record import write_record


def fit(config: DictConfig) -> float | None:
    """Train what the configuration describes. Returns: the best validation score, for sweeps.

    Raises: ConfigError, DataError or CheckpointError for whatever the user can mend.
    """
    plan = check(plain_values(config), Path(HydraConfig.get().runtime.output_dir))
    if not plan.run.dry_run:
        check_processes(plan.trainer)
    if not plan.run.dry_run and is_job_of_a_sweep_with_many_processes(plan.trainer):
        return run_in_fresh_processes()
    with nullcontext() if plan.run.dry_run else alone_in(plan.folder):
        given = given_tokenizers(plan.tokenizer, plan.resume or plan.run.init)
        prepared = prepare_run(plan, given)
        from seq2seq.training.run import train  # Lightning takes seconds to import

        return train(plan, prepared, partial(write_record, config, plan.folder))


def plain_values(config: DictConfig) -> dict[str, Any]:
    """The configuration resolved to dicts, lists, numbers and strings.

    Raises: ConfigError if a value that only the user knows was not given.
    """
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        typed = " ".join(f"{key}=..." for key in missing)
        raise ConfigError(f"{', '.join(missing)} must be given: {training_command()} ... {typed}")
    values: Any = OmegaConf.to_container(config, resolve=True)
    return values
