"""Uninitialised memory holds NaN instead of zeros."""

import pytest


@pytest.fixture(autouse=True)
def _poisoned_memory(poisoned_memory: None) -> None:
    """Every test of this folder runs with uninitialised memory full of NaN."""
