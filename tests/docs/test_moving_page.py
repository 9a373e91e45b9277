"""docs/moving.md: the options that it gives for those of other toolkits exist."""

import re
from functools import cache
from typing import Any

import pytest
from helpers.builders import CONF
from helpers.pages_of_docs import ROOT
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

PAGE = (ROOT / "docs" / "moving.md").read_text(encoding="utf-8")
OWN = re.findall(r"^\| (`[^|]*) \| .* \| .* \| .* \|$", PAGE, re.M)
TYPED = sorted({word for cell in OWN for word in re.findall(r"`([^`]+)`", cell)})


@cache
def config_of(*overrides: str) -> Any:
    files = ("data=files", "data.source=a", "data.target=b", "data.train=x", "data.valid=x")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", overrides=[*files, *overrides])


def test_the_table_of_options_is_read() -> None:
    assert len(OWN) >= 30 and {"data.max_tokens", "init=RUN", "attn=general"} <= {*TYPED}


@pytest.mark.parametrize("typed", [word for word in TYPED if word != "power"])
def test_an_option_of_the_first_column_exists(typed: str) -> None:
    key, equals, value = typed.partition("=")
    chosen = ["model=rnn"] if key == "attn" else []
    group = [typed] if equals and "." not in key and key != "init" else []
    if key == "init":
        key = "init.checkpoint"
    config = config_of(*chosen, *group)
    if key == "hydra.run.dir":
        assert "  run:\n    dir: " in (CONF / "train.yaml").read_text(encoding="utf-8")
        return
    missing = object()
    assert OmegaConf.select(config, key, default=missing) is not missing
    if equals and "." in key and key != "init.checkpoint":
        text = (CONF / f"{key.split('.')[0]}/beam.yaml").read_text(encoding="utf-8")
        assert value in text


def test_the_peak_of_the_schedule_is_computed_rightly() -> None:
    found = re.search(r"([\d.]+) x (\d+)\^-0\.5 x (\d+)\^-0\.5 = ([\d.e-]+\d)", PAGE)
    assert found
    factor, width, warmup, peak = map(float, found.groups())
    assert peak == pytest.approx(factor * width**-0.5 * warmup**-0.5, rel=0.01)
