"""The attention zoo: the table of all mechanisms, and the function that builds them.

To add a mechanism, write a class in a new file of this folder, modelled on `TokenAttention`, and
add a line to the table and a preset to conf/attn, where the contract tests find it. A separate
package can also add a mechanism: see `plugins`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from seq2seq.attention.base import Attention, Cost, Place, Role
from seq2seq.attention.context import GlobalContext, HierarchicalContext
from seq2seq.attention.dynamic import DynamicContext
from seq2seq.attention.efficient import Efficient
from seq2seq.attention.fixed import Fixed
from seq2seq.attention.latent import Latent
from seq2seq.attention.linear import Linear
from seq2seq.attention.linformer import Linformer
from seq2seq.attention.longformer import Longformer
from seq2seq.attention.luong_local import LocalMonotonic, LocalPredictive
from seq2seq.attention.memory import Memory, StateMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.page_local import PageLocal
from seq2seq.attention.performer import Performer
from seq2seq.attention.reformer import Reformer
from seq2seq.attention.ssru import SSRU
from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable
from seq2seq.base.registry import check_options

ATTENTION: PluginTable[type[Attention[Any]]] = PluginTable(
    "attention",
    {
        # A softmax over all keys, with any score.
        "multihead": MultiHead,
        "mla": Latent,
        # A softmax over all keys, with keys or queries that depend on their context.
        "global_context": GlobalContext,
        "hierarchical_context": HierarchicalContext,
        "dynamic_context": DynamicContext,
        # A softmax over some keys.
        "page_local": PageLocal,
        "longformer": Longformer,
        "reformer": Reformer,
        "local_m": LocalMonotonic,
        "local_p": LocalPredictive,
        # A softmax over mixtures of all keys.
        "linformer": Linformer,
        # No softmax over keys: sums whose size does not depend on the length.
        "linear": Linear,
        "efficient": Efficient,
        "performer": Performer,
        # A recurrence over the tokens of the target.
        "ssru": SSRU,
        # No attention.
        "fixed": Fixed,
    },
    lambda entry: isinstance(entry, type) and issubclass(entry, Attention),
    "a class that derives from seq2seq.attention.Attention",
)


def build_attention(options: Mapping[str, Any], place: Place) -> Attention[Any]:
    """Build the mechanism called `options["name"]` for the given place.

    Args:
        options: preset of conf/attn as plain values: `name` and the keyword arguments of the class.
        place: role, widths and, in a self-attention, the position scheme it must support.

    Raises: ConfigError if the name or an option is unknown, or if the mechanism is not defined for
    the role or does not support the position scheme.
    """
    name, kwargs = split_name(options, f"{place.role}_attn")
    mechanism = ATTENTION.find(name)
    if place.role not in mechanism.roles:
        raise ConfigError(role_refusal(name, mechanism, place.role))
    check_options(mechanism, kwargs, f"{place.role}_attn")
    position = place.position
    if position is not None and position.hook not in mechanism.supports:
        raise ConfigError(position_refusal(name, mechanism, place.role, str(position.hook)))
    return mechanism(place, **kwargs)


def split_name(options: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """Split a configuration node into its `name` and the remaining options."""
    if "name" not in options:
        raise ConfigError(
            f"{where} has no name: choose one of {', '.join(sorted(ATTENTION.list_names()))}"
        )
    return options["name"], {key: value for key, value in options.items() if key != "name"}


def role_refusal(name: str, mechanism: type[Attention[Any]], role: Role) -> str:
    """Error message for a mechanism in the wrong role: the reason, its roles, and what to type."""
    defined = ", ".join(r.description for r in Role if r in mechanism.roles)
    others = preset_names(n for n, m in ATTENTION.items() if role in m.roles)
    return (
        f"{name} is not defined for {role.description}: {mechanism.role_refusals.get(role, '')}. "
        f"It is defined for: {defined}. For {role.description} choose for example: {others} "
        f"({training_command()} attn@{role}_attn=gqa)"
    )


def position_refusal(name: str, mechanism: type[Attention[Any]], role: Role, hook: str) -> str:
    """Error message for an unsupported position scheme: the reason, and what to type."""
    schemes = {
        "rotate": "position=rope",
        "bias": "position=alibi and position=t5",
        "relate": "position=transformer_xl",
    }
    reasons = dict(mechanism.position_refusals)
    if "bias" in mechanism.supports:
        reasons["bias"] = "it can add to its scores by distance only, not by distance and query"
    reason = reasons.get(  # without scores to add biases to, there are none to add "relate" to
        "bias" if hook == "relate" else hook, "it forms no scores that these positions could act on"
    )
    others = preset_names(n for n, m in ATTENTION.items() if role in m.roles and hook in m.supports)
    typed = f"{training_command()} attn@{role}_attn=gqa"
    instead = f", or for example: {others} ({typed})" if others else ""
    return (
        f"{name} in the {role.description} does not support "
        f"{schemes.get(hook, 'these positions')}: {reason}. Take position=sinusoidal{instead}"
    )


def preset_names(names: Iterable[str]) -> str:
    """Names to type for mechanisms: `gqa`, a preset, instead of `multihead`."""
    return ", ".join(sorted("gqa" if name == "multihead" else name for name in names))


__all__ = [
    "ATTENTION",
    "Attention",
    "Cost",
    "Memory",
    "Place",
    "Role",
    "StateMemory",
    "build_attention",
]
