"""The wheel for ARM64 in an emulated machine, beside this one: `make test-arm64`.

Of processors, qemu's `max` has dot products of bytes, and `cortex-a53` has none.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.linear import pack_matrix

pytestmark = pytest.mark.arm64

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("ARM64", "/var/tmp/seq2seq-arm64"))
PROCESSORS = {"max": "armv8.2-a-dotprod", "cortex-a53": "armv8-a"}
SMALL = "model.dim=64 model.ffn_dim=128"
QUICK = f"{SMALL} trainer.max_steps=400 trainer.val_check_interval=400 data.max_tokens=512 "
QUICK += "model.dropout=0 optimizer.lr=3e-3 schedule.warmup=50"
# Writes the products of random matrices, of inputs in 8 bits that reach the limits.
PRODUCTS = """
import sys, torch
from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.linear import pack_matrix
found = []
for rows, inputs, outputs, weight, x in torch.load(sys.argv[1]):
    found.append(pack_matrix(load_library(), weight, None, int8=True).product(x))
torch.save(found, sys.argv[2])
"""


@pytest.fixture(scope="module", autouse=True)
def machine() -> Path:
    if not (FOLDER / "made").is_file():
        pytest.skip(f"no machine in {FOLDER}: make test-arm64 makes one")
    return FOLDER


def emulate(*words: str, cpu: str = "max") -> str:
    """Run a command in the machine. Returns: what it prints."""
    script = [sys.executable, str(ROOT / "scripts" / "arm64.py"), str(FOLDER), "--cpu", cpu]
    done = subprocess.run([*script, "run", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def here(*words: str) -> None:
    """Run a command of this checkout, in the folder where those of the machine run."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "seq2seq", *words]
    subprocess.run(command, check=True, capture_output=True, cwd=FOLDER / "work", env=variables)


@pytest.fixture(scope="module")
def trained() -> str:
    """The name of a run of this machine, in the folder in which commands of both run."""
    here("demo", "--corpus")
    here("train", "position=rope", "hydra.run.dir=trained", *QUICK.split())
    return "trained"


@pytest.mark.parametrize("cpu", PROCESSORS)
def test_the_library_for_each_processor_passes_its_test_without_a_compiler(cpu: str) -> None:
    code = "import shutil; from seq2seq.decoding.native.prebuilt import find_prebuilt; "
    code += "print(shutil.which('cc'), find_prebuilt().stem)"
    assert emulate("python", "-c", code, cpu=cpu).split()[-2:] == ["None", PROCESSORS[cpu]]
    assert "compiled and tested" in emulate("seq2seq", "native", "--build", cpu=cpu)


@pytest.mark.parametrize("cpu", PROCESSORS)
def test_products_of_bytes_are_those_of_this_machine_to_the_bit(cpu: str) -> None:
    """The scales of rows and outputs are powers of 2, so that no product of them is rounded."""
    cases = []
    for rows, inputs, outputs in ((1, 1, 1), (7, 64, 33), (250, 1100, 70), (3, 66000, 2)):
        x, weight = (torch.randint(-127, 128, (n, inputs)).float() for n in (rows, outputs))
        x[:, 0] = weight[:, 0] = 127
        if rows == 3:
            x[:], weight[:] = 127, -127  # the largest sums
        cases.append((rows, inputs, outputs, weight, x))
    torch.save(cases, FOLDER / "work" / "cases.pt")
    emulate("python", "-c", PRODUCTS, "cases.pt", "products.pt", cpu=cpu)
    for found, (*_, weight, x) in zip(
        torch.load(FOLDER / "work" / "products.pt"), cases, strict=True
    ):
        assert torch.equal(found, pack_matrix(load_library(), weight, None, True).product(x))
        assert torch.equal(found, (x.long() @ weight.long().T).float())


def test_a_model_is_trained_translates_and_aligns() -> None:
    run = "runs/arm64"
    train = f"train hydra.run.dir={run} trainer.max_steps=20 trainer.val_check_interval=20 {SMALL}"
    emulate("seq2seq", "demo", "--corpus")
    emulate("seq2seq", *train.split(), "validation.sentences=20", "data.max_tokens=256")
    text = "Drei Wochen denkt das Kind nach."
    assert emulate("seq2seq", "translate", run, text, "--precision", "int8").strip()
    emulate("seq2seq", "align", run, text, "The child thinks.", "-o", "map.png")
    assert (FOLDER / "work" / "map.png").stat().st_size > 1000


@pytest.mark.parametrize("cpu", PROCESSORS)
def test_translations_of_a_trained_model_are_those_of_this_machine(cpu: str, trained: str) -> None:
    text = (ROOT / "data" / "demo" / "test.de").read_text(encoding="utf-8")
    lines, outputs = FOLDER / "work" / "lines.de", ("here.en", "emulated.en")
    lines.write_text("".join(text.splitlines(keepends=True)[:200]), encoding="utf-8")
    words = ("translate", trained, "--precision", "float32", "-i", lines.name, "-o")
    here(*words, outputs[0])
    emulate("seq2seq", *words, outputs[1], cpu=cpu)
    expected, found = ((lines.parent / name).read_text(encoding="utf-8") for name in outputs)
    assert found == expected and found.count("\n") == 200


def test_the_tests_of_the_native_decoder_pass() -> None:
    tests = "/checkout/tests/decoding/native/test_native.py"
    emulate(
        "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/checkout/pyproject.toml",
        tests,
    )
