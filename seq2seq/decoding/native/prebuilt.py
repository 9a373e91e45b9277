"""Prebuilt native libraries, for machines without a compiler. A wheel for a platform contains one
for each kind of processor; a checkout contains none. They are compiled by scripts/build_hook.py,
which reads this file without importing the package.
"""

import platform
from pathlib import Path

FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-DNDEBUG", "-fPIC", "-shared"]
FLAGS += ["-fvisibility=hidden"]  # except the functions of native.h
FOLDER = Path(__file__).parent / "prebuilt"
# Compiler flags, and the flags in /proc/cpuinfo that they require, by name. The best comes first.
V3 = "abm avx avx2 bmi1 bmi2 f16c fma movbe"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
PROCESSORS = {
    "x86-64-v4-vnni": (["-march=x86-64-v4", "-mavx512vnni"], f"{V4} avx512_vnni"),
    "x86-64-v4": (["-march=x86-64-v4"], V4),
    "x86-64-v3": (["-march=x86-64-v3"], V3),
}


def find_prebuilt() -> Path | None:
    """The best prebuilt library that this processor can execute, or None."""
    paths = [FOLDER / f"{name}.so" for name in PROCESSORS]
    if platform.system() != "Linux" or not any(path.is_file() for path in paths):
        return None
    flags = processor_flags()
    for path, (_, needed) in zip(paths, PROCESSORS.values(), strict=True):
        if flags.issuperset(needed.split()) and path.is_file():
            return path
    return None


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """The features of the first processor, as Linux names them."""
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return set(value.split())
    return set()
