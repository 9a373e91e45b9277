"""The kernels are tested on a GPU where there is one, and elsewhere in Triton's interpreter."""

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from helpers.chosen_kernels import are_kernels_chosen

from seq2seq.functional.triton.launch import lacks_triton

FOLDER = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Skip this folder where `-m` selects none of its tests, so that other runs do not import
    Triton.
    """
    return None if are_kernels_chosen(config) else True


def pytest_configure(config: pytest.Config) -> None:
    """Before the first kernel is imported."""
    if os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None:
        leave_overflow_alone()


def leave_overflow_alone() -> None:
    """As a GPU does: the interpreter otherwise computes each sum and product of integers twice."""
    from triton.runtime.interpreter import interpreter_builder as builder

    builder.options = replace(builder.options, sanitize_overflow=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.triton)


@pytest.fixture
def device() -> torch.device:
    """Where the kernels are tested."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if told := lacks_triton():  # the interpreter needs a newer one than a GPU
        pytest.skip(f"needs {told}")
    return torch.device("cpu")
