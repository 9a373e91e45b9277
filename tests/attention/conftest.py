"""No test of this folder finds zeros in uninitialised memory."""

import pytest


@pytest.fixture(autouse=True)
def _poisoned_memory(poisoned_memory: None) -> None:
    """Every test of this folder runs with uninitialised memory full of NaN."""
