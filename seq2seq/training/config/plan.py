"""Checks every name, value and role of a composed configuration before any file is read.

Neither Lightning nor sacreBLEU is imported here, so mistakes are reported in the first seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch

from seq2seq.attention import ATTENTION, Place, Role, build_attention
from seq2seq.attention.roles import Assignment, resolve_roles
from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.base.options import declarations
from seq2seq.base.registry import check_options, did_you_mean, options_of
from seq2seq.checkpoint.folder import LAST
from seq2seq.data.links.link_files import LinkFiles
from seq2seq.data.options import DataOptions
from seq2seq.decoding import SEARCHES, Search, build_search, check_coverage, engine_options
from seq2seq.models import MODELS, Seq2Seq, check_model
from seq2seq.models.layers.positions import POSITIONS
from seq2seq.text.tokenization.registry import TOKENIZERS, build_recipe
from seq2seq.training.compilation import check_compile
from seq2seq.training.config.options import (
    AUTO,
    FROM_CHECKPOINT,
    INT8_AWARE,
    CheckpointOptions,
    GuidedOptions,
    InitOptions,
    LossOptions,
    OptimizerOptions,
    RunOptions,
    TrainerOptions,
    ValidationOptions,
)
from seq2seq.training.config.packing import check_packed
from seq2seq.training.guided import GuidedHead, check_links, find_guided_head
from seq2seq.training.loggers import LoggerBuilder, read_logger
from seq2seq.training.optimizer import Schedule, build_schedule

T = TypeVar("T")

# Keys of conf/data that are only there for other keys of conf/ to refer to.
REFERRED = ("root", "steps", "vocab_size")

# The top level of conf/train.yaml: single options and nodes. A role may also have its own node.
ALONE = tuple(options_of(RunOptions))
NAMED_NODES = ("attn", "position", "tokenizer", "schedule", "model", "data", "decode", "logger")


@dataclass(frozen=True)
class PlainNodes:
    """The nodes that hold the options of one dataclass each."""

    init: InitOptions
    loss: LossOptions
    guided: GuidedOptions
    validation: ValidationOptions
    checkpoint: CheckpointOptions
    trainer: TrainerOptions
    optimizer: OptimizerOptions


PLAIN_NODES = get_type_hints(PlainNodes)
NODES = (*ALONE, *PLAIN_NODES, *NAMED_NODES)


@dataclass(frozen=True)
class Plan(PlainNodes):
    """A checked configuration: all that `run.train` needs, and nothing that belongs to Hydra."""

    folder: Path  # folder for the results
    run: RunOptions
    model: dict[str, Any]  # argument of `build_model`: model, position, attention
    decode: dict[str, Any]
    data: DataOptions
    tokenizer: dict[str, Any]
    guide: GuidedHead | None  # the head to train on links
    schedule: Schedule
    logger: LoggerBuilder
    attention: str  # the mechanism of each role, in words

    @property
    def resume(self) -> str | None:
        """The checkpoint to resume; processes may differ in what they find (`agree_on_path`)."""
        if self.run.resume != AUTO:
            return self.run.resume
        last = self.folder / LAST
        return str(last) if last.is_file() else None

    @property
    def link_files(self) -> LinkFiles:
        """The links to train a head on, and those to validate it with."""
        guided = self.guided
        return LinkFiles(guided.links, guided.valid, to_end=guided.unlinked == "end")

    @property
    def bpe_dropout(self) -> float:
        """The probability that a merge is skipped in training."""
        return float(self.tokenizer.get("dropout", 0.0))


def check_config(config: dict[str, Any], folder: Path) -> Plan:
    """Check every node of a plain configuration.

    Raises: ConfigError if anything is wrong, with all problems.
    """
    check_nodes(config)
    # Parts of the plan, each built when first needed: a check of two parts then also raises the
    # error of either part.
    plain: dict[str, Callable[[], Any]] = {
        name: cache(partial(build_options, options, config[name], name))
        for name, options in PLAIN_NODES.items()
    }
    loss, guided = plain["loss"], plain["guided"]
    run = cache(lambda: build_options(RunOptions, {name: config[name] for name in ALONE}, ""))
    values = {key: value for key, value in config["data"].items() if key not in REFERRED}
    data = cache(lambda: build_options(DataOptions, values, "data"))
    schedule = cache(lambda: build_schedule(config["schedule"]))
    logger = cache(lambda: read_logger(config["logger"]))
    roles = cache(lambda: resolve_roles(config, MODELS.find(config["model"]["name"]).roles))
    model = cache(lambda: describe_model(config, roles()))
    outline = cache(lambda: outline_model(model(), roles()))
    guide = cache(lambda: find_guided_head(guided(), outline()))
    check_all(
        outline,
        lambda: check_reach(outline(), data()),
        lambda: check_coverage(find_search(config["decode"]), outline()),
        lambda: engine_options(config["decode"]),
        lambda: check_length(config["position"], data().max_length),
        lambda: check_tokenizer(config),
        lambda: check_context(data(), config),
        lambda: check_names(config, roles()),
        *plain.values(),
        run,
        data,
        lambda: check_r_drop(loss().r_drop, model()),
        lambda: check_precision(plain["trainer"]().precision, plain["checkpoint"]().ema),
        lambda: check_compile(plain["trainer"](), outline()),
        lambda: check_readers(roles(), data().groups),
        lambda: check_links(guided(), data()),
        lambda: check_packed(plain, model(), outline()),
        guide,
        schedule,
        logger,
    )
    return Plan(
        folder=folder,
        run=run(),
        model=model(),
        decode=config["decode"],
        data=data(),
        tokenizer=config["tokenizer"],
        guide=guide(),
        schedule=schedule(),
        logger=logger(),
        attention=describe_roles(roles(), config["attn"]["name"]),
        **{name: options() for name, options in plain.items()},
    )


def check_all(*checks: Callable[[], object]) -> None:
    """Call all checks. Raises: ConfigError if any of them fails, with all problems."""
    problems = []
    for check in checks:
        try:
            check()
        except Seq2SeqError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


def check_nodes(config: Mapping[str, Any]) -> None:
    """Check the nodes on the top level of a configuration.

    Raises: ConfigError if a node is unknown or missing, or should be a group of options.
    """
    known = (*NODES, *(f"{role}_attn" for role in Role))
    problems = [
        f"unknown option {name}{did_you_mean(name, known)} Known: {', '.join(known)}"
        for name in config
        if name not in known
    ]
    problems += [f"{name} is missing" for name in NODES if name not in config]
    problems += [
        f"{name}={config[name]!r} should be a group of options, as in conf/train.yaml"
        for name in NODES
        if name not in ALONE and not isinstance(config.get(name, {}), Mapping)
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def build_options(options: Callable[..., T], values: Mapping[str, Any], where: str) -> T:
    check_options(options, values, where)
    return options(**values)


def check_tokenizer(config: Mapping[str, Any]) -> None:
    """Check the recipe of the tokenizers.

    Raises: ConfigError if it is impossible, or does not suit the model or the links.
    """
    model, tokenizer = config["model"], config["tokenizer"]
    if tokenizer.get("name") == FROM_CHECKPOINT:
        if config["init"].get("checkpoint") is None and config["resume"] in (None, AUTO):
            raise ConfigError("tokenizer=checkpoint takes the tokenizers of init=PATH: type both")
        if more := sorted(tokenizer.keys() - {"name"}):
            raise ConfigError(
                f"tokenizer.{more[0]} means nothing with tokenizers that are already learnt"
            )
        return
    recipe = build_recipe(tokenizer)
    if tokenizer.get("dropout") and config["guided"].get("links") is not None:
        raise ConfigError(
            f"tokenizer.dropout={tokenizer['dropout']} segments words differently in every "
            "epoch, but guided.links belong to the pieces without dropout: type "
            "tokenizer.dropout=0, or guided.links=null"
        )
    if model.get("tie") == "all" and not recipe.joint:
        raise ConfigError(
            "model.tie=all shares one matrix between languages, which needs one vocabulary: type "
            "tokenizer.joint=true, or model.tie=target"
        )


def check_context(data: DataOptions, config: Mapping[str, Any]) -> None:
    """Check that nothing changes, links or counts single sentences if sources have context.

    Raises: ConfigError otherwise.
    """
    corpora = data.train.values() if isinstance(data.train, dict) else ()
    rates = [data.augment, *(each.get("augment", {}) for each in corpora)]
    used = {
        "data.augment": any(any(each.values()) for each in rates),
        "tokenizer.dropout": config["tokenizer"].get("dropout"),
        "guided.links": config["guided"].get("links"),
        "decode.min_length_ratio": config["decode"].get("min_length_ratio"),
        "decode.coverage": config["decode"].get("coverage"),
    }
    for option in (name for name, value in used.items() if data.context and value):
        raise ConfigError(
            f"{option} is for sources of one sentence, and data.context={data.context} puts others "
            f"before it: leave one of them out"
        )


def describe_model(config: Mapping[str, Any], roles: Mapping[Role, Assignment]) -> dict[str, Any]:
    """The configuration that `seq2seq.models.build_model` takes."""
    attention = {role.value: choice.options for role, choice in roles.items()}
    return {"model": config["model"], "position": config["position"], "attention": attention}


def outline_model(model: Mapping[str, Any], roles: Mapping[Role, Assignment]) -> Seq2Seq:
    """The model, with shapes but without values.

    Raises: ConfigError if anything is wrong, with the mistakes of all attentions.
    """
    dim = model["model"].get("dim")
    mechanisms = (partial(check_assignment, *each, dim) for each in roles.items())
    check_all(*mechanisms, lambda: check_attention_dropout(model))
    return check_model(model)


def check_assignment(role: Role, choice: Assignment, dim: Any) -> None:
    """Build a single attention, so that the mistakes of all of them are reported at once."""
    if isinstance(dim, int) and dim > 0:
        with torch.device("meta"):
            build_attention(choice.options, Place(role, dim, dim))


def check_attention_dropout(model: Mapping[str, Any]) -> None:
    """Check that attention dropout has an effect.

    Raises: ConfigError if it is set, but no attention of the model has weights.
    """
    p, attention = model["model"].get("attention_dropout"), model["attention"].values()
    if p and not any("dropout" in options for options in attention):
        names = ", ".join(sorted({str(options["name"]) for options in attention}))
        raise ConfigError(
            f"model.attention_dropout={p} means nothing here: attention like {names} has no "
            "weights to drop. Type model.attention_dropout=0, or attn=mha"
        )


def find_search(decode: Mapping[str, Any]) -> Search:
    """The search for later translations; its length ratio is arbitrary if the corpus decides it."""
    if decode.get("length_ratio", 0) is None:
        decode = {**decode, "length_ratio": declarations(Search)["length_ratio"].maximum}
    return build_search(decode)


def check_names(config: Mapping[str, Any], roles: Mapping[Role, Assignment]) -> None:
    """Check that no plug-in has the name of a built-in mechanism, position scheme, search or
    tokenizer in use.

    Raises: ConfigError if one does.
    """
    for choice in roles.values():
        ATTENTION.check_unclaimed(choice.options["name"])
    POSITIONS.check_unclaimed(config["position"]["name"])
    SEARCHES.check_unclaimed(config["decode"]["name"])
    TOKENIZERS.check_unclaimed(config["tokenizer"]["name"])


def check_length(position: Mapping[str, Any], max_length: int) -> None:
    """Check that learned positions suffice for the longest sentence.

    Raises: ConfigError if there are fewer.
    """
    positions = position.get("length")
    if isinstance(positions, int) and positions < max_length:
        raise ConfigError(
            f"position.length={positions} is less than data.max_length={max_length}: longer "
            f"sentences would have no positions. Type data.max_length={positions}, or leave "
            "position.length out"
        )


def check_r_drop(r_drop: float, model: Mapping[str, Any]) -> None:
    """Check that R-Drop has an effect.

    Raises: ConfigError if it is used, but the model has no dropout.
    """
    names = ("dropout", "activation_dropout", "word_dropout")
    of_model = (model["model"].get(name) for name in names)
    of_weights = (options.get("dropout") for options in model["attention"].values())
    if r_drop and not any((*of_model, *of_weights)):
        raise ConfigError(
            f"loss.r_drop={r_drop} compares two dropout passes, but this model has no "
            "dropout: type model.dropout=0.3, for example, or loss.r_drop=0"
        )


def check_precision(precision: str, ema: float | None) -> None:
    """Check that weights are not both rounded and averaged for a validation.

    Raises: ConfigError if they would be.
    """
    if precision == INT8_AWARE and ema is not None:
        raise ConfigError(
            f"trainer.precision={precision} validates rounded weights, but checkpoint.ema={ema} "
            "validates their average: type checkpoint.ema=null, or trainer.precision=auto"
        )


def check_readers(roles: Mapping[Role, Assignment], groups: str) -> None:
    """Check that an attention to the source reads the groups of its tokens.

    Raises: ConfigError if there are groups, but no attention reads them.
    """
    readers_of_source = (choice for role, choice in roles.items() if role is not Role.DECODER)
    mechanisms = [ATTENTION.find(choice.options["name"]) for choice in readers_of_source]
    if groups != "none" and not any(mechanism.reads_groups for mechanism in mechanisms):
        readers = ", ".join(sorted(name for name, m in ATTENTION.items() if m.reads_groups))
        raise ConfigError(
            f"data.groups={groups} changes nothing here: no attention to the source reads groups. "
            f"Type data.groups=none, or choose one of {readers} ({training_command()} "
            f"attn={readers.split(', ')[0]} data.groups={groups})"
        )


def check_reach(model: Seq2Seq, data: DataOptions) -> None:
    """Check that every attention can read the longest source that the data may have.

    Raises: ConfigError if one cannot.
    """
    for attention in model.attentions:
        reach = attention.max_length
        if reach is not None and reach < data.max_length:
            raise ConfigError(
                f"attn.length={reach} in the {attention.place.role.description} is less than "
                f"data.max_length={data.max_length}: longer sources could not be read. "
                f"Type data.max_length={reach}, or leave attn.length out"
            )


def describe_roles(roles: Mapping[Role, Assignment], common: str) -> str:
    """The mechanisms of all roles in words:
    `encoder mha (fixed is not defined there), decoder mha (...), cross fixed`.
    """
    why = {"attn.elsewhere": f" ({common} is not defined there)"}
    return ", ".join(f"{role} {c.label}{why.get(c.node, '')}" for role, c in roles.items())
