"""Names and options of a configuration: what is accepted, and the messages for the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import (
    Table,
    check_options,
    check_range,
    describe_type,
    matches,
    options_of,
)


class Layer:
    def __init__(
        self,
        place: object,
        *,
        width: int,
        rate: float = 0.1,
        kind: Literal["a", "b"] = "a",
        limit: int | None = None,
    ):
        pass


class Wide(Layer):
    absent_options: ClassVar[dict[str, str]] = {"rate": "a wide layer drops nothing"}

    def __init__(self, place: object, *, width: int = 9, depth: int, **options: Any):
        super().__init__(place, width=width, **options)


@dataclass
class Options:
    steps: int
    betas: tuple[float, float] = (0.9, 0.98)


def message_of(options: Mapping[str, Any], callable_: Any = Layer, where: str = "attn") -> str:
    with pytest.raises(ConfigError) as caught:
        check_options(callable_, options, where)
    return str(caught.value)


def test_a_name_finds_its_entry_also_one_added_later() -> None:
    table: Table[type] = Table("attention", {"layer": Layer})
    assert table.find("layer") is Layer
    table["mine"] = Options
    assert table.find("mine") is Options


def test_an_unknown_name_is_refused_with_the_nearest_and_all_known_names() -> None:
    table = Table("attention", {"gqa": 1, "mha": 2})
    with pytest.raises(ConfigError) as caught:
        table.find("gaq")
    assert str(caught.value) == "unknown attention 'gaq'; did you mean 'gqa'? Known: gqa, mha"
    with pytest.raises(ConfigError, match=r"unknown attention 'xyz'\. Known: gqa, mha"):
        table.find("xyz")


@pytest.mark.parametrize("name", [None, 7, ["gqa"], {"gqa": 1}])
def test_a_value_that_is_not_a_name_is_unknown(name: Any) -> None:
    with pytest.raises(ConfigError, match="unknown attention"):
        Table("attention", {"gqa": 1}).find(name)


def test_options_are_keyword_only_arguments_or_the_fields_of_a_dataclass() -> None:
    assert list(options_of(Layer)) == ["width", "rate", "kind", "limit"]
    assert list(options_of(Options)) == ["steps", "betas"]


def test_a_class_may_take_the_options_of_its_base_and_leave_some_out() -> None:
    assert set(options_of(Wide)) == {"width", "depth", "kind", "limit"}
    check_options(Wide, {"depth": 1, "kind": "b"}, "attn")
    assert message_of({"depth": 1, "kind": "c"}, Wide) == (
        "attn.kind='c' should be one of 'a', 'b', for example 'a'"
    )
    assert message_of({"depth": 1, "rate": 0.5}, Wide) == (
        "attn.rate=0.5 means nothing here: a wide layer drops nothing"
    )
    assert message_of({}, Wide) == "attn.depth is missing: a whole number"


def test_options_that_fit_are_accepted() -> None:
    check_options(Layer, {"width": 3}, "attn")
    check_options(Layer, {"width": 3, "rate": 1, "kind": "b", "limit": None}, "attn")
    check_options(Options, {"steps": 3, "betas": [0.9, 0.999]}, "optimizer")


def test_all_problems_are_reported_at_once() -> None:
    assert message_of({"widht": 3, "rate": "lots", "kind": "c"}).splitlines() == [
        "unknown option attn.widht; did you mean 'width'? Accepted: kind, limit, rate, width",
        "attn.rate='lots' should be a number, for example 0.1",
        "attn.kind='c' should be one of 'a', 'b', for example 'a'",
        "attn.width is missing: a whole number",
    ]


def test_a_positional_argument_is_not_an_option() -> None:
    assert "unknown option attn.place" in message_of({"width": 3, "place": 1})


def test_options_at_the_top_have_no_prefix() -> None:
    assert message_of({"steps": "x"}, Options, "") == "steps='x' should be a whole number"


@pytest.mark.parametrize(
    "value, hint, fits",
    [
        (3, int, True),
        (3.0, int, False),
        (True, int, False),
        (3, float, True),
        (True, float, False),
        ("3", float, False),
        (1, bool, False),
        (False, bool, True),
        (None, int | None, True),
        (None, int, False),
        ("a", Literal["a", "b"] | None, True),
        ("c", Literal["a", "b"] | None, False),
        (["a"], Literal["a", "b"], False),
        ([1, 2], list[int], True),
        ([], list[int], True),
        ([1, "2"], list[int], False),
        ("12", list[int], False),
        ([0.9, 1], tuple[float, float], True),
        ([0.9], tuple[float, float], False),
        ([0.9, 1.0, 2.0], tuple[float, float], False),
        ([1, 2, 3], tuple[int, ...], True),
        ([1, "a"], tuple[int, str], True),
        (["a", 1], tuple[int, str], False),
        ({"a": 1}, dict[str, int], True),
        ([("a", 1)], Mapping[str, int], False),
        (object(), Any, True),
    ],
)
def test_a_value_matches_its_annotation(value: Any, hint: Any, fits: bool) -> None:
    assert matches(value, hint) is fits


@pytest.mark.parametrize(
    "hint, words",
    [
        (int, "a whole number"),
        (int | None, "a whole number or null"),
        (Literal["a", "b"], "one of 'a', 'b'"),
        (bool | float, "true or false or a number"),
        (tuple[float, ...], "a list of a number"),
        (list[str], "a list of a word"),
    ],
)
def test_an_annotation_is_described_in_words(hint: Any, words: str) -> None:
    assert describe_type(hint) == words


def test_a_range_includes_its_minimum_and_excludes_its_end() -> None:
    for fine in (None, 0, 0.5):
        check_range("attn.dropout", fine, 0, 1)
    for wrong in (-0.1, 1, float("nan")):
        with pytest.raises(ConfigError, match=rf"attn\.dropout={wrong} should be in \[0, 1\)"):
            check_range("attn.dropout", wrong, 0, 1)
    with pytest.raises(ConfigError, match=r"seed=-1 should be at least 0"):
        check_range("seed", -1, 0)
