"""Run all checks and measurements on a GPU, in less than ten minutes, and write a page of results.

    python scripts/gpu.py                      # all parts; writes docs/results/gpu.md
    python scripts/gpu.py --parts kernels      # only some parts, such as kernels,training
    python scripts/gpu.py --device cpu --tiny --output page.md    # to test the script itself

Each part runs in a separate process with a time limit. A failed part becomes a line of the page and
does not stop the others; the page is written after each part. Without a GPU, the kernels are
checked on tiny shapes in Triton's interpreter; nothing is measured, and no page is written. Texts
are random pieces, or data/demo. Needs Python 3.11 and torch 2.11, or newer; parts that need more
say so.
"""

import argparse
import importlib
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that the package need not be installed

from gpu_bench.rows import FAILED, Row, to_page  # noqa: E402

NEEDED = {"torch": "torch", "numpy": "numpy", "tokenizers": "tokenizers", "filelock": "filelock"}
SECONDS = 580  # time limit of all parts together


class Part(NamedTuple):
    title: str
    seconds: int  # time limit


PARTS = {
    "properties": Part("What the tests promise of a CPU", 60),
    "rates": Part("Rates of copies and products", 20),
    "waits": Part("What an update waits for, and where its time goes", 60),
    "training": Part("Training", 150),
    "lengths": Part("Batches of real lengths, and train.py", 120),
    "kernels": Part("Kernels in Triton against readable torch", 120),
    "decoding": Part("Decoding", 90),
    "memory": Part("Memory of additive attention, forward and backward", 40),
    "invariance": Part("One translation in batches of any size", 60),
    "devices": Part("All devices together", 60),
}


def list_missing() -> list[str]:
    """One message for each requirement that this machine lacks, with what to type."""
    told = []
    if sys.version_info < (3, 11):  # noqa: UP036 - or a SyntaxError elsewhere would say it
        told.append(f"Python 3.11 or newer is needed, not {platform.python_version()}")
    if missing := [pip for name, pip in NEEDED.items() if find_spec(name) is None]:
        told.append(f"packages are missing: pip install {' '.join(missing)}")
    elif tuple(map(int, version("torch").split(".")[:2])) < (2, 11):
        told.append(f"torch 2.11 or newer is needed, not {version('torch')}: pip install -U torch")
    return told


def installed(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} missing"


def conditions() -> list[str]:
    """The GPUs with their drivers, and the versions of Python and libraries."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        ended = subprocess.run(query, capture_output=True, text=True, check=True)
        devices = [f"{line} (name, driver, memory)" for line in ended.stdout.strip().splitlines()]
    except (OSError, subprocess.CalledProcessError):
        import torch

        count = torch.cuda.device_count()
        devices = [torch.cuda.get_device_name(i) for i in range(count)] or ["no GPU"]
    libraries = ", ".join(
        map(installed, ("torch", "triton", "transformers", "seq2seq-attention-zoo"))
    )
    return [*devices, f"Python {platform.python_version()}, {libraries}", time.strftime("%Y-%m-%d")]


def run_part(command: Sequence[str], limit: float, interpreted: bool = False) -> list[Row]:
    """The rows that a process prints, plus a row about the failure if it fails or is stopped."""
    environment = {**os.environ, **({"TRITON_INTERPRET": "1"} if interpreted else {})}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    )
    failure = ""
    try:
        out, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # including its child processes
        out, errors = process.communicate()
        failure = f"stopped after {limit:.0f} s"
    if process.returncode and not failure:
        last = errors.strip().splitlines()[-1:] or ["no message"]
        failure = f"ended with code {process.returncode}: {last[0][:300]}"
    rows = [Row(*json.loads(line)) for line in out.splitlines() if line.startswith('["')]
    return [*rows, Row("this part", failure, FAILED)] if failure else rows


def run_all(options: argparse.Namespace) -> dict[str, tuple[str, list[Row]]]:
    """Run all parts one after the other, writing the page after each.

    Returns: the title and the rows of each part.
    """
    end, done = time.monotonic() + SECONDS, {}
    for name in options.parts:
        title, limit = PARTS[name]
        command = [sys.executable, __file__, "--part", name, "--device", options.device]
        command += ["--tiny"] if options.tiny else []
        left = max(1.0, min(limit, end - time.monotonic()))
        rows = run_part(command, left, interpreted=options.device == "cpu")
        done[name] = (title, rows)
        print(f"\n{title}", *(f"  {': '.join(filter(None, row))}" for row in rows), sep="\n")
        if options.output:
            typed = shlex.join(["python", "scripts/gpu.py", *options.typed])
            options.output.write_text(to_page(typed, conditions(), done), encoding="utf-8")
    return done


def choose_device(options: argparse.Namespace) -> None:
    """Set the device, the parts and the page according to whether this machine has a GPU."""
    import torch

    if options.device == "auto" and not torch.cuda.is_available():
        options.device, options.tiny, options.parts = "cpu", True, ["kernels"]
        print(
            "There is no GPU here: the kernels are checked in Triton's interpreter, on tiny "
            "shapes. Nothing is measured, and docs/results/gpu.md is not changed."
        )
    elif options.device == "auto":
        options.device = "cuda"
    if options.device != "cpu" and not options.tiny and options.output is None:
        options.output = ROOT / "docs" / "results" / "gpu.md"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=words, default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--tiny", action="store_true", help="use tiny sizes, only to test this")
    parser.add_argument("--output", type=Path, help="page to write (docs/results/gpu.md)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args(arguments)
    options.typed = sys.argv[1:] if arguments is None else list(arguments)
    return options


def words(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not among {', '.join(PARTS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.part:
        import torch

        torch.manual_seed(1)
        part = importlib.import_module(f"gpu_bench.{options.part}")
        for row in part.run(torch.device(options.device), options.tiny):
            print(row.to_json(), flush=True)
        return 0
    if missing := list_missing():
        print(*missing, sep="\n", file=sys.stderr)
        return 2
    choose_device(options)
    done = run_all(options)
    return int(any(row.verdict == FAILED for _, rows in done.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
