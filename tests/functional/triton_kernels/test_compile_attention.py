"""The kernels of attention become machine code for GPUs that are not here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "triton", minversion="3.6", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

KERNELS = ("attend_kernel", "queries_kernel", "keys_kernel", "bias_kernel")


def compile_kernels(folder: Path, *arguments: str) -> list[tuple[str, int]]:
    """The kernels that a process without the interpreter compiles, and the size of their code."""
    script = Path(__file__).with_name("compile_attention.py")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(name, int(size)) for name, size in lines]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("capability", ["80", "90"])
def test_every_kernel_compiles_without_a_device(
    capability: str, dtype: str, tmp_path: Path
) -> None:
    compiled = compile_kernels(tmp_path, capability, dtype, "64")
    assert [name for name, _ in compiled] == 2 * list(KERNELS)  # of both scores
    assert all(size > 0 for _, size in compiled)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_wide_heads_compile_with_and_without_all_options(dtype: str, tmp_path: Path) -> None:
    compiled = compile_kernels(tmp_path, "90", dtype, "32", "256")
    assert len(compiled) == 2 * 2 * (len(KERNELS) + len(KERNELS[:-1]))
