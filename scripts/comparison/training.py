"""Train the runs of a comparison, one after another, after checking all of them."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from comparison.splits import Parts
from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.checkpoint.folder import BEST
from seq2seq.training.config.explain import explain_config_error
from seq2seq.training.config.plan import Plan, check_config
from seq2seq.training.launch import check_recordable, conf_dir
from seq2seq.training.run import plain_values
from seq2seq.training.run_folder import RECORD
from seq2seq.training.sweep import RESULT

SIDES = ("source", "target")
VALIDATIONS = 10  # minimum number of validations per run, so that there is a curve
# Options that the user cannot set here, and what to type instead.
TAKEN = {
    "data": "the two files are the data",
    "data.train": "the two files are the data",
    "data.valid": "--valid SOURCE TARGET",
    "data.test": "--test SOURCE TARGET",
    "resume": "interrupted runs are continued automatically",
    "run_name": "-o FOLDER",
    "hydra": "-o FOLDER",
}


class Job(NamedTuple):
    """A run to train: its folder, its other arguments of train.py, and its checked plan."""

    folder: Path
    overrides: list[str]
    plan: Plan

    @property
    def is_trained(self) -> bool:
        return all((self.folder / name).is_file() for name in (RESULT, BEST))


def plan_jobs(
    typed: Sequence[str], parts: Parts, languages: tuple[str, str], folder: Path
) -> list[Job]:
    """The runs for all combinations of the options, as in a sweep, already checked.

    Raises: ConfigError listing every run that train.py would refuse, and why.
    """
    check_recordable([*typed, str(folder.absolute())])
    keys = [option.partition("=")[0].lstrip("+~") for option in typed]
    for key in keys:
        if reason := TAKEN.get(key) or (key.startswith("hydra.") and TAKEN["hydra"]):
            raise ConfigError(f"{key}=... cannot be set here: {reason}")
    sides = [f"data.{side}={quote(name)}" for side, name in zip(SIDES, languages, strict=True)]
    ours = ["data=files", *sides, "seed=1"]
    for name, files in parts.files.items():
        ours.append(f"data.{name}=[{','.join(quote(file) for file in files)}]")
    given = [*(option for option in ours if option.partition("=")[0] not in keys), "resume=auto"]
    problems: list[str] = []
    jobs: list[Job] = []
    often: list[str] | None = None
    for name, options in combinations(typed):
        try:
            if often is None:
                often = validation_options(compose_run([*given, *options]), keys)
            if any(job.folder.name == name for job in jobs):
                raise ConfigError("the same run twice")
            named = f"run_name={quote(name)}"
            jobs.append(plan_job(folder / name, [*given, named, *options, *often]))
        except Seq2SeqError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    if len(jobs) == 1 and not any(key.startswith("attn") for key in keys):
        raise ConfigError(
            "this is only one run: to compare several, type presets such as attn=mha,additive,gqa"
        )
    return jobs


def quote(value: object) -> str:
    """Quote a value for Hydra, so that it may contain any characters."""
    escaped = re.sub(r'(\\+)(?="|$)', r"\1\1", str(value)).replace('"', '\\"')
    return f'"{escaped}"'


def combinations(typed: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the options of each run. The name consists of the preset, the seed and the
    options that have several values.

    Raises: ConfigError if Hydra cannot read an option.
    """
    try:
        with initialize_config_dir(conf_dir(), version_base="1.3"):
            parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
            parsed = parser.parse_overrides(list(typed))
            choices = [
                [f"{each.get_key_element()}={value}" for value in each.sweep_string_iterator()]
                if each.is_sweep_override()
                else [option]
                for option, each in zip(typed, parsed, strict=True)
            ]
    except HydraException as error:
        raise ConfigError(explain_config_error(error, conf_dir(), list(typed))) from error
    for options in product(*choices):
        named = [
            option.removeprefix("attn=")
            for option, all_of_it in zip(options, choices, strict=True)
            if len(all_of_it) > 1 or option.startswith(("attn=", "seed="))
        ]
        if not any(option.startswith("seed=") for option in options):
            named.append("seed=1")
        yield re.sub(r"[^\w.=,@+-]", "_", ",".join(named)), options


def compose_run(options: list[str]) -> DictConfig:
    """The configuration of a command line. Raises: ConfigError if it is not valid."""
    try:
        with initialize_config_dir(conf_dir(), version_base="1.3"):
            return compose("train", overrides=options)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(explain_config_error(error, conf_dir(), options)) from error


def validation_options(config: DictConfig, typed: Sequence[str]) -> list[str]:
    """The options that make a run validate and save often enough, even if it has few updates;
    without options that the user has typed.
    """
    steps, interval = config.trainer.max_steps, config.trainer.val_check_interval
    if steps > 0:
        interval = min(interval, max(1, steps // VALIDATIONS))
    wanted = {"trainer.val_check_interval": interval, "checkpoint.every": interval}
    return [f"{key}={value}" for key, value in wanted.items() if key not in typed]


def plan_job(folder: Path, options: list[str]) -> Job:
    """A run, checked.

    Raises: ConfigError if options are not valid, or if the folder holds a run with other options.
    """
    config = compose_run(options)
    if config.logger.name == "none":
        raise ConfigError("logger=none would leave no curves to draw: leave it out")
    check_same_options(folder, options)
    return Job(folder, options, check_config(plain_values(config), folder))


def check_same_options(folder: Path, options: Sequence[str]) -> None:
    """Check that a folder holds no run with other options. Raises: ConfigError if it does."""
    record = folder / RECORD / "overrides.yaml"
    if not record.is_file():
        return
    before = [str(option) for option in OmegaConf.load(record)]
    if before != list(options):
        differing = sorted(set(before) ^ set(options))
        raise ConfigError(
            f"{folder} holds a run of other options ({', '.join(differing) or 'their order'}): "
            "choose another folder, -o ANOTHER, or remove this one"
        )


def train_all(jobs: Sequence[Job]) -> list[str]:
    """Train the runs that are not trained yet. A run that fails does not stop the others.

    Returns: one message for each run that failed.
    """
    failed = []
    for n, job in enumerate(jobs, start=1):
        state = "trained already" if job.is_trained else "training"
        print(f"[{n}/{len(jobs)}] {job.folder.name}: {state}", file=sys.stderr, flush=True)
        if job.is_trained:
            continue
        command = [sys.executable, "-m", "seq2seq.training", *job.overrides]
        ended = subprocess.run([*command, f"hydra.run.dir={quote(job.folder)}"])
        if ended.returncode in (130, -2):
            raise KeyboardInterrupt
        if ended.returncode:
            failed.append(
                f"{job.folder} is left out: its training failed with code {ended.returncode}"
            )
    return failed
