"""The Hydra entry point of training: `python train.py`, `seq2seq train`, `python -m
seq2seq.training`.

Imports neither torch nor lightning, so that a misspelt option is reported at once.
"""

import errno
import os
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.base.environment import limit_kernel_cache, limit_thread_spinning, use_utf8
from seq2seq.base.errors import ConfigError, Seq2SeqError, fail, printable
from seq2seq.base.plugins import check_presets, preset_folders
from seq2seq.training.config.explain import explain_config_error
from seq2seq.training.run_folder import remove_empty_folders
from seq2seq.training.sweep import JobFailedError, Sweep, is_job, run_job

TRACEBACK = "SEQ2SEQ_TRACEBACK"  # environment variable, set if the user set HYDRA_FULL_ERROR


def start() -> str:
    """The value of `${start:}` in conf/train.yaml: the time when the run started or, under
    torchrun, the id of the run, which is the same in all its processes.
    """
    given = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"{datetime.now():%m%d-%H%M%S}" if given == "none" else given


def conf_dir() -> str:
    """The folder conf/: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "train.yaml").is_file():
            return str(folder)
    raise SystemExit("the folder conf/ with train.yaml is neither in the package nor beside it")


class PluginPresets(SearchPathPlugin):
    """Makes Hydra look for presets in the packages of plug-ins too, after the built-in ones."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder, source in preset_folders().items():
            search_path.append(provider=source, path=f"file://{folder}")


def check_recordable(texts: Iterable[str]) -> None:
    """Check that texts can be written as UTF-8, in which Hydra records options.

    Raises: ConfigError if a text cannot.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{text} is not valid UTF-8, but a run records its options and folder in UTF-8: "
                "rename it, or use a link to it"
            ) from error


def in_full(overrides: Iterable[str]) -> list[str]:
    """The overrides with `init=PATH` written out as `init.checkpoint=PATH`, so that other options
    of `init` can be given as well.
    """
    return [re.sub(r"^init=", "init.checkpoint=", typed) for typed in overrides]


def fit_or_explain(config: DictConfig) -> float | None:
    """Train. Raises: Seq2SeqError for anything that the user can fix, such as a full disk."""
    if HydraConfig.initialized():
        check_presets(HydraConfig.get().runtime.choices, Path(conf_dir()))
    from seq2seq.training import run  # imports torch, so only after Hydra has checked all names

    try:
        return run.fit(config)
    except OSError as error:  # such as a folder that cannot be written, or a full disk
        if TRACEBACK in os.environ:
            raise
        raise Seq2SeqError(explain_system_error(error)) from error


@hydra.main(version_base="1.3", config_path=conf_dir(), config_name="train")
def train_from_config(config: DictConfig) -> float | None:
    """Train as a configuration says. Returns: the best validation score, for sweeps."""
    if is_job():
        return run_job(fit_or_explain, config)
    try:
        return fit_or_explain(config)
    except Seq2SeqError as error:  # caught here, since Hydra would print its own lines first
        sys.exit(fail(str(error)))
    finally:
        remove_empty_folders()


def explain_system_error(error: OSError) -> str:
    """The message for an error of the operating system, with a remedy if the disk is full."""
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    room = ". Free some space; resume=auto continues from last.ckpt, if there is one"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{what} (HYDRA_FULL_ERROR=1 shows where){room if full else ''}"


def main() -> None:
    """Train from the command line. A user's mistake ends in one message, without a traceback. A
    sweep ends with one line per job, and with exit code 2 if a job failed.
    """
    wants_traceback = bool(os.environ.get("HYDRA_FULL_ERROR"))
    limit_thread_spinning()
    limit_kernel_cache()
    use_utf8()
    OmegaConf.register_new_resolver("start", start, use_cache=True, replace=True)
    Plugins.instance().register(PluginPresets)
    if wants_traceback:
        os.environ[TRACEBACK] = "1"
    # Makes Hydra raise its errors instead of printing advice that would be wrong here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        check_recordable([*sys.argv[1:], os.getcwd()])
        sys.argv[1:] = in_full(sys.argv[1:])
        train_from_config()
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))
    except JobFailedError:
        assert Sweep.started is not None
        sys.exit(fail(Sweep.started.summary()))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        known = isinstance(error, HydraException | OmegaConfBaseException)
        known = known or "Config group override" in str(error)  # Hydra's ValueError for model=null
        if wants_traceback or not known:
            raise
        sys.exit(fail(explain_config_error(error, conf_dir(), sys.argv[1:])))
    except OSError as error:  # from Hydra, which first of all creates the run's folder
        if wants_traceback:
            raise
        other = ". To choose another folder for the run, type hydra.run.dir=FOLDER"
        sys.exit(fail(explain_system_error(error) + (other if error.filename else "")))
    except Exception as error:  # from a launcher, if one of its processes was killed
        if wants_traceback or Sweep.started is None:
            raise
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        sys.exit(fail(f"{Sweep.started.summary()}\nThe launcher gave up: {reason}".strip()))
    if Sweep.started is not None and (summary := Sweep.started.summary()):
        print(printable(summary))
