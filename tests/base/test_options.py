"""Options that are declared in their class, and names of packages that are imported late."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

import seq2seq.decoding
from seq2seq.base.errors import ConfigError
from seq2seq.base.options import REQUIRED, Option, declarations, option
from seq2seq.base.registry import check_options


@dataclass
class Base:
    steps: int = option(REQUIRED, "updates", minimum=1)
    undeclared: float = 0.5


@dataclass
class Derived(Base):
    patience: float | None = option(1.0, "what ends a search; null: nothing", "P", 0, 100)
    betas: tuple[float, float] = option((0.9, 0.98), "decays", minimum=0, below=1)
    more: dict[str, Any] = option(dict, "anything")


def test_a_class_declares_its_options_and_those_of_its_base() -> None:
    declared = declarations(Derived)
    assert list(declared) == ["steps", "patience", "betas", "more"]
    assert declared["steps"] == Option("updates", None, 1)
    assert declared["patience"].maximum == 100 and Derived.patience == 1.0
    assert declarations(int) == {}


def test_a_mutable_default_is_created_for_each_object() -> None:
    assert Derived(3).more == {}
    assert Derived(3).more is not Derived(4).more


def test_all_values_out_of_range_are_reported_together() -> None:
    check_options(Derived, {"steps": 1, "patience": None, "betas": [0, 0.5], "more": {}}, "node")
    with pytest.raises(ConfigError) as caught:
        wrong = {"steps": 0, "patience": 101, "betas": [1, -0.5], "undeclared": -1e9}
        check_options(Derived, wrong, "node")
    assert str(caught.value).splitlines() == [
        "node.steps=0 should be at least 1",
        "node.patience=101 should be at least 0 and at most 100",
        "node.betas[0]=1 should be in [0, 1)",
        "node.betas[1]=-0.5 should be in [0, 1)",
    ]


def test_the_options_of_searches_do_not_import_torch() -> None:
    code = "import seq2seq.decoding.options, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_imports_its_public_names_when_they_are_asked_for() -> None:
    for name in seq2seq.__all__:
        assert getattr(seq2seq, name)
    for name in ("Beam", "SEARCHES", "build_search", "decode"):
        assert getattr(seq2seq.decoding, name)
    with pytest.raises(AttributeError, match=r"'seq2seq\.decoding' has no attribute 'Bean'"):
        _ = seq2seq.decoding.Bean
