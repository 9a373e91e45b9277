"""What `train.py` makes of the options on its command line."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from helpers.builders import CONF
from seq2seq.base.errors import Seq2SeqError
from seq2seq.training.config.explain import explain_config_error
from seq2seq.training.config.plan import Plan, check_config
from seq2seq.training.run import plain_values


@cache
def values_of(*overrides: str) -> dict[str, Any]:
    """The plain configuration of a command line, or the error that Hydra raises. Read only."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return plain_values(compose("train", overrides=["run_name=test", *overrides]))


def checked_plan(*overrides: str) -> Plan:
    """The plan of a run in a folder that does not exist."""
    return check_config(values_of(*overrides), Path("nowhere"))


def complaint(*overrides: str) -> str:
    """The error message of `python train.py OVERRIDES`."""
    try:
        checked_plan(*overrides)
    except Seq2SeqError as error:
        return str(error)
    except (HydraException, OmegaConfBaseException) as error:
        return explain_config_error(error, str(CONF), list(overrides))
    pytest.fail(f"nothing is wrong with {overrides}")


@pytest.fixture(autouse=True)
def every_logger_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.training.loggers.is_installed", lambda package: True)
