"""Possible combinations run as typed; others are refused with the reason and what to type."""

import re
import shlex
from typing import Any, ClassVar

import pytest
from cases import BUILT, DIM, REFUSED, UNDEFINED, Case
from helpers.builders import SMALL, model_config, position_scheme, presets

from seq2seq.attention import ATTENTION, Place, Role, build_attention
from seq2seq.attention.fixed import Fixed
from seq2seq.base.errors import ConfigError
from seq2seq.models import MODELS, check_model
from seq2seq.models.layers.positions import PositionScheme


@pytest.mark.parametrize("preset", presets("attn"))
def test_every_preset_can_be_built_in_every_role_that_its_class_declares(preset: str) -> None:
    for model in SMALL:
        for role in Case(preset, model, Role.CROSS).mechanism.roles & MODELS[model].roles:
            plain = Case(preset, model, role)
            assert any(case._replace(kernel=plain.kernel) == plain for case in BUILT)


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("preset", presets("attn"))
def test_every_preset_runs_as_typed_in_every_model(preset: str, model: str) -> None:
    # Where the mechanism is not defined, its preset names a substitute (`elsewhere`).
    check_model(model_config(model, f"attn={preset}"))


@pytest.mark.parametrize("case", UNDEFINED, ids=str)
def test_a_wrong_role_is_refused_by_name(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        build_attention(case.options, Place(case.role, DIM, DIM))
    message = str(caught.value)
    assert f"{case.options['name']} is not defined for {case.role.description}" in message
    reason = case.mechanism.role_refusals[case.role]
    assert reason and reason in message
    for role in case.mechanism.roles:
        assert role.description in message.split("It is defined for")[1].split(".")[0]
    typed = re.search(r"\(seq2seq train (.*)\)", message)
    assert typed, "the message says what to type"
    check_model(model_config(case.model, f"attn={case.preset}", *shlex.split(typed[1])))


@pytest.mark.parametrize("case", UNDEFINED, ids=str)
def test_a_mechanism_chosen_for_a_role_is_never_replaced(case: Case) -> None:
    config = model_config(case.model, f"attn@{case.role}_attn={case.preset}")
    with pytest.raises(ConfigError, match=f"not defined for {case.role.description}"):
        check_model(config)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_an_impossible_kernel_or_position_is_refused_with_an_alternative(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        case.build()
    message = str(caught.value)
    asked, advised = message.split("Take ")
    option = "kernel" if f"kernel={case.kernel}" in asked else "position"
    assert option == "kernel" or f"position={case.position}" in asked
    assert advised.startswith(f"{option}=")


@pytest.mark.parametrize("preset", presets("attn"))
def test_a_position_that_a_mechanism_does_not_support_is_refused(preset: str) -> None:
    case = Case(preset, "transformer", Role.ENCODER)

    class Scheme(PositionScheme):
        hook: ClassVar[str | None] = "something_new"

    for role in case.mechanism.roles:
        with pytest.raises(ConfigError, match="position=sinusoidal"):
            build_attention(case.options, Place(role, DIM, DIM, Scheme(False, DIM)))


def test_a_refused_position_gives_the_reason_and_mechanisms_that_support_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Blind(Fixed):
        roles = frozenset(Role)
        position_refusals: ClassVar[dict[str, str]] = {"rotate": "it closes its eyes"}

    monkeypatch.setitem(ATTENTION, "blind", Blind)
    place = Place(Role.ENCODER, DIM, DIM, position_scheme("rope"))
    with pytest.raises(ConfigError) as caught:
        build_attention({"name": "blind"}, place)
    message = str(caught.value)
    assert "blind in the encoder self-attention does not support position=rope" in message
    assert "position=rope: it closes its eyes. Take position=sinusoidal, or" in message
    others = message.split("for example: ")[1].split(" (")[0].split(", ")
    assert {"gqa", "mla"} <= set(others) and not {"blind", "fixed", "multihead"} & set(others)
    typed = re.search(r"\(seq2seq train (.*)\)", message)
    assert typed, "the message says what to type"
    check_model(model_config("transformer", "attn=fixed", typed[1], "position=rope"))
    with pytest.raises(
        ConfigError, match=r"position=t5: Blind does not list 'bias' in `supports`\. .*=sinusoidal"
    ):
        build_attention({"name": "blind"}, place._replace(position=position_scheme("t5")))


def test_an_unknown_mechanism_is_refused_with_the_nearest_name() -> None:
    place = Place(Role.ENCODER, DIM, DIM)
    with pytest.raises(ConfigError, match="unknown attention 'multihed'; did you mean 'multihead'"):
        build_attention({"name": "multihed"}, place)
    with pytest.raises(ConfigError, match="encoder_attn has no name: choose one of"):
        build_attention({"num_heads": 4}, place)
    for name in ATTENTION:
        with pytest.raises(ConfigError):
            build_attention({"name": name, "no_such_option": 1}, place)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("longformer", {"window": 0}, "attn.window=0 should be"),
        ("longformer", {"num_global": -1}, "attn.num_global=-1 should be"),
        ("longformer", {"dropout": 1.0}, "attn.dropout=1.0 should be"),
        ("page_local", {"page": 0}, "attn.page=0 should be"),
        ("page_local", {"radius": -1}, "attn.radius=-1 should be"),
        ("local_m", {"radius": 0}, "attn.radius=0 should be at least 1"),
        ("local_p", {"radius": 0}, "attn.radius=0 should be at least 1"),
        ("performer", {"num_features": 0}, "attn.num_features=0 should be at least 1"),
        ("reformer", {"num_buckets": 7}, "attn.num_buckets=7 .* even.*: attn.num_buckets=8"),
        ("reformer", {"num_buckets": 0}, "attn.num_buckets=0 should be at least 2"),
        ("reformer", {"chunk": 0}, "attn.chunk=0 should be at least 1"),
        ("reformer", {"rounds": 0}, "attn.rounds=0 should be at least 1"),
        ("reformer", {"dropout": 1.0}, "attn.dropout=1.0 should be in"),
        ("reformer", {"num_heads": 5}, "num_heads=5 does not divide dim=32"),
    ],
)
def test_values_out_of_range_are_refused_with_what_to_type(
    name: str, options: dict[str, Any], message: str
) -> None:
    place = Place(min(ATTENTION[name].roles), DIM, DIM)
    with pytest.raises(ConfigError, match=message):
        build_attention({"name": name, "num_heads": 4, **options}, place)


def test_the_cases_cover_the_zoo() -> None:
    assert {"mha", "fixed"} <= {case.preset for case in BUILT}
    assert {case.role for case in BUILT} == set(Role)
    assert {case.model for case in BUILT} == set(SMALL)
    assert {case.options["name"] for case in BUILT} == set(ATTENTION)
