"""How idle threads wait."""

import os

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
