"""The start of a kernel: Triton, a device or the interpreter, types and sizes of blocks."""

import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch

from seq2seq.errors import ConfigError


def is_interpreted() -> bool:
    """Are kernels run by Triton's interpreter? It is chosen when they are first imported."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in {"1", "true", "on", "yes"}


def check_triton(device: torch.device | None = None) -> None:
    """Raises: ConfigError without Triton, or for tensors that its kernels cannot read."""
    if find_spec("triton") is None:
        raise ConfigError(
            "kernel=triton needs the package triton (3.7 or newer, for Linux): "
            "pip install 'seq2seq-attention-zoo[triton]'"
        )
    if device is not None and device.type != "cuda" and not is_interpreted():
        raise ConfigError(
            f"kernel=triton runs on GPUs, and these tensors are on the device {device.type}. Take "
            "kernel=auto; or TRITON_INTERPRET=1 for a slow check of the kernels"
        )


class Types(NamedTuple):
    """In which types a kernel computes, as Triton's names."""

    product: Any  # operands of matrix products, as wide as the inputs
    sum: Any  # sums, scores and exponentials


def types_of(dtype: torch.dtype) -> Types:
    """The types for inputs of one type. The interpreter cannot compute in 16 bits: it takes the
    bits of a bfloat16 for an integer, without a word. There products are as wide as sums.
    """
    import triton.language as tl

    wide = tl.float64 if dtype == torch.float64 else tl.float32
    narrow = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
    return Types(wide if is_interpreted() else narrow.get(dtype, wide), wide)


def round_up(size: int, least: int = 16) -> int:
    """The next power of two, as blocks must have; at least 16, as products of blocks must."""
    return max(least, 1 << (size - 1).bit_length())
