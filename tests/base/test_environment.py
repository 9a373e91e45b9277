"""How idle threads wait, which kernels are cached, and what happens to freed memory."""

import ast
import gc
import os
import platform
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from helpers.builders import CONF
from packaging.requirements import Requirement

import seq2seq
from seq2seq.base.environment import (
    defer_collection,
    limit_kernel_cache,
    limit_thread_spinning,
    training_command,
)

CAPACITY = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that what the function under test sets is undone as well.
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", *CAPACITY):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_threads_spin_for_a_moment_by_default() -> None:
    limit_thread_spinning()
    assert 0 < int(os.environ["GOMP_SPINCOUNT"]) < 300_000


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", *CAPACITY])
def test_variables_that_the_user_has_set_are_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "7")
    before = dict(os.environ)
    limit = limit_kernel_cache if name in CAPACITY else limit_thread_spinning
    limit()
    assert dict(os.environ) == before


def test_deferred_collection_resumes_and_skips_objects_made_meanwhile() -> None:
    try:
        with pytest.raises(KeyError), defer_collection():
            left = [[] for _ in range(5000)]  # type: ignore[var-annotated]
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled()
        tracked = {id(each) for each in gc.get_objects()}
        assert len(left) == 5000 and not any(id(each) in tracked for each in left)
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("train.py", "python train.py"),
        ("/home/me/seq2seq/train.py", "python train.py"),
        ("/usr/lib/python3/site-packages/seq2seq/training/__main__.py", "seq2seq train"),
        ("/usr/bin/seq2seq", "seq2seq train"),
    ],
)
def test_messages_name_the_command_that_started_training(
    program: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "model.dim=7"])
    assert training_command() == command


def test_only_one_module_names_the_training_script() -> None:
    """Docstrings and comments may name it."""
    naming = []
    for path in Path(seq2seq.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        strings = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs)
        naming += [path.name for string in strings if "train.py" in str(string.value)]
    assert set(naming) == {"environment.py"}


def test_malicious_releases_of_lightning_are_never_installed() -> None:
    project = tomllib.loads((CONF.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (one,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "lightning")
    releases = ["2.6.1", "2.6.2", "2.6.3", "2.6.4"]
    assert list(one.specifier.filter(releases)) == ["2.6.1", "2.6.4"]


KERNELS = """
from seq2seq.base.environment import limit_kernel_cache
limit_kernel_cache()
import torch

weight = torch.zeros(16, 16, dtype=torch.bfloat16)
for rows in [*range(20, 80), 79, 20]:
    print("rows", rows, flush=True)
    torch.nn.functional.linear(torch.zeros(rows, 16, dtype=torch.bfloat16), weight)
"""


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="of torch with oneDNN")
def test_only_recent_kernels_stay_cached() -> None:
    environment = {**os.environ, "ONEDNN_VERBOSE": "profile_create"}
    result = subprocess.run(
        [sys.executable, "-c", KERNELS], check=True, capture_output=True, text=True, env=environment
    )
    *_, before, again, first = result.stdout.split("rows ")
    if "cache_miss" not in before:
        pytest.skip("products in bfloat16 do not go through oneDNN here")
    assert "cache_hit" in again and "cache_miss" not in again
    assert "cache_miss" in first


FREED_AND_TAKEN_AGAIN = """
import resource, sys
from seq2seq.base.environment import keep_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(b"x") * 2**23
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

default = faults()
keep_memory()
print(default, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of the C library of GNU")
def test_freed_memory_is_reused_without_page_faults() -> None:
    # In a separate process, since the setting cannot be undone.
    command = [sys.executable, "-c", FREED_AND_TAKEN_AGAIN]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    default, kept = map(int, result.stdout.split())
    assert kept < default / 4, (default, kept)
