"""`check_mechanism` names what a class accepts or declares and then ignores."""

import re
from typing import Any

import pytest
from helpers.builders import every_other
from torch import Tensor

from seq2seq.attention import Attention, Place, Role
from seq2seq.attention.context import HierarchicalContext
from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.ssru import SSRU
from seq2seq.testing import check_mechanism
from seq2seq.training.guided import explain_untrainable


class Honest(MultiHead):
    roles = frozenset({Role.ENCODER})
    role_refusals = dict.fromkeys((Role.DECODER, Role.CROSS), "it is for a test")


class Unplaced(Honest):
    """It ignores positions, whatever the scheme."""

    def __init__(self, place: Place, **options: Any):
        super().__init__(place._replace(position=None), **options)


class TurnsQueriesAlone(Honest):
    """What it remembers of a token does not depend on its position."""

    supports = frozenset({"rotate"})

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        return super().remember(x, positions * 0)


class HidesAndIgnores(Unplaced):
    """Its window depends on the order, but it ignores the scheme."""

    supports = frozenset({"bias"})

    def visible(self, here: Tensor, there: Tensor) -> Tensor:
        return (here - there).abs() <= 1


class NeverDrops(Honest):
    @property
    def dropout_now(self) -> float:
        return 0.0


class AlwaysDrops(Honest):
    @property
    def dropout_now(self) -> float:
        return self.dropout


class DropsWhereItIsWritten(Honest):
    """One of its kernels applies no dropout."""

    @property
    def dropout_now(self) -> float:
        return self.dropout if self.training and self.kernel != "fused" else 0.0


class OneScore(Honest):
    def __init__(self, place: Place, *, score: str = "scaled_dot", **options: Any):
        super().__init__(place, **options)


class OneHead(Honest):
    def __init__(self, place: Place, *, num_heads: int = 4, **options: Any):
        super().__init__(place, num_heads=1, **{**options, "num_kv_heads": 1})


class NoBias(Honest):
    def __init__(self, place: Place, *, bias: bool = False, **options: Any):
        super().__init__(place, **options)


class ClaimsGroups(Honest):
    reads_groups = True


class HidesGroups(HierarchicalContext):
    reads_groups = False


LIARS: dict[type[Attention[Any]], str] = {
    Unplaced: "position=rope.*blind to the order.*position=alibi.*position=t5.*position=transf",
    TurnsQueriesAlone: "position=rope.*blind to the order",
    HidesAndIgnores: "position=alibi.*it answers as without positions",
    NeverDrops: "check_dropout: it accepts `dropout` and drops nothing",
    AlwaysDrops: "check_dropout: ",
    DropsWhereItIsWritten: "kernel=fused.*check_dropout: it accepts `dropout` and drops nothing",
    OneScore: "check_option: it answers as with .*score=scaled_dot",
    OneHead: "check_option: it answers as with .*num_heads=2",
    NoBias: "check_option: it answers as with .*bias=True",
    ClaimsGroups: "check_groups: groups change the answer: False",
    HidesGroups: "check_groups: groups change the answer: True",
}


def breaches(mechanism: type[Attention[Any]]) -> str:
    with pytest.raises(AssertionError, match="breaks the contract of attention") as caught:
        check_mechanism(mechanism, num_heads=4)
    return str(caught.value).replace("\n", " ")


@pytest.mark.parametrize("liar", every_other(LIARS), ids=lambda liar: liar.__name__)
def test_an_option_that_is_declared_but_ignored_is_named(liar: type[Attention[Any]]) -> None:
    assert re.search(LIARS[liar], breaches(liar))


def test_a_class_that_does_what_it_declares_passes() -> None:
    check_mechanism(Honest, num_heads=4)


def test_a_recurrent_class_may_ignore_rotations() -> None:
    check_mechanism(SSRU)


class Negative(Honest):
    """Weights of the other sign, and the outputs that they give."""

    sums_to_one = False

    def attend_heads(self, *arguments: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        out, weights = super().attend_heads(*arguments, **options)
        return -out, None if weights is None else -weights


class Signed(Negative):
    signed_weights = True


def test_negative_weights_must_be_declared() -> None:
    check_mechanism(Signed, num_heads=2)
    with pytest.raises(AssertionError, match="check_weights: a weight is negative"):
        check_mechanism(Negative, num_heads=2)
    place = Place(Role.ENCODER, 32, 32)
    assert "some are negative" in str(explain_untrainable(Signed(place, num_heads=2)))


class Headless(SSRU):
    """It has no heads, and says that it adds a scheme's biases."""

    supports = frozenset({"bias"})


def test_a_mechanism_without_heads_is_checked_with_every_scheme_that_it_names() -> None:
    check_mechanism(Headless)  # its order of tokens comes from its steps
