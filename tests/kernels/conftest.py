"""The kernels are tested on a GPU where there is one, and elsewhere in Triton's interpreter."""

import os
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Other runs need not import Triton."""
    return True if "not triton" in config.getoption("markexpr") else None


def pytest_configure(config: pytest.Config) -> None:
    """Before the first kernel is imported."""
    if pytest_ignore_collect(config) is None and not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.triton)


@pytest.fixture
def device() -> torch.device:
    """Where the kernels are tested."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
