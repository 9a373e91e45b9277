"""The position schemes that each mechanism supports, in one table."""

import pytest
import torch
from cases import DIM, Case, randn
from helpers.builders import model_config, presets

from seq2seq.attention import Role, heads
from seq2seq.base.errors import ConfigError
from seq2seq.functional.positions import distances
from seq2seq.models import check_model
from seq2seq.models.layers.positions import POSITIONS

SELF = (Role.ENCODER, Role.DECODER)

# In self-attention. yes: supported; free: allowed, changes nothing; no: refused with the reason;
# -: it is not defined for self-attention.
TABLE = """
    attn=                 rope  alibi  t5   transformer_xl

    mha                   yes   yes    yes  yes
    mqa                   yes   yes    yes  yes
    gqa                   yes   yes    yes  yes
    flash                 yes   yes    yes  yes
    mla                   yes   yes    yes  no

    dot                   yes   yes    yes  yes
    scaled_dot            yes   yes    yes  yes
    general               yes   yes    yes  yes
    gaussian              yes   yes    yes  yes
    additive              no    yes    yes  yes
    concat                no    yes    yes  yes
    concat_linear         no    yes    yes  yes

    page_local            yes   yes    yes  no
    longformer            yes   yes    yes  no
    reformer              yes   yes    yes  no
    performer             yes   no     no   no
    linear                no    no     no   no
    efficient             no    no     no   no
    linformer             no    no     no   no

    global_context        yes   yes    yes  yes
    hierarchical_context  yes   yes    yes  yes
    dynamic_context       yes   yes    yes  yes

    ssru                  free  no     no   no

    local_m               -     -      -    -
    local_p               -     -      -    -
    fixed                 -     -      -    -
"""
HEAD, *ROWS = [line.split() for line in TABLE.splitlines() if line]
MATRIX = {mechanism: dict(zip(HEAD[1:], cells, strict=True)) for mechanism, *cells in ROWS}


def cells(*wanted: str) -> pytest.MarkDecorator:
    """Run the test for every cell of the table that has one of these values."""
    parameters = [
        pytest.param(
            mechanism,
            scheme,
            marks=pytest.mark.skipif(mechanism not in presets("attn"), reason="no such preset"),
        )
        for mechanism, row in MATRIX.items()
        for scheme, cell in row.items()
        if cell in wanted
    ]
    return pytest.mark.parametrize(("mechanism", "scheme"), parameters)


def self_attentions(mechanism: str, scheme: str) -> list[Case]:
    cases = [Case(mechanism, "transformer", role, scheme) for role in SELF]
    return [case for case in cases if case.role in case.mechanism.roles]


def test_every_scheme_that_acts_inside_attention_has_a_column() -> None:
    inside = {n for n in presets("position") if POSITIONS[n].hook not in (None, "embed")}
    assert inside == set(HEAD[1:])
    assert {cell for row in MATRIX.values() for cell in row.values()} == {"yes", "free", "no", "-"}


@cells("yes")
def test_a_supported_scheme_changes_the_answer(mechanism: str, scheme: str) -> None:
    cases, x = self_attentions(mechanism, scheme), randn(1, 9, DIM)
    assert cases
    for case in cases:
        without = case._replace(position="none").build()
        assert (case.build()(x).out - without(x).out).abs().max() > 1e-6


@cells("free")
def test_a_scheme_without_anything_to_act_on_changes_nothing(mechanism: str, scheme: str) -> None:
    cases, x = self_attentions(mechanism, scheme), randn(1, 9, DIM)
    assert cases
    for case in cases:
        assert torch.equal(case.build()(x).out, case._replace(position="none").build()(x).out)


@cells("no")
def test_an_unsupported_scheme_is_refused_with_the_reason(mechanism: str, scheme: str) -> None:
    cases = self_attentions(mechanism, scheme)
    assert cases
    for case in cases:
        with pytest.raises(ConfigError) as caught:
            case.build()
        message = str(caught.value)
        assert case.role.description in message
        assert f"position={scheme}" in message and "Take position=sinusoidal" in message
        general = "it forms no scores that these positions could act on"
        assert general not in message, (
            f"say why: {case.mechanism.__name__}.position_refusals[{POSITIONS[scheme].hook!r}]"
        )


@pytest.mark.slow
@cells("yes", "free", "no", "-")
def test_a_model_is_refused_if_a_self_attention_is(mechanism: str, scheme: str) -> None:
    # The substitute (`elsewhere`) supports every scheme, and cross-attention skips it.
    config = model_config("transformer", f"attn={mechanism}", f"position={scheme}")
    if MATRIX[mechanism][scheme] == "no":
        with pytest.raises(ConfigError, match=f"position={scheme}"):
            check_model(config)
    else:
        check_model(config)


@pytest.mark.slow
@cells("no", "-")
def test_a_mechanism_without_a_scheme_may_be_used_in_cross_attention(
    mechanism: str, scheme: str
) -> None:
    if Role.CROSS in Case(mechanism, "transformer", Role.CROSS).mechanism.roles:
        overrides = (f"attn@cross_attn={mechanism}", f"position={scheme}")
        check_model(model_config("transformer", *overrides))


@cells("-")
def test_mechanisms_without_a_verdict_are_for_cross_attention_only(
    mechanism: str, scheme: str
) -> None:
    assert not self_attentions(mechanism, scheme)


@pytest.mark.parametrize("mechanism", ["mha", "mla"])
@pytest.mark.parametrize("scheme", ["rope", "alibi"])
def test_only_schemes_with_a_bias_compute_all_distances(
    mechanism: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []
    monkeypatch.setattr(heads, "distances", lambda p, S: measured.append(S) or distances(p, S))
    attention = Case(mechanism, "transformer", Role.ENCODER, scheme).build()
    attention(randn(2, 7, DIM))
    assert measured == ([7] if scheme == "alibi" else [])
