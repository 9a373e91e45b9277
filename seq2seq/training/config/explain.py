"""Explains Hydra's errors in plain words: what was typed, what is known, what to type."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import preset_folders
from seq2seq.base.registry import did_you_mean


def explain_config_error(error: BaseException, folder: str, overrides: list[str]) -> str:
    """The message for an error in composing the configuration.

    Args:
        error: error from Hydra or OmegaConf.
        folder: path of conf/.
        overrides: overrides as typed.
    """
    text = str(error)
    if key := re.search(r"Could not override '([^']*)'", text):
        return explain_unknown_key(key.group(1), folder, overrides)
    if option := re.search(r"Could not find '([^']*)'", text):
        group, _, name = option.group(1).rpartition("/")
        folders = [Path(folder), *preset_folders()]
        options = sorted({p.stem for f in folders for p in (f / group).glob("*.yaml")})
        return f"unknown {group} {name!r}{did_you_mean(name, options)} Known: {', '.join(options)}"
    if "Config group override must be a string" in text:
        return "a group cannot be null: choose one of its options, for example logger=none"
    return (
        f"{text.strip()}\nOptions are typed as key=value or group=option; conf/ holds all of them. "
        "A value with spaces or non-ASCII letters needs quotes: 'data.train=\"Häuser/train\"'"
    )


def explain_unknown_key(key: str, folder: str, overrides: list[str]) -> str:
    """The message for an unknown option, with the known ones, such as
    `unknown option attn.num_kv_head; did you mean attn.num_kv_heads?`.
    """
    if role := re.match(r"(encoder|decoder|cross)_attn\b", key):
        return f"{role.group()} is not set: type a plus, +{key}=..., or attn@{role.group()}=mha"
    config = compose_groups(folder, overrides)
    group, _, word = key.partition(".")
    if group.endswith("attn") and (reason := explain_absence(config[group].get("name"), word)):
        return f"{key} means nothing here: {reason}"
    known = [*option_names(config), *groups(folder)]
    near = did_you_mean(key, known)
    if near == ".":  # nothing is similar: compare the last word with those of its node
        parent, _, word = key.rpartition(".")
        siblings = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == parent}
        near = did_you_mean(word, siblings)
    inside = sorted(k for k in known if k.startswith(f"{group}."))
    listing = inside or sorted({k.split(".")[0] for k in known} | set(groups(folder)))
    return f"unknown option {key}{near} Known: {', '.join(listing)}"


def explain_absence(name: str, option: str) -> str | None:
    """The reason why a mechanism lacks an option that others have; None if it gives no reason."""
    from seq2seq.attention import ATTENTION  # imported here, since torch takes a second

    try:
        return ATTENTION.find(name).absent_options.get(option)
    except ConfigError:  # another check reports unknown mechanisms
        return None


def compose_groups(folder: str, overrides: list[str]) -> dict[str, Any]:
    """The configuration that the groups among the overrides select, with references unresolved."""
    chosen = [o for o in overrides if o.split("=")[0].split("@")[0] in groups(folder)]
    GlobalHydra.instance().clear()
    with initialize_config_dir(folder, version_base="1.3"):
        try:
            config = compose("train", overrides=chosen)
        except Exception:  # a group is wrong too, so use the default ones
            config = compose("train")
    container = OmegaConf.to_container(config, resolve=False)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def groups(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir() if path.is_dir())


def option_names(node: Any, prefix: str = "") -> Iterator[str]:
    for key, value in node.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from option_names(value, f"{prefix}{key}.")
