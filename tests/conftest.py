"""For every test: one thread, a fixed seed, and on request uninitialised memory full of NaN."""

import gc
import os

# Before torch is imported: waiting threads sleep instead of spinning on the cores of others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import random
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.chosen_kernels import are_kernels_chosen
from hypothesis import settings

torch.set_num_threads(1)

# torch lists the functions that make tensors when a device is first chosen, and `poisoned_memory`
# replaces some: listed then, a model "on meta" would take real memory in every later test.
with torch.device("meta"):
    torch.empty(0)

# No test fails because the machine or its disk is busy, nor because of what was drawn this time;
# `make test-all` draws other examples each time.
settings.register_profile("any machine", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("any machine")

# Tests started in the background of a script ignore Ctrl-C; what they start should not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Before Triton is imported, by tests of any folder."""
    if are_kernels_chosen(config) and not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


# Packages that `make test` or a command of its own installs, and programs of every system. A file
# that asks for others has tests that only `make test-services` is sure to run.
INSTALLED = {
    *("prometheus_client", "py3langid", "safetensors", "sentencepiece", "setuptools"),
    *("starlette", "triton", "uvicorn"),
    *("cc", "ip", "openssl", "slurmctld", "unshare"),
}
ASKED_FOR = re.compile(
    r"""(?:importorskip\(\s*f?|which\()["'](\w*)"""
    r"""|^from helpers import (?:\w+, )*(browser)\b""",
    re.M,
)


@cache
def asks_for_more(path: Path) -> bool:
    """Does a file of tests use a package or a program that may be missing after `make install`?"""
    found = ASKED_FOR.findall(path.read_text(encoding="utf-8"))
    return any("".join(names) not in INSTALLED for names in found)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.suffix == ".py" and asks_for_more(item.path):
            item.add_marker(pytest.mark.extras)


def pytest_collection_finish() -> None:
    """Collected tests live to the end: the garbage collector need not traverse them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Each test computes in one thread and draws the same numbers, whether it runs alone or among
    others: CTranslate2, for example, changes the number of threads.
    """
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what libraries draw from
    # Not torch.manual_seed: for devices that are absent it records a traceback each time.
    torch.default_generator.manual_seed(0)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the tiny corpus and the runs on it."""
    return tmp_path_factory.getbasetemp()


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Uninitialised memory holds NaN, so that reading unwritten memory cannot go unnoticed."""
    from seq2seq.testing.subject import poison_memory

    with poison_memory():
        yield
