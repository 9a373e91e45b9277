"""Random models and batches in the native decoder under the compiler's sanitizers: `make
test-native`.
"""

import subprocess
from pathlib import Path

import pytest

from seq2seq.decoding.native.build import SOURCES

pytestmark = pytest.mark.sanitized
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Instructions of 8-bit products: those of this machine, those without AVX-512, and plain C.
INSTRUCTIONS = {
    "all": ("-march=native",),
    "avx2": ("-mavx2", "-mfma"),
    "reference": ("-march=native", "-DREFERENCE"),
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_random_models_and_batches(name: str, tmp_path: Path) -> None:
    if name == "avx2" and "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("this processor has no AVX2")
    drivers = Path(__file__).parent.glob("*_fuzz.c")
    sources = [*drivers, *SOURCES.glob("*.c")]
    flags = ["-std=gnu11", "-O1", "-g", *INSTRUCTIONS[name], *SANITIZERS, f"-I{SOURCES}"]
    program = tmp_path / "fuzz"
    command = ["cc", *flags, "-o", str(program), *map(str, sources), "-lm"]
    subprocess.run(command, check=True, timeout=300)
    for seed in range(5):
        subprocess.run([str(program), "60", str(seed)], check=True, timeout=300)
