"""Train the runs of a comparison, one after another, after checking all of them."""

import json
import math
import re
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

from seq2seq.attention import Role
from seq2seq.base.errors import ConfigError, Seq2SeqError, format_count
from seq2seq.checkpoint.folder import BEST
from seq2seq.comparison.splits import Parts
from seq2seq.training.config.explain import explain_config_error
from seq2seq.training.config.plan import Plan, check_config
from seq2seq.training.launch import check_recordable, conf_dir
from seq2seq.training.run import plain_values
from seq2seq.training.run_folder import RECORD, wait_for_run
from seq2seq.training.sweep import RESULT, quote, run_training

SIDES = ("source", "target")
UNDEFINED = "is not defined for"  # in the message about a mechanism in a role
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
SEVERAL = "to compare several, type presets such as attn=mha,additive,gqa"
SEEDS = "seed=1,2,3"  # unless the user types others


class Job(NamedTuple):
    """A run to train.

    Attributes:
        mechanism: name of the run without seed and learning rate.
        seed: option as typed, such as `seed=1`.
        rate: learning rate that this run tries; None if there is no choice.
        overrides: other arguments of train.py.
        plan: its checked plan.
    """

    folder: Path
    mechanism: str
    seed: str
    rate: str | None
    overrides: list[str]
    plan: Plan

    @property
    def is_trained(self) -> bool:
        return all((self.folder / name).is_file() for name in (RESULT, BEST))

    @property
    def score(self) -> float:
        """The best validation score, negated if less is better; NaN counts as the worst."""
        value = json.loads((self.folder / RESULT).read_text(encoding="utf-8"))["value"]
        worst = value is None or value != value
        return -math.inf if worst else value if self.plan.checkpoint.direction == "max" else -value


class Grid(NamedTuple):
    """The variations of the mechanisms that are compared.

    Attributes:
        reference: preset that the others replace in one role at a time.
        roles: names of the roles; none = replace it in all of them.
        rates: learning rates to choose from; none = that of the configuration.
    """

    reference: str
    roles: Sequence[str] = ()
    rates: Sequence[str] = ()


def plan_jobs(
    typed: Sequence[str], parts: Parts, languages: tuple[str, str], folder: Path, grid: Grid
) -> tuple[list[Job], list[str]]:
    """The runs for all combinations of the options, as in a sweep, already checked; and a message
    for each role in which a mechanism is not defined.

    Raises: ConfigError listing every run that train.py would refuse, and why.
    """
    check_recordable([*typed, str(folder.absolute())])
    keys = [option.partition("=")[0].lstrip("+~") for option in typed]
    check_keys(keys, grid)
    typed = typed if "seed" in keys else [*typed, SEEDS]
    sides = [f"data.{side}={quote(name)}" for side, name in zip(SIDES, languages, strict=True)]
    ours = ["data=files", *sides]
    for name, files in parts.files.items():
        ours.append(f"data.{name}=[{','.join(quote(file) for file in files)}]")
    given = [*(option for option in ours if option.partition("=")[0] not in keys), "resume=auto"]
    problems: list[str] = []
    undefined: dict[str, str] = {}
    jobs: list[Job] = []
    often: list[str] | None = None
    for mechanism, seed, options in combinations(typed, grid):
        for rate in grid.rates or (None,):
            tried = [] if rate is None else [f"optimizer.lr={rate}"]
            name = ",".join([*filter(None, [mechanism]), *tried, seed])
            try:
                if often is None:
                    often = validation_options(compose_run([*given, *options]), keys)
                if any(job.folder.name == name for job in jobs):
                    raise ConfigError("the same run twice")
                named = f"run_name={quote(name)}"
                arguments = [*given, named, *options, *tried, *often]
                config = plan_job(folder / name, arguments)
                jobs.append(Job(folder / name, mechanism, seed, rate, arguments, config))
            except Seq2SeqError as error:
                if grid.roles and UNDEFINED in str(error):
                    undefined[mechanism] = f"{mechanism} is left out: {error}"
                else:
                    problems.append(f"{name}: {error}")
    if problems or not jobs:
        raise ConfigError("\n".join([*problems, *undefined.values()]))
    if len({job.mechanism for job in jobs}) == 1 and not any(key[:4] == "attn" for key in keys):
        raise ConfigError(f"this is only one mechanism: {SEVERAL}")
    return jobs, list(undefined.values())


def check_keys(keys: Sequence[str], grid: Grid) -> None:
    """Check that options are for the user to set. Raises: ConfigError for the first that is not."""
    taken = dict(TAKEN)
    if grid.rates:
        taken["optimizer.lr"] = "--learning-rates lists its values"
    if grid.roles:
        taken |= {f"attn@{role}_attn": "--roles sets it" for role in Role}
    for key in keys:
        if reason := taken.get(key) or (key.startswith("hydra.") and taken["hydra"]):
            raise ConfigError(f"{key}=... cannot be set here: {reason}")


def combinations(typed: Sequence[str], grid: Grid) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the mechanism, the seed and the options of each run. The mechanism is named after the
    preset and the options that have several values.

    Raises: ConfigError if Hydra cannot read an option, or if a role has no mechanism to replace.
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
    swept = {option for values in choices if len(values) > 1 for option in values}
    presets = [o.removeprefix("attn=") for values in choices for o in values if o[:5] == "attn="]
    if grid.roles and len(presets) < 2:
        raise ConfigError(f"--roles replaces one mechanism by others: {SEVERAL}")
    first = grid.reference if grid.reference in presets else "".join(presets[:1])
    for options in product(*choices):
        for variant in replace_one_role(options, first, grid.roles):
            named = [
                option.removeprefix("attn=")
                for option in variant
                if (option in swept and not option.startswith("seed=")) or option.startswith("attn")
            ]
            seed = next((o for o in variant if o.startswith("seed=")), "seed=1")
            yield re.sub(r"[^\w.=,@+-]", "_", ",".join(named)), seed, variant


def replace_one_role(
    options: tuple[str, ...], reference: str, roles: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield options with the preset in each of the roles alone, and the reference in the others;
    the options themselves for the reference, or if there are no roles.
    """
    preset = next((o.removeprefix("attn=") for o in options if o.startswith("attn=")), reference)
    if not roles or preset == reference:
        yield options
        return
    others = tuple(f"attn={reference}" if o.startswith("attn=") else o for o in options)
    for role in roles:
        yield (*others, f"attn@{role}_attn={preset}")


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


def plan_job(folder: Path, options: list[str]) -> Plan:
    """The checked plan of a run.

    Raises: ConfigError if options are not valid, or if the folder holds a run with other options.
    """
    config = compose_run(options)
    if config.logger.name == "none":
        raise ConfigError("logger=none would leave no curves to draw: leave it out")
    check_record(folder, options)
    return check_config(plain_values(config), folder)


def check_record(folder: Path, options: Sequence[str]) -> None:
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


def train_all(jobs: Sequence[Job]) -> tuple[list[Job], list[str], list[str]]:
    """Train the runs that are not trained yet. A run that fails does not stop the others.

    If there are several learning rates, each mechanism tries all of them with the first seed, and
    the other seeds use the one with the best validation.

    Returns: the trained runs to compare, a message for each mechanism that tried learning rates,
        and one for each run that failed.
    """
    trials = [job for job in jobs if job.rate is None or job.seed == jobs[0].seed]
    failed = train_each(trials)
    chosen: dict[str, Job] = {}
    for job in filter(lambda job: job.is_trained, trials):
        rival = chosen.setdefault(job.mechanism, job)
        chosen[job.mechanism] = max(rival, job, key=lambda job: job.score)
    rates = {(name, job.rate) for name, job in chosen.items()}
    kept = [job for job in jobs if (job.mechanism, job.rate) in rates]
    failed += train_each([job for job in kept if job not in trials])
    tried = [describe_trials(job, trials) for job in chosen.values() if job.rate]
    return [job for job in kept if job.is_trained], tried, failed


def describe_budget(jobs: Sequence[Job]) -> str:
    """The number of runs: `6 runs: 2 mechanisms, 3 seeds`."""
    mechanisms, seeds, rates = (
        len({getattr(job, part) for job in jobs}) for part in ("mechanism", "seed", "rate")
    )
    runs = format_count(mechanisms * (rates + seeds - 1), "run")
    text = f"{runs}: {format_count(mechanisms, 'mechanism')}, {format_count(seeds, 'seed')}"
    return text if rates == 1 else f"{text}, {rates} learning rates each, tried with one seed"


def describe_trials(chosen: Job, trials: Sequence[Job]) -> str:
    """The learning rates that a mechanism tried, and the one with the best validation."""
    tried = [job for job in trials if job.mechanism == chosen.mechanism and job.is_trained]
    scores = ", ".join(f"{job.rate}: {abs(job.score):.4g}" for job in tried)
    return (
        f"{chosen.mechanism}: learning rate {chosen.rate}, the best of {len(tried)} tried with "
        f"{chosen.seed} ({chosen.plan.checkpoint.label} of the validation: {scores})"
    )


def train_each(jobs: Sequence[Job]) -> list[str]:
    """Train runs one after another. Returns: a message for each run that failed."""
    failed = []
    for n, job in enumerate(jobs, start=1):
        state = "trained already" if job.is_trained else "training"
        print(f"[{n}/{len(jobs)}] {job.folder.name}: {state}", file=sys.stderr, flush=True)
        wait_for_run(job.folder)
        if job.is_trained:
            continue
        code = run_training(job.overrides, job.folder)
        if code in (130, -2):
            raise KeyboardInterrupt
        if code:
            failed.append(f"{job.folder} is left out: training failed, code {code}")
    return failed
