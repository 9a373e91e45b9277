"""What the documents say is where they say, and what they print works as printed."""

import re
import shlex
import sys
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers import CONF
from hydra import compose, initialize_config_dir
from torch import Tensor

from seq2seq.attention import ATTENTION, Attention, Role
from seq2seq.models import build_model
from seq2seq.symbols import BOS, EOS
from seq2seq.training.config.plan import check
from seq2seq.training.run import plain_values

ROOT = CONF.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def prose(document: Path) -> str:
    return CODE.sub("", document.read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`((?:seq2seq|conf|tests|docs|scripts|data)/[\w./-]*)`", prose(document))
    # A mechanism that the reader is to write; corpora that the reader fetches; results of a run.
    ours = [
        path
        for path in named
        if not re.search(r"nearby|data/(multi30k|iwslt14|wmt14|scan)|^runs/", path)
    ]
    # `data/demo/train` means the files data/demo/train.*.
    missing = [path for path in ours if not (ROOT / path).exists()]
    assert [path for path in missing if not any(ROOT.glob(f"{path}.*"))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", prose(document))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


def commands() -> list[tuple[str, str]]:
    """`document`, `overrides`: of every line in the documents that trains, sweeps aside."""
    typed = []
    for document in DOCUMENTS:
        # Pages whose blocks are run from top to bottom need no other proof; see test_guide.py.
        if document.relative_to(ROOT).as_posix() in ("docs/training.md", "docs/own-data.md"):
            continue
        for kind, code in CODE.findall(document.read_text(encoding="utf-8")):
            if kind == "bash":
                lines = code.replace("\\\n", " ")
                values = dict(re.findall(r'^(\w+)="([^"]*)"$', lines, re.M))
                for line in re.findall(r"^(?:\w+=\S+ )*python train\.py ([^#\n]*)", lines, re.M):
                    typed.append((document.name, Template(line).safe_substitute(values).strip()))
    return [(name, line) for name, line in typed if not line.startswith("-m ")]


def test_the_documents_train() -> None:
    assert {"README.md", "attention.md"} <= {name for name, _ in commands()}


@pytest.mark.parametrize(
    ("document", "typed"),
    [
        pytest.param(*each, marks=pytest.mark.slow) if each[0] != "README.md" else each
        for each in commands()
    ],
)
def test_every_command_that_trains_is_accepted_as_printed(document: str, typed: str) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = [o for o in shlex.split(typed) if not o.startswith("hydra.")]
        check(plain_values(compose("train", overrides=["run_name=x", *overrides])), Path())


def rows() -> list[tuple[str, str]]:
    """`path`, `name`: of each name that the map of the code gives behind a file."""
    found = []
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and line.count("|") == 3:
            quoted = re.findall(r"`([^`]+)`", line.split("|")[2])
            path = ""
            for word in quoted:
                path = word if "/" in word else path
                if path.endswith(".py") and word != path:
                    found.append((path, word))
    return found


def test_the_map_of_the_code_gives_names() -> None:
    assert len(rows()) >= 5


@pytest.mark.parametrize(("path", "name"), rows(), ids="-".join)
def test_every_name_on_the_map_of_the_code_is_in_its_file(path: str, name: str) -> None:
    defined = rf"^\s*(def |class )?{re.escape(name)}\b\s*[(:=]"
    assert re.search(defined, (ROOT / path).read_text(encoding="utf-8"), re.M)


def blocks(language: str) -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return [code for kind, code in CODE.findall(text) if kind == language]


PAGE = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
EXAMPLES = [code for kind, code in CODE.findall(PAGE) if kind == "python"]


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.strip().splitlines()[-1][:40])
def test_the_code_on_the_page_of_attention_runs(code: str) -> None:
    exec(compile(code, "docs/attention.md", "exec"), {})


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """`attn=nearby`, after the steps of CONTRIBUTING.md were followed."""
    (code,) = blocks("python")
    (preset,) = blocks("yaml")
    module = ModuleType("nearby")
    monkeypatch.setitem(sys.modules, "nearby", module)
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    monkeypatch.setitem(ATTENTION, "nearby", module.__dict__["Nearby"])
    (tmp_path / "attn").mkdir()
    (tmp_path / "attn" / "nearby.yaml").write_text(preset, encoding="utf-8")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = ["run_name=x", "attn=nearby", "attn.radius=2", "model.dim=32"]
        search = f"hydra.searchpath=[file://{tmp_path}]"
        return plain_values(compose("train", overrides=[*overrides, search]))


def nearby_model(config: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    plan = check(config, Path())
    return build_model(plan.model, 20, 20).double().eval()


def test_the_mechanism_in_contributing_trains_as_typed(config: dict[str, Any]) -> None:
    attention = check(config, Path()).model["attention"]
    names = {role: options["name"] for role, options in attention.items()}
    assert names == {"encoder": "nearby", "decoder": "nearby", "cross": "multihead"}
    assert attention["encoder"]["radius"] == 2


SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 11, EOS]])
TARGET = torch.tensor([[BOS, 5, 6, 7, 8, 9, 10]])


def test_the_mechanism_in_contributing_decodes_as_it_trains(config: dict[str, Any]) -> None:
    model = nearby_model(config)
    state = model.start(model.encode(SOURCE), 1)
    steps = [model.step(token, state).hidden for token in TARGET.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(SOURCE, TARGET).hidden)


def test_the_mechanism_in_contributing_does_not_see_the_future(config: dict[str, Any]) -> None:
    model = nearby_model(config)
    changed = TARGET.clone()
    changed[:, 4:] = 12
    expected, found = (model(SOURCE, target).hidden for target in (TARGET, changed))
    torch.testing.assert_close(found[:, :4], expected[:, :4])
    assert not torch.allclose(found[:, 4], expected[:, 4])


def test_the_mechanism_in_contributing_takes_positions_of_every_row(config: dict[str, Any]) -> None:
    model = nearby_model(config)
    attention = model.decoder[0].attention
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    positions = torch.arange(5).expand(2, 5)
    out = attention.advance(x, attention.new_memory(), positions).out
    torch.testing.assert_close(out, attention(x).out)
    cost = type(attention).cost(config["attn"])
    assert all(cost)


@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
def test_the_mechanism_in_contributing_reads_the_neighbourhood_alone(
    config: dict[str, Any], role: Role
) -> None:
    model = nearby_model(config)
    modules = [m for m in model.modules() if isinstance(m, Attention)]
    attention = next(m for m in modules if m.place.role is role)
    x = torch.randn(1, 9, 32, dtype=torch.float64)
    weights = attention(x, need_weights=True).weights[0, 0]
    distance = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    future = torch.arange(9)[:, None] < torch.arange(9)
    hidden: Tensor = (distance > 2) | (future if role is Role.DECODER else False)
    assert torch.equal(weights == 0, hidden)
    torch.testing.assert_close(weights.sum(-1), torch.ones(9, dtype=torch.float64))
