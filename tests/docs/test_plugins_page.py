"""docs/plugins.md, followed to the letter: the package that it describes trains and is used."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.pages_of_docs import ROOT
from helpers.plugin_packages import install
from helpers.tiny_runs import DEMO, train_command

PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "attention-plugin"


def files_of_page() -> dict[str, str]:
    """The files of the package that the page shows, each after a line that begins with its path."""
    shown = re.findall(r"^`([\w/]+\.\w+)`:.*?^```\w+\n(.*?)^```", PAGE, re.M | re.S)
    return {name: text for name, text in shown if not name.startswith("my")}


def file_beside(name: str) -> str:
    """A file of the page that is not part of the package."""
    (text,) = re.findall(rf"^`{re.escape(name)}`:.*?^```\w+\n(.*?)^```", PAGE, re.M | re.S)
    return str(text)


def read_project(text: str) -> dict[str, str]:
    """The entry points of a pyproject.toml, `attention.leaky` -> `leaky:Leaky`."""
    groups = tomllib.loads(text)["project"]["entry-points"]
    return {
        f"{group.removeprefix('seq2seq.')}.{name}": value
        for group, names in groups.items()
        for name, value in names.items()
    }


def command(site: Path | None, *words: str | Path) -> subprocess.CompletedProcess[str]:
    paths = [str(each) for each in (ROOT, site) if each]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    typed = [sys.executable, *map(str, words)]
    return subprocess.run(typed, env=environment, capture_output=True, text=True, timeout=300)


def seq2seq(site: Path | None, *words: str | Path) -> str:
    """Run a command, which must succeed. Returns: what it prints."""
    ended = command(site, "-m", "seq2seq", *words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the plug-in of the page, and that of the example."""
    folder, files = tmp_path_factory.mktemp("site"), files_of_page()
    entry_points = read_project(files.pop("pyproject.toml"))
    package = {name.removeprefix("toolbox/"): text for name, text in files.items()}
    install(folder, "toolbox", entry_points, package)
    entry_points = read_project((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
    source = EXAMPLE / "sparsemax_attention"
    package = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for path in source.rglob("*")
        if path.suffix in (".py", ".yaml")
    }
    install(folder, "sparsemax_attention", entry_points, package)
    return folder


@pytest.fixture(scope="module")
def run(site: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the first command of the page, and of sparsemax."""
    folder = tmp_path_factory.mktemp("run")
    (typed,) = re.findall(r"^seq2seq train (.*)$", PAGE, re.M)[:1]
    typed = [*typed.split(), "attn@cross_attn=sparsemax", "attn.stride=3"]
    small = [
        word
        for word in train_command(base, folder)[1:]
        if not word.startswith(("decode.beam_size", "data.vocab_size"))
    ]
    ended = command(site, *small, *typed, "data.vocab_size=null", "trainer.max_steps=4")
    assert ended.returncode == 0, ended.stderr
    return folder


TEXTS = ["Ein Hund läuft.", "Die Katze schläft.", "Ja."]


@pytest.mark.slow
def test_a_model_of_plug_ins_decodes_the_same_with_every_cache_and_in_workers(
    site: Path, run: Path
) -> None:
    options = ["--length-ratio", "1"]
    dense, paged, workers = (
        seq2seq(site, "translate", run, *options, "--nbest", "2", *more, *TEXTS)
        for more in (["--cache", "dense"], ["--cache", "paged"], ["--workers", "2"])
    )
    assert dense == paged == workers
    assert dense.strip()


@pytest.mark.slow
def test_a_model_of_plug_ins_is_drawn_and_scored(site: Path, run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    seq2seq(site, "align", run, TEXTS[0], "-o", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    texts = [tmp_path / f"test.{side}" for side in ("de", "en")]
    for path in texts:
        lines = (DEMO / path.name).read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:4]), encoding="utf-8")
    scores = seq2seq(site, "evaluate", texts[1], *texts, "--metrics", "bleu,found")
    assert "words found 100.0" in scores and "BLEU 100.0" in scores


SHORT = ("trainer.max_steps=1", "trainer.val_check_interval=1")


def test_mechanisms_with_memories_of_their_own_train_and_translate(
    site: Path, base: Path, tmp_path: Path
) -> None:
    (typed,) = re.findall(r"^seq2seq train (attn=one_stream .*)$", PAGE, re.M)
    ended = command(site, *train_command(base, tmp_path, *typed.split(), *SHORT)[1:])
    assert ended.returncode == 0, ended.stderr
    options = ("--length-ratio", "1", "--beam-size", "3")
    dense, paged = (
        seq2seq(site, "translate", tmp_path, *options, "--cache", cache, *TEXTS)
        for cache in ("dense", "paged")
    )
    assert dense == paged and len(dense.splitlines()) == len(TEXTS)


@pytest.mark.slow
def test_a_mechanism_that_does_not_list_a_hook_is_refused_with_that_reason(site: Path) -> None:
    words = ("attn=mha", "attn@decoder_attn=fading", "position=kerple")
    ended = command(site, ROOT / "train.py", *words)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "does not support the positions of Kerple" in ended.stderr
    assert "Fading does not list 'bias' in `supports`" in ended.stderr


def test_a_folder_of_presets_is_found(tmp_path: Path) -> None:
    (typed,) = re.findall(r"^seq2seq train (--config-dir .*)$", PAGE, re.M)
    file = tmp_path / "my/conf/attn/wide.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(file_beside("my/conf/attn/wide.yaml"), encoding="utf-8")
    words = [str(tmp_path / word) if word == "my/conf" else word for word in typed.split()]
    shown = command(None, ROOT / "train.py", *words, "--cfg", "job")
    assert "  num_heads: 2\n" in shown.stdout, shown.stderr


@pytest.mark.slow
def test_a_program_of_ones_own_adds_a_schedule(base: Path, tmp_path: Path) -> None:
    (typed,) = re.findall(r"^python my_train.py (.*)$", PAGE, re.M)
    program = tmp_path / "my_train.py"
    program.write_text(file_beside("my_train.py"), encoding="utf-8")
    run = tmp_path / "run"
    options = train_command(base, run, *typed.split(), *SHORT)
    ended = command(None, program, *options[2:])
    assert ended.returncode == 0, ended.stderr
    assert (run / "best.ckpt").is_file()


@pytest.mark.slow
def test_without_its_plug_ins_a_model_is_refused_by_name(run: Path) -> None:
    ended = command(None, "-m", "seq2seq", "translate", run, TEXTS[0])
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "toolbox-plugin 0.1" in ended.stderr and "pip install toolbox-plugin" in ended.stderr
    text = DEMO / "test.en"
    ended = command(None, "-m", "seq2seq", "evaluate", text, text, text, "--metrics", "found")
    assert ended.returncode == 2 and "there is no metric 'found'" in ended.stderr


@pytest.mark.slow
def test_the_classes_of_the_page_keep_the_contract(site: Path) -> None:
    calls = re.findall(r"^```python\n(from seq2seq.testing import.*?)^```", PAGE, re.M | re.S)
    assert len(calls) == 3  # a mechanism that hides keys, two with memories, a position scheme
    ended = command(site, "-c", "".join(calls))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_a_mechanism_that_breaks_the_contract_is_told_where(site: Path) -> None:
    """Each kind of mistake is named by the check that fails."""
    code = """
from seq2seq.attention.multihead import MultiHead
from seq2seq.testing import check_mechanism
class Reads(MultiHead):
    def visible(self, here, there):
        return there < 5
class Forgets(MultiHead):
    def new_memory(self):
        memory = super().new_memory()
        memory.keep = lambda rows: None
        return memory
class Shrinks(MultiHead):
    def attend_heads(self, *arguments):
        out, weights = super().attend_heads(*arguments)
        return out, weights if weights is None else weights / 2
for mistaken in Reads, Forgets, Shrinks:
    try:
        check_mechanism(mistaken, num_heads=4)
    except AssertionError as error:
        print(error)
"""
    ended = command(site, "-c", code)
    assert ended.returncode == 0, ended.stderr
    reads, forgets, shrinks = re.split(r"\w+ breaks the contract of attention\.", ended.stdout)[1:]
    assert "check_what_answers" not in reads + forgets + shrinks
    assert "check_keep" in forgets and "check_fork" in forgets and "check_steps" not in forgets
    assert "check_weights" in shrinks and "check_keep" not in shrinks
    assert "decoder self-attention, position=rope" in shrinks


@pytest.mark.slow
def test_the_example_package_is_tested_by_its_own_test(site: Path) -> None:
    test = EXAMPLE / "test_sparsemax.py"
    ended = command(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("position", ["alibi", "rope", "transformer_xl"])
def test_the_example_package_trains_with_positions(
    position: str, site: Path, base: Path, tmp_path: Path
) -> None:
    options = ("attn=sparsemax", f"position={position}", *SHORT)
    ended = command(site, *train_command(base, tmp_path, *options)[1:])
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_the_example_package_is_built_with_its_preset(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    source, site = tmp_path / "source", tmp_path / "site"
    for path in EXAMPLE.rglob("*"):  # elsewhere, because a build leaves files behind
        if path.suffix in (".py", ".yaml", ".toml"):
            copy = source / path.relative_to(EXAMPLE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    offline = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    ended = command(None, "-m", "pip", "install", "-q", *offline, "--target", site, source)
    assert ended.returncode == 0, ended.stderr
    shown = command(site, ROOT / "train.py", "attn=sparsemax", "--cfg", "job")
    assert "name: sparsemax" in shown.stdout, shown.stderr


def test_every_file_that_the_page_shows_is_used() -> None:
    files = files_of_page()
    assert len(files) == 13
    for value in read_project(files["pyproject.toml"]).values():
        module, _, name = value.partition(":")
        text = files[f"{module.replace('.', '/')}.py"]
        assert re.search(rf"^(class )?{name}\b", text, re.M)
