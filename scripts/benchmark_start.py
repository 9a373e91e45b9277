"""Measure the CPU time to start and translate, and the memory, compared with CTranslate2.

    python scripts/benchmark_start.py RUN source.txt

Start: user and system seconds of all processes that translate one sentence; the median of several
rounds in which all candidates take turns. For comparison, `import torch` alone is also timed, with
and without garbage collection.
Memory: the largest total PSS of all processes while they translate the file (a page shared by n
processes counts 1/n in each). What `import torch` takes is subtracted; for CTranslate2, what bare
Python takes.
CTranslate2 runs without torch, and segments text with the exported `tokenizers`. By default it
translates all sentences in one batch; `batch 32` is the batch size of its own command for files.

Needs Linux. CTranslate2 (pip install ctranslate2) is left out if it is not installed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.comparison.conditions import interleave, processor
from seq2seq.interchange.ctranslate2 import export

PYTHON = [sys.executable, "-c"]
WAIT = "import time; time.sleep(1)"
UNCOLLECTED = "import gc; gc.disable(); import torch; gc.freeze()"
CTRANSLATE2 = """
import sys, threading
sys.modules["torch"] = None
import ctranslate2, tokenizers
folder, precision, beams, threads, batch, *texts = sys.argv[1:]
source, target = (tokenizers.Tokenizer.from_file(f"{folder}/{side}_tokenizer.json")
                  for side in ("source", "target"))
engine = ctranslate2.Translator(folder, compute_type=precision, inter_threads=int(threads),
                                intra_threads=1)
if len(texts) == 1 and texts[0].startswith("@"):
    texts = open(texts[0][1:], encoding="utf-8").read().splitlines()
pieces = [each.tokens for each in source.encode_batch(texts, add_special_tokens=False)]
def work(share):
    for each in engine.translate_batch(share, beam_size=int(beams), max_batch_size=int(batch)):
        print(target.decode([target.token_to_id(piece) for piece in each.hypotheses[0]]))
shares = [pieces[i :: int(threads)] for i in range(int(threads))]
workers = [threading.Thread(target=work, args=(share,)) for share in shares]
[each.start() for each in workers]
[each.join() for each in workers]
"""


def cpu_seconds(command: Sequence[str], _: int) -> float:
    """User and system seconds of a command and its children; the round does not matter."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def processes(pid: int) -> Iterator[int]:
    """The ids of a process and all its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:  # it has ended
        return
    for child in children.split():
        yield from processes(int(child))


def proportional_set(pid: int) -> int:
    """The PSS of a process in kB; 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
    return int(found[1]) if found else 0


def peak_memory(command: Sequence[str]) -> float:
    """The largest total PSS of a command's processes, in MB."""
    most = 0
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        while process.poll() is None:
            most = max(most, sum(map(proportional_set, processes(process.pid))))
            time.sleep(0.05)
    if process.returncode:
        sys.exit(f"{' '.join(command)[:200]} failed with code {process.returncode}")
    return most / 1000


def ours(run: Path, precision: str, beams: int, *more: str) -> list[str]:
    options = ["--precision", precision, "--beam-size", str(beams), "--quiet", *more]
    return [sys.executable, "-m", "seq2seq", "translate", str(run), *options]


def theirs(
    folder: Path, precision: str, beams: int, text: str, threads: int = 1, batch: int = 0
) -> list[str]:
    numbers = map(str, (beams, threads, batch))
    return [*PYTHON, CTRANSLATE2, str(folder), precision, *numbers, text]


def start_table(run: Path, folder: Path | None, text: str, rounds: int) -> str:
    """A table of the CPU seconds of each command."""
    commands = {"import torch": [*PYTHON, "import torch"], "without gc": [*PYTHON, UNCOLLECTED]}
    for precision in ("float32", "int8"):
        commands[f"ours, {precision}"] = ours(run, precision, 1, "--", text)
        if folder:
            commands[f"CTranslate2, {precision}"] = theirs(folder, precision, 1, text)
    tried = {name: partial(cpu_seconds, command) for name, command in commands.items()}
    rows = interleave(tried, rounds, warmup=1).items()
    lines = [f"| {name} | {median(times):.2f} | {min(times):.2f} |" for name, times in rows]
    return "\n".join(["| start | CPU s, median | lowest |", "|---|---|---|", *lines])


def memory_table(run: Path, folder: Path | None, source: Path) -> str:
    """A table of memory in MB, beyond that of importing torch, or of Python for CTranslate2."""
    torch, python = (peak_memory([*PYTHON, f"import {name}; {WAIT}"]) for name in ("torch", "sys"))
    titles = ["ours", "2 workers", "CTranslate2", "batch 32", "2 threads"]
    lines = [f"| memory, MB | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    for precision in ("float32", "int8"):
        for beams in (1, 5):
            mine = [
                peak_memory(ours(run, precision, beams, "-i", str(source), "--workers", count))
                for count in ("1", "2")
            ]
            cells = [f"{each - torch:.0f}" for each in mine]
            if folder:
                others = (
                    theirs(folder, precision, beams, f"@{source}", threads, batch)
                    for threads, batch in ((1, 0), (1, 32), (2, 0))
                )
                cells += [f"{peak_memory(command) - python:.0f}" for command in others]
            lines.append(f"| {precision}, {beams} beam(s) | {' | '.join(cells)} |")
    return "\n".join([f"import torch: {torch:.0f} MB, Python: {python:.0f} MB", "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a checkpoint, or the folder of a run")
    parser.add_argument("source", type=Path, help="sentences, one per line")
    parser.add_argument("--rounds", type=int, default=7, help="number of starts to measure")
    options = parser.parse_args()
    print(processor())
    with TemporaryDirectory() as temporary:
        folder = None
        try:
            export(checkpoint.read(options.run), Path(temporary, "ctranslate2"))
            folder = Path(temporary, "ctranslate2")
        except ConfigError as error:
            print(f"CTranslate2 is left out: {error}")
        with options.source.open(encoding="utf-8") as lines:
            first = next(lines).strip()
        print(start_table(options.run, folder, first, options.rounds), end="\n\n")
        print(memory_table(options.run, folder, options.source))


if __name__ == "__main__":
    main()
