"""What tests of training share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the tiny corpus, and the runs on it."""
    return tmp_path_factory.getbasetemp()
