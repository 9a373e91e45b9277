"""Preparation of a kernel: checks of Triton and the device, types and sizes of blocks."""

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.base.errors import ConfigError

TRITON = (3, 6)  # the oldest version that compiles these kernels; torch 2.11 comes with it
INTERPRETER = (3, 7)  # the oldest version whose interpreter works with NumPy 2.4
# Advice for a CPU.
INSTEAD = "Take kernel=auto; to test the kernels without a GPU, slowly, set TRITON_INTERPRET=1"


def is_interpreted() -> bool:
    """True if Triton's interpreter runs the kernels. Triton decides when they are imported."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in {"1", "true", "on", "yes"}


def lacks_triton() -> str | None:
    """The package to install if Triton is missing or too old for these kernels; else None."""
    oldest = INTERPRETER if is_interpreted() else TRITON
    try:
        found = version("triton")
    except PackageNotFoundError:
        found = "none"
    if found != "none" and tuple(map(int, found.split(".")[:2])) >= oldest:
        return None
    return (
        f"the package triton, {oldest[0]}.{oldest[1]} or newer, for Linux (found: {found}): "
        f"pip install 'triton>={oldest[0]}.{oldest[1]}'"
    )


def check_triton() -> None:
    """Check that the kernels can run. Raises: ConfigError if Triton or a GPU is missing."""
    if told := lacks_triton():
        raise ConfigError(f"kernel=triton needs {told}. Take kernel=auto without it")
    if not (torch.cuda.is_available() or is_interpreted()):
        raise ConfigError(f"kernel=triton needs a GPU, and torch finds none here. {INSTEAD}")


def check_tensor(x: Tensor) -> None:
    """Check the device and type of a tensor. Raises: ConfigError if the kernels cannot use them."""
    if is_interpreted():
        return
    if x.device.type != "cuda":
        raise ConfigError(
            f"kernel=triton needs a GPU, but this model is on device {x.device.type}. {INSTEAD}"
        )
    if x.dtype == torch.float64:
        raise ConfigError(
            "kernel=triton cannot compute in float64: Triton does not compile it. Take kernel=flash"
        )


class Types(NamedTuple):
    """The types in which a kernel computes, as Triton's types."""

    product: Any  # operands of matrix products, as wide as the inputs
    sum: Any  # sums, scores and exponentials


def types_of(dtype: torch.dtype) -> Types:
    """The types to compute in for inputs of this type.

    The interpreter silently treats the bits of a bfloat16 as an integer, so that there products are
    computed in the type of sums.
    """
    import triton.language as tl

    wide = tl.float64 if dtype == torch.float64 else tl.float32
    narrow = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
    return Types(wide if is_interpreted() else narrow.get(dtype, wide), wide)


class Sizes(NamedTuple):
    """The sizes of blocks and the types that a kernel of attention is compiled for."""

    Q: Any  # queries
    K: Any  # keys
    D: Any  # columns of queries and keys, all in one block
    M: Any  # columns of values, all in one block
    WIDE: Any  # type of sums
    NARROW: Any  # type of the operands of products


# Largest width of queries or values -> queries and keys of a block, with 16 bits and with more.
# These sizes were not measured.
DOT_BLOCKS = {64: (64, 32), 128: (64, 32), 256: (32, 16)}
# Largest width -> queries and keys of a block if the tile's hidden layer is held in registers.
ADDITIVE_BLOCKS = {32: (16, 16), 64: (16, 8), 128: (8, 8), 256: (8, 4), 512: (4, 4)}


def sizes_of(q: Tensor, v: Tensor, is_additive: bool) -> Sizes:
    """Choose the sizes for queries (B, H, T, D) and values (B, G, S, M)."""
    import triton.language as tl

    types, columns = types_of(q.dtype), [round_up(x.shape[3]) for x in (q, v)]
    known, widest = (ADDITIVE_BLOCKS, (2, 2)) if is_additive else (DOT_BLOCKS, (16, 16))
    block = next((size for width, size in known.items() if max(columns) <= width), widest)
    if not is_additive:
        block = (16 if is_interpreted() else block[types.product is types.sum],) * 2
    return Sizes(*(tl.constexpr(x) for x in (*block, *columns, types.sum, types.product)))


def round_up(size: int, least: int = 16) -> int:
    """Round up to a power of two, which blocks need; products of blocks need at least 16."""
    return max(least, 1 << (size - 1).bit_length())
