"""The node of the configuration that decides each role."""

import pytest
from helpers.builders import composed

from seq2seq.attention import Role
from seq2seq.attention.roles import resolve_roles
from seq2seq.base.errors import ConfigError

ALL = frozenset(Role)


def chosen(*overrides: str) -> dict[str, tuple[str, str]]:
    """Role -> (name, node) for a command line of a Transformer."""
    roles = resolve_roles(composed(*overrides), ALL)
    return {role.value: (choice.options["name"], choice.node) for role, choice in roles.items()}


def test_a_role_without_a_node_takes_the_common_mechanism() -> None:
    common = ("multihead", "attn")
    assert chosen("attn=mqa") == {"encoder": common, "decoder": common, "cross": common}


def test_a_preset_names_a_substitute_for_roles_that_it_is_not_defined_for() -> None:
    elsewhere = ("multihead", "attn.elsewhere")
    assert chosen("attn=fixed") == {
        "encoder": elsewhere,
        "decoder": elsewhere,
        "cross": ("fixed", "attn"),
    }


def test_a_node_with_a_name_inherits_nothing() -> None:
    config = composed("attn=gqa", "attn@cross_attn=fixed")
    roles = resolve_roles(config, ALL)
    assert roles[Role.CROSS].node == "cross_attn"
    assert roles[Role.CROSS].options == {"name": "fixed", "pool": None, "project": True}
    assert roles[Role.ENCODER].options == config["attn"]


def test_a_node_without_a_name_overrides_single_options() -> None:
    roles = resolve_roles(composed("attn=mqa", "+cross_attn.dropout=0.3"), ALL)
    assert roles[Role.CROSS].options == {**roles[Role.ENCODER].options, "dropout": 0.3}
    over_elsewhere = resolve_roles(composed("attn=fixed", "+encoder_attn.dropout=0.3"), ALL)
    assert over_elsewhere[Role.ENCODER].options["dropout"] == 0.3
    assert over_elsewhere[Role.ENCODER].options["name"] == "multihead"
    assert "dropout" not in over_elsewhere[Role.CROSS].options


def test_the_node_of_a_role_that_the_model_lacks_is_refused() -> None:
    config = composed("model=rnn", "attn@decoder_attn=mha")
    with pytest.raises(ConfigError, match="no decoder self-attention: leave decoder_attn out"):
        resolve_roles(config, frozenset({Role.CROSS}))


def test_the_configuration_is_not_changed() -> None:
    config = composed("attn=fixed", "+cross_attn.pool=mean")
    before = str(config)
    resolve_roles(config, ALL)[Role.CROSS].options["pool"] = "changed"
    assert str(config) == before
