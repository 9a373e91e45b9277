"""How idle threads wait, and what becomes of freed memory."""

import os
import platform
import subprocess
import sys

import pytest

from seq2seq.environment import wait_briefly


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that what the function under test sets is undone as well.
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_threads_spin_for_a_moment_by_default() -> None:
    wait_briefly()
    assert 0 < int(os.environ["GOMP_SPINCOUNT"]) < 300_000


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_what_the_user_has_decided_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "PASSIVE")
    before = dict(os.environ)
    wait_briefly()
    assert dict(os.environ) == before


FREED_AND_TAKEN_AGAIN = """
import resource, sys
from seq2seq.environment import keep_memory

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
def test_memory_that_is_kept_is_not_taken_from_the_system_again() -> None:
    # A process of its own: it is never undone.
    command = [sys.executable, "-c", FREED_AND_TAKEN_AGAIN]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    default, kept = map(int, result.stdout.split())
    assert kept < default / 4, (default, kept)
