"""Training by all devices of this machine learns what one device learns."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gpu_bench.rows import LEFT_OUT, Row, judge

ROOT = Path(__file__).resolve().parents[2]
NEEDED = {
    "hydra": "hydra-core",
    "lightning": "lightning",
    "torchmetrics": "torchmetrics",
    "sacrebleu": "sacrebleu",
}
MODEL = (
    *("model.dim=64", "model.ffn_dim=128", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("model.dropout=0", "data.max_tokens=2048", "optimizer.eps=1e-3", "schedule.warmup=5"),
    *("trainer.precision=32-true", "trainer.log_every_n_steps=1", "validation.sentences=8"),
)


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    if missing := [pip for name, pip in NEEDED.items() if find_spec(name) is None]:
        yield Row("train.py", f"needs pip install {' '.join(missing)}", LEFT_OUT)
        return
    count = torch.cuda.device_count() if device.type == "cuda" else 2
    accelerator = "gpu" if device.type == "cuda" else "cpu"
    steps = 5 if tiny else 50
    shared = [*MODEL, f"trainer.max_steps={steps}", f"trainer.val_check_interval={steps}"]
    shared += [f"trainer.accelerator={accelerator}"]
    with TemporaryDirectory() as folder:
        shared.append(f"data.cache={folder}/cache")
        alone = losses(Path(folder) / "one", [*shared, "trainer.devices=1"])
        finite = all(0 < loss < 20 for loss in alone)
        told = f"loss {alone[0]:.4f} -> {alone[-1]:.4f}"
        falls = tiny or alone[-1] < alone[0]  # not yet, in a few updates
        yield judge(f"train.py, {steps} updates, 1 device", told, finite and falls)
        if count < 2:
            yield Row("trainer=ddp", "there is one device", LEFT_OUT)
            return
        several = ["trainer=ddp", f"trainer.devices={count}"]
        together = losses(Path(folder) / "all", [*several, *shared])
        error = max(abs(a - b) for a, b in zip(alone, together, strict=True))
        told = f"losses differ by at most {error:.1e}"
        yield judge(f"train.py trainer=ddp, {count} devices", told, error < 1e-3)


def losses(folder: Path, overrides: list[str]) -> list[float]:
    """Of a training in a process of its own; raises RuntimeError if it fails."""
    command = [sys.executable, "train.py", *overrides, f"hydra.run.dir={folder}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"train.py ended with {ended.returncode}: {ended.stderr[-500:]}")
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        return [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
