"""Batches of real lengths, whose shapes all differ; and train.py beside a bare loop."""

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
from plain_transformer import ModelSize, our_model
from torch._dynamo.utils import counters
from torch.nn.attention import SDPBackend

from gpu_bench.models import BASE, TINY, random_batch, seconds
from gpu_bench.rows import LEFT_OUT, Row
from gpu_bench.updates import Update, make_all, our_update, updater
from seq2seq.data.batches.batch import Batch
from seq2seq.functional import fused

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("hydra", "lightning", "torchmetrics", "sacrebleu")


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    size, vocabulary = (TINY, 100) if tiny else (BASE, 32_000)
    batches = changing_batches(5 if tiny else 200, 100 if tiny else 16_000, vocabulary, device)
    model = our_model(size, vocabulary).to(device)
    ways = {"eager": (False, "force_eager")} | ({} if tiny else {"compiled": (True, "default")})
    for name, (compiled, stance) in ways.items():
        counters.clear()
        update = our_update(model, compiled, stance)
        make_all(update, batches[: len(batches) // 4])
        yield speed(f"changing shapes, {name}", update, batches, device)
        yield Row(f"changing shapes, {name}: graphs", str(counters["stats"]["unique_graphs"]))
    if device.type == "cuda":
        fused.BACKENDS.insert(0, SDPBackend.CUDNN_ATTENTION)
        update = our_update(model, False, "force_eager")
        yield speed("changing shapes, eager, cuDNN's attention allowed", update, batches, device)
        fused.BACKENDS.pop(0)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        yield Row("train.py beside a bare loop", f"{', '.join(missing)} missing", LEFT_OUT)
    elif not tiny:
        yield compare_with_bare_loop(size, device, 120)


def speed(what: str, update: Update, batches: list[Batch], device: torch.device) -> Row:
    time = seconds(lambda: make_all(update, batches), device)
    return Row(what, f"{sum(batch.tokens for batch in batches) / time:,.0f} target tokens/s")


def changing_batches(count: int, cells: int, vocabulary: int, device: torch.device) -> list[Batch]:
    """Batches of about as many cells, of sentences from 4 to 80 pieces."""
    longest = torch.randint(8, 80, (count,)).tolist()
    return [
        random_batch(max(2, cells // length), length * 3 // 4, length, vocabulary, device)
        for length in longest
    ]


def compare_with_bare_loop(size: ModelSize, device: torch.device, updates: int) -> Row:
    """Target tokens per second of a run of train.py, and of its model and batches in a loop."""
    from hydra import compose, initialize_config_dir

    from seq2seq.data.prepare import prepare
    from seq2seq.training.build import build_module
    from seq2seq.training.config.plan import check_config
    from seq2seq.training.loaders import train_loader
    from seq2seq.training.run import plain_values, train

    steps = f"trainer.max_steps={updates}", f"trainer.val_check_interval={updates}"
    lines_due = f"trainer.log_every_n_steps={updates // 2}"
    sizes = f"model.dim={size.dim}", f"model.ffn_dim={size.ffn}", f"model.num_heads={size.heads}"
    with tempfile.TemporaryDirectory() as folder:
        typed = (*steps, lines_due, *sizes, "data.max_tokens=16000", f"data.cache={folder}/cache")
        with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            config = compose("train", [*typed, "run_name=gpu", "validation.sentences=8"])
        plan = check_config(plain_values(config), Path(folder))
        prepared = prepare(plan.data, plan.tokenizer, None, plan.link_files)
        train(plan, prepared)
        lines = (Path(folder) / "metrics.csv").read_text().splitlines()
        names, rows = lines[0].split(","), [line.split(",") for line in lines[1:]]
        speeds = [row[names.index("train/tokens_per_second")] for row in rows]
        real = [float(value) for value in speeds if value][-1]
        module = build_module(plan, prepared).to(device).train()
        loop = updater(module.model, lambda b: module.loss_of(b).smoothed / b.total, "default")
        loader = train_loader(module.plan, prepared, device=device)
        make_all(loop, loader)
        tokens = [0]

        def update(batch: Batch) -> None:
            loop(batch)
            tokens[0] += batch.tokens

        bare = 1 / seconds(lambda: make_all(update, loader), device) * tokens[0]
    told = f"{real:,.0f} and {bare:,.0f} target tokens/s: {real / bare:.2f} of the bare loop"
    return Row("train.py and the bare loop, data/demo", told)
