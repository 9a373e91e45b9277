"""docs/gallery.md: every mechanism has a block that runs, its paper and its picture."""

import re
import subprocess
import sys
from typing import Any

import draw_gallery
import pytest
import torch
from helpers.builders import CONF, presets, small
from helpers.pages_of_docs import CODE, ROOT
from zoo import describe_preset

import seq2seq.attention
from seq2seq.attention import Attention, Place, Role, build
from seq2seq.attention.roles import without_elsewhere
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import options_of

PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))
BLOCKS = [code for kind, code in CODE.findall(PAGE) if kind == "python"]


def test_every_mechanism_is_in_the_gallery() -> None:
    assert sorted(SECTIONS) == presets("attn") == draw_gallery.names()


@pytest.mark.parametrize("preset", presets("attn"))
def test_a_section_has_the_paper_the_formula_the_picture_and_a_short_block(preset: str) -> None:
    section = SECTIONS[preset]
    assert f"](images/gallery/{preset}.png)" in section
    assert (ROOT / "docs" / "images" / "gallery" / f"{preset}.png").is_file()
    assert re.search(r"^    \S", section, re.M), "there is no formula"
    ((kind, code),) = CODE.findall(section)
    assert kind == "python" and f'"{preset}"' in code
    statements = [line for line in code.splitlines() if line and not line.startswith("import")]
    assert 3 <= len(statements) <= 6
    cited = PAGE.partition(f"\n### {preset}\n")[0].rpartition("\n## ")[2].partition("\n###")[0]
    _, paper = describe_preset(CONF / "attn" / f"{preset}.yaml")
    for number in re.findall(r"arXiv:([\d.]+\d)", paper):
        assert f"https://arxiv.org/abs/{number}" in cited + section


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_runs(code: str) -> None:
    for seed in range(3):  # what a block claims of random numbers holds for others
        torch.manual_seed(seed)
        exec(compile(code, "docs/gallery.md", "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_runs_in_a_new_interpreter(code: str) -> None:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("preset", presets("attn"))
def test_build_takes_the_options_of_the_preset(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    original = seq2seq.attention.build_attention

    def recording(options: dict[str, Any], place: Place) -> Attention[Any]:
        built.append(options)
        return original(options, place)

    monkeypatch.setattr(seq2seq.attention, "build_attention", recording)
    expected = without_elsewhere(small("transformer", f"attn={preset}")["attn"])
    of_model: dict[str, Any] = {"dropout": 0.0, "length": 256}  # interpolations of other nodes
    mechanism = type(build(preset, dim=32, num_heads=expected.get("num_heads", 4)))
    defaults = {name: option.default for name, option in options_of(mechanism).items()}
    changed = {key: value for key, value in of_model.items() if key in expected}
    assert {**defaults, **built[0]} == {**expected, **changed}


def test_a_picture_shows_weights_of_its_mechanism_in_each_of_its_roles() -> None:
    """Rows of maps sum to one, a decoder sees no future, and local_m its window."""
    for role in Role:
        weights = draw_gallery.map_of("mha", role)
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))
    assert not draw_gallery.map_of("ssru", Role.DECODER).triu(1).any()
    weights = draw_gallery.map_of("local_m", Role.CROSS)
    rows, columns = (torch.arange(n) for n in weights.shape)
    assert torch.equal(weights > 0, (rows[:, None] - columns).abs() <= 2)
    assert len(draw_gallery.draw("mha").axes) == 3 and len(draw_gallery.draw("ssru").axes) == 1


def test_a_name_that_is_neither_preset_nor_mechanism_is_refused_with_all_names() -> None:
    with pytest.raises(
        ConfigError, match="'gaq'; did you mean 'gqa'.* Known: additive,.* mha, mla"
    ):
        build("gaq", dim=64)
    with pytest.raises(ConfigError, match="ssru is not defined for encoder self-attention"):
        build("ssru", dim=64, role="encoder")
    with pytest.raises(ConfigError, match="unknown option cross_attn.num_kv_heads"):
        build("fixed", dim=64, num_kv_heads=1)
