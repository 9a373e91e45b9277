"""How long one sentence takes in one thread: all engines in turn, sentence by sentence."""

import os
import time
from collections.abc import Sequence

import torch

from decoding_bench.candidates import Candidate
from decoding_bench.engines import ENGINES, Files, Work

SENTENCES = 200


def latencies(
    files: dict[str, Files], rows: Sequence[list[int]], beams: int, limit: int, precision: str
) -> str:
    """A table of the milliseconds of each engine: median, and of 95 % of the sentences at most."""
    torch.set_num_threads(1)
    engines = {}
    for name in ("ours", "torch", "ct2"):
        os.environ["SEQ2SEQ_NATIVE"] = "0" if name == "torch" else "1"
        engines[name] = ENGINES[name](Candidate(name, precision, "dense", 1, 1), files)
    spent: dict[str, list[float]] = {name: [] for name in engines}
    for row in [*rows[:5], *rows[:SENTENCES]]:  # the first few warm up
        for name, engine in engines.items():
            engine.prepare(Work("free", [row], beams, limit, None))
            start = time.perf_counter()
            engine.run()
            spent[name].append(1000 * (time.perf_counter() - start))
    lines = [f"## one sentence, {precision}, {beams} beam(s)", "", "| | p50 ms | p95 ms |"]
    lines.append("|---|---|---|")
    for name, times in spent.items():
        at = torch.tensor(times[5:]).quantile(torch.tensor([0.5, 0.95])).tolist()
        lines.append(f"| {name} | {at[0]:.1f} | {at[1]:.1f} |")
    return "\n".join(lines) + "\n"
