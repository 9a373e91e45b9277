"""The paths and links in the documents exist, and their commands work as printed."""

import ast
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers.builders import CONF, assert_equal, randomised
from helpers.pages_of_docs import CODE, ROOT
from hydra import compose, initialize_config_dir
from torch import Tensor

import seq2seq
from seq2seq.attention import ATTENTION, Attention, Role
from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.models import build_model
from seq2seq.testing import check_mechanism
from seq2seq.training.config.plan import check_config
from seq2seq.training.run import plain_values

FETCHED = "multi30k|iwslt14|wmt14|scan|g2p|inflection|copy|reverse"  # or made by a script
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def prose(document: Path) -> str:
    return CODE.sub("", document.read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_in_the_documents_exists(document: Path) -> None:
    named = re.findall(r"`((?:seq2seq|conf|tests|docs|scripts|data)/[\w./-]*)`", prose(document))
    # A mechanism that the reader is to write; corpora that the reader fetches; results of a run.
    ours = [
        path
        for path in named
        if not re.search(
            r"nearby|data/(multi30k|iwslt14|wmt14|scan|g2p|inflection|copy|reverse)|^runs/", path
        )
    ]
    # `data/demo/train` means the files data/demo/train.*.
    missing = [path for path in ours if not (ROOT / path).exists()]
    assert [path for path in missing if not any(ROOT.glob(f"{path}.*"))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", prose(document))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


def test_the_package_offers_the_names_of_the_api_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    public = {path.rpartition(".")[2]: path for path in re.findall("^::: (.+)$", page, re.M)}
    assert {*seq2seq.__all__} == {*public, "__version__"}
    for name, path in public.items():
        assert getattr(seq2seq, name) is pkgutil.resolve_name(path)


def public_names() -> set[tuple[str, str]]:
    """The module and name of each name in the table of docs/api.md."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(seq2seq[\w.]*)` \| (.*) \|$", page, re.M)
    return {(module, name) for module, names in rows for name in re.findall(r"`(\w+)`", names)}


def test_the_names_for_plug_ins_exist() -> None:
    assert public_names()
    for module, name in public_names():
        assert pkgutil.resolve_name(f"{module}:{name}").__doc__ or name in ("Array", "NAMES")


def imports_of_examples() -> set[tuple[str, str]]:
    """The module and name of everything that plug-ins of the pages import from the package."""
    package = ROOT / "docs" / "examples" / "attention-plugin"
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    for page in ("plugins.md", "gallery.md"):
        blocks = CODE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
        texts += [code for kind, code in blocks if kind == "python" and "__main__" not in code]
    nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
    return {
        (node.module or "", alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seq2seq")
        for alias in node.names
    }


def test_what_examples_import_is_public() -> None:
    found = {(module, name) for module, name in imports_of_examples() if module != "seq2seq"}
    assert len(found) > 15
    assert found - public_names() == set()


def test_importing_the_package_imports_no_torch() -> None:
    code = "import seq2seq, sys; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "False\n"


def commands() -> list[tuple[str, str]]:
    """The document and the overrides of every printed command that trains, except sweeps."""
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


def test_the_documents_contain_commands_that_train() -> None:
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
        check_config(plain_values(compose("train", overrides=["run_name=x", *overrides])), Path())


def rows() -> list[tuple[str, str]]:
    """The file and the name for each name on the map of the code."""
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


Nearby = Callable[..., dict[str, Any]]  # overrides -> configuration


@pytest.fixture
def nearby(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Nearby:
    """`attn=nearby` with further options, after the steps of CONTRIBUTING.md were followed."""
    (code,) = blocks("python")
    (preset,) = blocks("yaml")
    module = ModuleType("nearby")
    monkeypatch.setitem(sys.modules, "nearby", module)
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    monkeypatch.setitem(ATTENTION, "nearby", module.__dict__["Nearby"])
    (tmp_path / "attn").mkdir()
    (tmp_path / "attn" / "nearby.yaml").write_text(preset, encoding="utf-8")
    search = f"hydra.searchpath=[file://{tmp_path}]"

    def config(*overrides: str) -> dict[str, Any]:
        ours = ("run_name=x", "attn=nearby", "attn.radius=2", "model.dim=32", "model.ffn_dim=24")
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return plain_values(compose("train", overrides=[*ours, search, *overrides]))

    return config


SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 11, EOS], [9, 8, 7, 6, EOS, PAD, PAD, PAD]])
TARGET = torch.tensor([[BOS, 5, 6, 7, 8, 9, 10], [BOS, 10, 9, 8, 7, 6, 5]])


def model_of(config: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return randomised(build_model(check_config(config, Path()).model, 20, 20))


def test_the_example_in_contributing_is_ten_lines_and_trains_as_typed(nearby: Nearby) -> None:
    (code,) = blocks("python")
    body = re.sub(r'""".*?"""', "", code.partition("class Nearby")[2], flags=re.S)
    assert len([line for line in body.splitlines() if line.strip()]) <= 10
    config = nearby()
    attention = check_config(config, Path()).model["attention"]
    names = {role: options["name"] for role, options in attention.items()}
    assert names == {"encoder": "nearby", "decoder": "nearby", "cross": "multihead"}
    assert attention["encoder"]["radius"] == 2
    assert all(ATTENTION["nearby"].cost(config["attn"]))
    model = model_of(config).train()
    model(SOURCE, TARGET).hidden.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.decoder.parameters())


@pytest.mark.usefixtures("nearby")
@pytest.mark.parametrize("groups", [1, 4])
def test_the_example_keeps_the_contract_of_attention(groups: int) -> None:
    check_mechanism(ATTENTION["nearby"], num_heads=4, num_kv_heads=groups, radius=2)


@pytest.mark.parametrize("role", [Role.ENCODER, Role.DECODER])
def test_the_example_reads_only_the_neighbourhood_and_shows_its_weights(
    nearby: Nearby, role: Role
) -> None:
    modules = [m for m in model_of(nearby()).modules() if isinstance(m, Attention)]
    attention = next(m for m in modules if m.place.role is role)
    x = torch.randn(1, 9, 32, dtype=torch.float64)
    weights = attention(x, need_weights=True).weights[0]
    distance = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    future = torch.arange(9)[:, None] < torch.arange(9)
    hidden: Tensor = (distance > 2) | (future if role is Role.DECODER else False)
    for head in weights:
        assert torch.equal(head == 0, hidden)
    assert_equal(weights.sum(-1), torch.ones(4, 9, dtype=torch.float64))
