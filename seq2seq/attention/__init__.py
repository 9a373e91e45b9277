"""The attention zoo on one page: which mechanisms exist, and the only door through which one is
built.

To add one: a file beside this one with a class after the pattern of `TokenAttention`, a line in the
table, and a preset in conf/attn; the contract tests find it there.
"""

from collections.abc import Mapping
from typing import Any

from seq2seq.attention.base import (
    Attended,
    Attention,
    Facts,
    Place,
    Position,
    Role,
    TokenAttention,
)
from seq2seq.attention.fixed import Fixed
from seq2seq.attention.memory import DenseMemory, Memory, StateMemory, TokenMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.reformer import Reformer
from seq2seq.errors import ConfigError
from seq2seq.tables import Table, check_options

ATTENTION: Table[type[Attention[Any]]] = Table(
    "attention", {"multihead": MultiHead, "fixed": Fixed, "reformer": Reformer}
)


def build_attention(options: Mapping[str, Any], place: Place) -> Attention[Any]:
    """Build the mechanism called `options["name"]` where `place` says.

    Args:
        options: a preset of conf/attn as plain values: `name` and the keyword arguments of the
            class.
        place: its role, widths and, in a self-attention, the position scheme it must honour.

    Raises: ConfigError for an unknown name or option, a role the mechanism is not defined in, or a
    position scheme that it cannot honour.
    """
    name, own = split_name(options, f"{place.role}_attn")
    mechanism = ATTENTION.find(name)
    if place.role not in mechanism.roles:
        raise ConfigError(refusal(name, mechanism, place.role))
    check_options(mechanism, own, f"{place.role}_attn")
    position = place.position
    if position is not None and position.hook not in mechanism.honours:
        raise ConfigError(
            f"{name} in the {place.role.description} forms no scores that these positions could "
            "act on. Take position=sinusoidal, or another mechanism for this role"
        )
    return mechanism(place, **own)


def split_name(options: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """`name` and the remaining options of a configuration node."""
    if "name" not in options:
        raise ConfigError(f"{where} has no name: choose one of {', '.join(sorted(ATTENTION))}")
    return options["name"], {key: value for key, value in options.items() if key != "name"}


def refusal(name: str, mechanism: type[Attention[Any]], role: Role) -> str:
    """Why a mechanism cannot stand in a role, where it can, and what to type."""
    defined = ", ".join(r.description for r in Role if r in mechanism.roles)
    # The softmax family is typed by the names of its presets.
    others = ", ".join(
        sorted(n if n != "multihead" else "mha" for n, m in ATTENTION.items() if role in m.roles)
    )
    return (
        f"{name} is not defined for {role.description}: {mechanism.undefined.get(role, '')}. "
        f"It is defined for: {defined}. For {role.description} choose for example: {others} "
        f"(python train.py attn@{role}_attn=gqa)"
    )


__all__ = [
    "ATTENTION",
    "Attended",
    "Attention",
    "DenseMemory",
    "Facts",
    "Memory",
    "Place",
    "Position",
    "Role",
    "StateMemory",
    "TokenAttention",
    "TokenMemory",
    "build_attention",
]
