"""The Hydra entry of training: `python train.py`, `seq2seq train` and `python -m seq2seq.training`.

Imports neither torch nor lightning, so that a misspelt option is answered at once.
"""

import os
import sys
from pathlib import Path

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from seq2seq.environment import keep_few_kernels, wait_briefly
from seq2seq.errors import Seq2SeqError, fail
from seq2seq.training.explain import explain
from seq2seq.training.resolvers import register_resolvers
from seq2seq.training.sweep import JobFailedError, Sweep, is_job, run_job


def conf_dir() -> str:
    """The folder of configurations: in an installed package inside it, in a checkout beside it."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "train.yaml").is_file():
            return str(folder)
    raise SystemExit("the folder conf/ with train.yaml is neither in the package nor beside it")


@hydra.main(version_base="1.3", config_path=conf_dir(), config_name="train")
def train(config: DictConfig) -> float | None:
    """Train what a configuration describes. Returns: the best validation score, for sweeps."""
    from seq2seq.training.fit import fit  # torch, only once the options are known to exist

    if is_job():
        return run_job(fit, config)
    try:
        return fit(config)
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))


def main() -> None:
    """Train. A mistake of the user ends in one message, without a traceback; a sweep ends in a line
    a job, with code 2 if one of them failed.
    """
    wait_briefly()
    keep_few_kernels()
    register_resolvers()
    wants_traceback = bool(os.environ.get("HYDRA_FULL_ERROR"))
    # Hydra then raises its errors instead of printing advice that would be wrong here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        train()
    except JobFailedError:
        assert Sweep.begun is not None
        sys.exit(fail(Sweep.begun.summary()))
    except (HydraException, OmegaConfBaseException) as error:
        if wants_traceback:
            raise
        sys.exit(fail(explain(error, conf_dir(), sys.argv[1:])))
    except ValueError as error:
        if wants_traceback or "Config group override" not in str(error):  # Hydra's, for model=null
            raise
        sys.exit(fail(explain(error, conf_dir(), sys.argv[1:])))
    except OSError as error:  # a folder that cannot be written, a full disk
        if wants_traceback:
            raise
        sys.exit(fail(f"{error} (HYDRA_FULL_ERROR=1 shows where)"))
    if Sweep.begun is not None and (summary := Sweep.begun.summary()):
        print(summary)
