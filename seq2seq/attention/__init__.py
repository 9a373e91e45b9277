"""The attention zoo: the table of all mechanisms, and the function that builds them.

To add a mechanism, write a class in a new file of this folder, modelled on `TokenAttention`, and
add a line to the table and a preset to conf/attn, where the contract tests find it. A separate
package can also add a mechanism: see `plugins`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from seq2seq.attention.base import Attention as Attention
from seq2seq.attention.base import Cost as Cost
from seq2seq.attention.base import Place as Place
from seq2seq.attention.base import Position
from seq2seq.attention.base import Role as Role
from seq2seq.attention.context import GlobalContext, HierarchicalContext
from seq2seq.attention.dynamic import DynamicContext
from seq2seq.attention.efficient import Efficient
from seq2seq.attention.fixed import Fixed
from seq2seq.attention.latent import Latent
from seq2seq.attention.linear import Linear
from seq2seq.attention.linformer import Linformer
from seq2seq.attention.longformer import Longformer
from seq2seq.attention.luong_local import LocalMonotonic, LocalPredictive
from seq2seq.attention.memory import Memory as Memory
from seq2seq.attention.memory import StateMemory as StateMemory
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.page_local import PageLocal
from seq2seq.attention.performer import Performer
from seq2seq.attention.reformer import Reformer
from seq2seq.attention.scores import SCORES
from seq2seq.attention.ssru import SSRU
from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable
from seq2seq.base.registry import Table, check_options, options_of

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

# Presets of conf/attn whose mechanism is `multihead`, with the options that make them differ from
# `mha`, in which each head has its own keys and values.
MULTIHEAD_PRESETS: dict[str, dict[str, Any]] = {
    "mha": {},
    "gqa": {"num_kv_heads": None},
    "mqa": {"num_kv_heads": 1},
    "flash": {"kernel": "flash"},
    **{score: {"score": score} for score in SCORES},
}


def build(
    name: str,
    *,
    dim: int,
    num_heads: int = 1,
    role: Role | str | None = None,
    source_dim: int | None = None,
    position: Position | None = None,
    **options: Any,
) -> Attention[Any]:
    """Build a mechanism by the name that `attn=` takes, with the options of its preset.

        attention = build("gqa", dim=64, num_heads=4)
        out, weights = attention(torch.randn(2, 10, 64), need_weights=True)

    Args:
        name: name of a preset in conf/attn or of a plug-in's mechanism, such as `mla`.
        dim: width E of the queries and of the output.
        num_heads: number of query heads H, for mechanisms that have heads.
        role: `encoder`, `decoder` or `cross`; by default the first of these that the mechanism is
            defined for.
        source_dim: width of the tokens that are attended to; `dim` if None.
        position: position scheme that acts inside attention, such as
            `seq2seq.models.layers.positions.ALiBi(causal=False, dim=dim)`.
        options: further options of the mechanism, such as `dropout=0.1` (docs/options.md).

    Raises: ConfigError if there is no such role, and as `build_attention`.
    """
    chosen = resolve_preset({"name": name, "num_heads": num_heads, **options})
    mechanism = ATTENTION.find(chosen["name"])
    accepted = options_of(mechanism)
    if "num_heads" not in accepted:
        del chosen["num_heads"]
    if "num_kv_heads" in accepted and name != "multihead":
        chosen.setdefault("num_kv_heads", num_heads)
    first = next(each for each in Role if each in mechanism.roles)
    chosen_role = Table("role", {each.value: each for each in Role}).find(role or first)
    return build_attention(chosen, Place(chosen_role, dim, source_dim or dim, position))


def resolve_preset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose `name` is that of a class, from options whose name may be that of a preset.

    Raises: ConfigError if the name is neither.
    """
    name = options.get("name")
    if not isinstance(name, str) or ATTENTION.has(name):
        return dict(options)
    classes: dict[str, dict[str, Any]] = {known: {} for known in ATTENTION.list_names()}
    preset = Table("attention", {**classes, **MULTIHEAD_PRESETS}).find(name)
    heads = {"num_kv_heads": options.get("num_heads")}
    return {**heads, **preset, **options, "name": "multihead"}


def build_attention(options: Mapping[str, Any], place: Place) -> Attention[Any]:
    """Build the mechanism called `options["name"]` for the given place.

    Args:
        options: plain values: `name`, of a mechanism or of a preset in conf/attn, and the keyword
            arguments of the class.
        place: role, widths and, in a self-attention, the position scheme it must support.

    Raises: ConfigError if the name or an option is unknown, or if the mechanism is not defined for
    the role or does not support the position scheme.
    """
    name, kwargs = split_name(resolve_preset(options), f"{place.role}_attn")
    mechanism = ATTENTION.find(name)
    if place.role not in mechanism.roles:
        raise ConfigError(role_refusal(name, mechanism, place.role))
    check_options(mechanism, kwargs, f"{place.role}_attn")
    position = place.position
    if position is not None and position.hook not in mechanism.supports:
        raise ConfigError(position_refusal(name, mechanism, place, str(position.hook)))
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


def position_refusal(name: str, mechanism: type[Attention[Any]], place: Place, hook: str) -> str:
    """Error message for an unsupported position scheme: the reason, and what to type."""
    role, position = place.role, type(place.position)
    schemes = {
        "rotate": "position=rope",
        "bias": "position=alibi and position=t5",
        "relate": "position=transformer_xl",
    }
    reasons = dict(mechanism.position_refusals)
    if "bias" in mechanism.supports:
        reasons["bias"] = "it can add to its scores by distance only, not by distance and query"
    reason = reasons.get(  # without scores to add biases to, there are none to add "relate" to
        "bias" if hook == "relate" else hook,
        f"{mechanism.__name__} does not list {hook!r} in `supports`",
    )
    scheme = f"the positions of {position.__name__}"
    if position.__module__.startswith("seq2seq."):
        scheme = schemes.get(hook, scheme)
    others = preset_names(n for n, m in ATTENTION.items() if role in m.roles and hook in m.supports)
    typed = f"{training_command()} attn@{role}_attn=gqa"
    instead = f", or for example: {others} ({typed})" if others else ""
    return (
        f"{name} in the {role.description} does not support "
        f"{scheme}: {reason}. Take position=sinusoidal{instead}"
    )


def preset_names(names: Iterable[str]) -> str:
    """Names to type for mechanisms: `gqa`, a preset, instead of `multihead`."""
    return ", ".join(sorted("gqa" if name == "multihead" else name for name in names))
