"""Prebuilt native libraries, for machines without a compiler. A wheel for a platform contains one
for each kind of processor; a checkout contains none. They are compiled by scripts/build_hook.py,
which reads this file without importing the package.
"""

import ctypes
import platform
from pathlib import Path

FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-DNDEBUG", "-fPIC", "-shared"]
FLAGS += ["-fvisibility=hidden"]  # except the functions of native.h
FOLDER = Path(__file__).parent / "prebuilt"
# For each machine: compiler flags, and the features that they require. The best comes first.
V3 = "abm avx avx2 bmi1 bmi2 f16c fma movbe"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
PROCESSORS = {
    "x86_64": {
        "x86-64-v4-vnni": (["-march=x86-64-v4", "-mavx512vnni"], f"{V4} avx512_vnni"),
        "x86-64-v4": (["-march=x86-64-v4"], V4),
        "x86-64-v3": (["-march=x86-64-v3"], V3),
    },
    "aarch64": {
        "armv8.2-a-dotprod": (["-march=armv8.2-a+dotprod"], "asimddp"),
        "armv8-a": (["-march=armv8-a"], "asimd"),
    },
}
AT_HWCAP, HWCAPS = 16, {"asimd": 1 << 1, "asimddp": 1 << 20}  # elf.h and asm/hwcap.h of Linux


def find_prebuilt() -> Path | None:
    """The best prebuilt library that this processor can execute, or None."""
    if platform.system() != "Linux":
        return None
    flags = processor_flags()
    for name, (_, needed) in PROCESSORS.get(platform.machine(), {}).items():
        path = FOLDER / f"{name}.so"
        if flags.issuperset(needed.split()) and path.is_file():
            return path
    return None


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """The features of the first processor, as Linux names them; none if the system is another."""
    getauxval = getattr(ctypes.CDLL(None), "getauxval", None)
    if platform.machine() == "aarch64" and getauxval is not None:
        # An emulator answers this for the processor that it emulates; the file is its host's.
        getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
        bits = getauxval(AT_HWCAP)
        return {name for name, bit in HWCAPS.items() if bits & bit}
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.is_file() else ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):  # of x86, and of ARM
            return set(value.split())
    return set()
