"""For every test: one thread, a fixed seed, and on request uninitialised memory full of NaN."""

import gc
import os

# Before torch is imported: waiting threads sleep instead of spinning on the cores of others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import random
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import torch
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


def pytest_collection_finish() -> None:
    """Collected tests live to the end: the garbage collector need not traverse them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Each test draws the same numbers, whether it runs alone or among others."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what libraries draw from
    # Not torch.manual_seed: for devices that are absent it records a traceback each time.
    torch.default_generator.manual_seed(0)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Uninitialised memory holds NaN, so that reading unwritten memory cannot go unnoticed."""
    from seq2seq.testing.tensors import poison_memory

    with poison_memory():
        yield
