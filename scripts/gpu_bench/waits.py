"""What the host waits for in an update, by line of the source, and where a device's time goes."""

import warnings
from collections import Counter
from collections.abc import Iterator

import torch
from plain_transformer import our_model
from torch.profiler import ProfilerActivity, profile

from gpu_bench.models import BASE, TINY, random_batch, seconds
from gpu_bench.rows import LEFT_OUT, Row, judge
from gpu_bench.updates import Update, make_all, our_update
from seq2seq.data.batches.batch import Batch

UPDATES = 3
# Kinds of kernels, by parts of their names; the first that fits.
KINDS = {
    "attention": ("flash", "fmha", "attention", "efficient"),
    "products": ("gemm", "cutlass", "nvjet", "cublas", "matmul"),
    "optimizer": ("adam", "multi_tensor", "foreach", "lpnorm"),
    "norms": ("layer_norm", "rms_norm", "layernorm"),
    "softmax and sums": ("softmax", "reduce", "_red_", "_per_"),
    "copies and casts": ("memcpy", "memset", "copy", "_to_copy"),
}


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    if device.type != "cuda":
        yield Row("waits and profile", "need a GPU", LEFT_OUT)
        return
    size, vocabulary = (TINY, 100) if tiny else (BASE, 32_000)
    model = our_model(size, vocabulary).to(device)
    batches = [random_batch(64, 24, 31, vocabulary, device) for _ in range(UPDATES)]
    ways = {"eager": our_update(model, False, "force_eager"), "compiled": our_update(model, True)}
    for name, update in ways.items():
        make_all(update, batches)
        lines = count_waits(update, batches)
        told = ", ".join(f"{line} {count}" for line, count in lines.most_common()) or "none"
        yield judge(f"waits in {UPDATES} updates, {name}", told, not lines)
        yield from profiled(name, update, batches, device)


def count_waits(update: Update, batches: list[Batch]) -> Counter[str]:
    """How often each line of the source waited for the device."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            make_all(update, batches)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = (each for each in caught if "synchroniz" in str(each.message))
    return Counter(f"{each.filename}:{each.lineno}" for each in waits)


def profiled(
    name: str, update: Update, batches: list[Batch], device: torch.device
) -> Iterator[Row]:
    """Kernels of an update by kind, and the names of those of attention."""
    wall = seconds(lambda: make_all(update, batches), device) / UPDATES
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        seconds(lambda: make_all(update, batches), device)
    times, names, kernels = Counter[str](), set[str](), 0
    for event in recorded.events():
        kernel = event.name.lower()
        found = (kind for kind, parts in KINDS.items() if any(part in kernel for part in parts))
        kind = next(found, "the rest")
        times[kind] += event.device_time_total / UPDATES / 1e3
        kernels += 1
        if kind == "attention":
            names.add(event.name[:60])
    told = ", ".join(f"{kind} {ms:.2f}" for kind, ms in times.most_common())
    share = sum(times.values()) / 1e3 / wall
    yield Row(f"{name}: ms of the device in an update", f"{told}; {share:.0%} of the time")
    yield Row(f"{name}: kernels in an update", f"{kernels / UPDATES:,.0f}")
    yield Row(f"{name}: kernels of attention", ", ".join(sorted(names)))
