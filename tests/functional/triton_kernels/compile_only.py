"""Kernels compiled to machine code where there is no GPU: the interpreter hides what the compiler
refuses. Run by tests as a process of its own, without the interpreter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction


class NoDriver:
    """A stand-in for a GPU's driver, with the answers that the compiler needs."""

    def __init__(self, capability: int):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def compile_only(capability: int) -> Iterator[list[Any]]:
    """Make launches only compile. Yields: the list of compiled kernels."""
    compiled: list[Any] = []
    launch = JITFunction.run

    def compile_launch(self: Any, *arguments: Any, **options: Any) -> None:
        compiled.append(launch(self, *arguments, **{**options, "warmup": True}))

    driver.set_active(NoDriver(capability))
    JITFunction.run = compile_launch
    try:
        yield compiled
    finally:
        JITFunction.run = launch
