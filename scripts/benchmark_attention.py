"""Measure how time and memory of each attention mechanism grow with length, with exponents.

    python scripts/benchmark_attention.py                              # encoder, all presets
    python scripts/benchmark_attention.py --role decoder               # causal, and decoding steps
    python scripts/benchmark_attention.py --presets mha,linear --lengths 512,1024

Each point is for one sequence, with a width of 256 and 4 heads of 64. Memory is the peak that
tensors hold beyond inputs and parameters, including temporaries inside operations. Time is the
minimum of several rounds in which all mechanisms take turns in one process. For decoding, it is the
time for one more token after the sequence. If shorter lengths suggest that a point would take too
long or too much memory, it is left out, and the report says so.

Writes ROLE.md (tables), ROLE.json (all points) and ROLE.png (log-log curves) into --output.
The machine must be idle; --anyway measures on a busy machine, and the report gives its load.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from seq2seq.base.environment import limit_thread_spinning

limit_thread_spinning()  # before torch, as in training

import torch  # noqa: E402
from attention_bench.curves import draw  # noqa: E402
from attention_bench.measure import Setting  # noqa: E402
from attention_bench.points import Limits, Point, measure  # noqa: E402
from attention_bench.report import Growth, page  # noqa: E402
from zoo import Preset, preset_names, presets  # noqa: E402

from seq2seq.attention import Role  # noqa: E402
from seq2seq.comparison.conditions import await_idle, conditions, foreign_load  # noqa: E402

DTYPES = {"32": torch.float32, "bf16": torch.bfloat16}


def standing(names: list[str], options: argparse.Namespace) -> tuple[list[Preset], list[str]]:
    """The presets that are defined for the role, and a note for each one that is not."""
    longest = max(options.lengths)
    typed = (f"model.dim={options.dim}", f"model.num_heads={options.heads}")
    known = presets(names, "model=transformer", *typed, f"data.max_length={longest}")
    role = options.role
    defined = [preset for preset in known if role in preset.mechanism.roles]
    left_out = [
        f"`{preset.name}`: not defined for {role.description}"
        for preset in known
        if role not in preset.mechanism.roles
    ]
    return defined, left_out


def sweep(
    candidates: Sequence[Preset], options: argparse.Namespace, left_out: list[str]
) -> dict[str, list[Point]]:
    """The points of every preset, up to the longest length that the limits allow."""
    device = torch.device(options.device)
    setting = Setting(options.role, options.dim, device, DTYPES[options.precision])
    limits = Limits(options.most_seconds, options.most_gb * 1e9)
    curves: dict[str, list[Point]] = {preset.name: [] for preset in candidates}
    going = list(candidates)
    for length in options.lengths:
        for preset in list(going):
            if excess := limits.excess(curves[preset.name], length):
                going.remove(preset)
                left_out.append(f"`{preset.name}` from {length:,} on: it would take {excess}")
        print(f"{length:,} tokens: {len(going)} mechanisms", file=sys.stderr, flush=True)
        for point in measure(going, length, setting, options.repeats):
            curves[point.preset].append(point)
    return curves


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--presets", type=words, default=[], help="presets of conf/attn, such as a,b (all)"
    )
    parser.add_argument("--role", type=Role, choices=list(Role), default=Role.ENCODER)
    parser.add_argument("--lengths", type=integers, default=[2**i for i in range(9, 15)])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=7, help="number of measured rounds")
    parser.add_argument("--most-seconds", type=float, default=10, help="limit of one round")
    parser.add_argument("--most-gb", type=float, default=4, help="limit of the peak memory")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--precision", choices=DTYPES, default="32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark/attention"))
    parser.add_argument("--anyway", action="store_true", help="measure even on a busy machine")
    return parser.parse_args()


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def integers(text: str) -> list[int]:
    lengths = sorted({int(word) for word in words(text)})
    if not lengths or lengths[0] < 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be lengths above 0, such as 512,1024")
    return lengths


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    candidates, left_out = standing(options.presets or preset_names(), options)
    if not candidates:
        sys.exit("\n".join(["nothing to measure:", *left_out]))
    if not options.anyway:
        await_idle()
    with foreign_load() as load:
        curves = sweep(candidates, options, left_out)
    device = "" if options.device == "cpu" else f"{torch.cuda.get_device_name(options.device)}, "
    said = [
        f"{device}{conditions()}; other processes used {load.cores:.2f} cores",
        f"{options.role.description}, B=1 H={options.heads} D={options.dim // options.heads}, "
        f"precision {options.precision}, minimum of {options.repeats} rounds",
    ]
    growth = Growth(curves, {preset.name: preset for preset in candidates}, options.lengths)
    text = page(growth, said, left_out)
    options.output.mkdir(parents=True, exist_ok=True)
    points = [point._asdict() for curve in curves.values() for point in curve]
    record = {"conditions": said, "left_out": left_out, "points": points}
    stem = options.output / options.role.value
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    draw(growth, options.role.description, stem.with_suffix(".png"))
    print(text)
    print(f"wrote {stem}.md, .json and .png", file=sys.stderr)


if __name__ == "__main__":
    main()
