"""The rates that no program exceeds: of copies, and of the products of a Transformer's layers."""

from collections.abc import Iterator

import torch

from gpu_bench.models import BASE, BIG, TINY, products_a_second, seconds
from gpu_bench.rows import Row

TOKENS = 14_600  # rows of a product in an update, about


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    block = torch.empty(2**10 if tiny else 2**30, dtype=torch.uint8, device=device)
    target = torch.empty_like(block)
    best = min(seconds(lambda: target.copy_(block), device) for _ in range(10))
    yield Row("bytes copied, read and written", f"{2 * len(block) / best / 1e12:,.3g} TB/s")
    square = products_a_second(device, tiny)
    yield Row("product of 8192 x 8192 in bfloat16", f"{square / 1e12:,.3g} TFLOP/s")
    tokens, sizes = (64, {"tiny": TINY}) if tiny else (TOKENS, {"base": BASE, "big": BIG})
    for name, size in sizes.items():
        E, F = size.dim, size.ffn
        for what, inner, outer in (("q k v", E, 3 * E), ("up", E, F), ("down", F, E)):
            rate = products_a_second(device, tiny, (tokens, inner, outer))
            shape = f"{tokens:,} x {inner} x {outer}"
            yield Row(f"{name}, {what}: {shape}", f"{rate / 1e12:,.3g} TFLOP/s")
