"""The mechanism of each role, from the configuration nodes `attn` and `<role>_attn`."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from seq2seq.attention import ATTENTION, Role, split_name
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_options


class Assignment(NamedTuple):
    """The mechanism of one role, and the configuration node that it came from."""

    options: dict[str, Any]
    node: str  # `attn`, `attn.elsewhere` or `<role>_attn`

    @property
    def label(self) -> str:
        return ATTENTION.find(self.options["name"]).label(self.options)


def resolve_roles(config: Mapping[str, Any], roles: Collection[Role]) -> dict[Role, Assignment]:
    """Find the mechanism of each role that a model has.

    A role without its own node inherits `attn` or, if that mechanism is not defined for the role,
    the mechanism that the preset of `attn` names as `elsewhere`. A node with a `name` replaces the
    inherited mechanism. A node without a name (`+cross_attn.dropout=0.0`) only overrides options of
    it.

    Args:
        config: configuration as plain values; only `attn`, `encoder_attn`, `decoder_attn` and
            `cross_attn` are read.
        roles: roles that the model has.

    Raises: ConfigError if there is a node for a role that the model does not have, or if a name or
    an option is unknown.
    """
    chosen = {}
    for role in Role:
        node, given = f"{role}_attn", config.get(f"{role}_attn")
        if role not in roles:
            if given:
                raise ConfigError(
                    f"this model has no {role.description}: leave {node} out "
                    f"(it has: {', '.join(r.description for r in Role if r in roles)})"
                )
            continue
        inherited = inherit(config["attn"], role)
        if role is Role.CROSS and given and given.get("rope_dim"):
            raise ConfigError(
                f"{node}.rope_dim={given['rope_dim']}: source and target have no common axis of "
                f"positions to rotate by. Leave it out, or {node}.rope_dim=null"
            )
        if not given:
            chosen[role] = inherited
        elif "name" in given:
            chosen[role] = Assignment(without_elsewhere(given), node)
        else:
            chosen[role] = Assignment({**inherited.options, **given}, inherited.node)
    for choice in chosen.values():
        name, options = split_name(choice.options, choice.node)
        check_options(ATTENTION.find(name), options, choice.node)
    return chosen


def inherit(common: Mapping[str, Any], role: Role) -> Assignment:
    """The mechanism that a role inherits from `attn`."""
    elsewhere = common.get("elsewhere")
    if elsewhere and role not in ATTENTION.find(common["name"]).roles:
        return Assignment(without_elsewhere(elsewhere), "attn.elsewhere")
    return Assignment(without_elsewhere(common), "attn")


def without_elsewhere(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != "elsewhere"}
