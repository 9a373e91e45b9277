"""Pools of pages as decoding leaves them, and the reference for attention to them."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.functional.decode import gather_attention

Attend = Callable[..., Tensor]

# For values near one. Inputs count as exact; weights and results are rounded.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Case(NamedTuple):
    """Arguments of `paged_attention`. Every slot that no row owns holds NaN."""

    tensors: tuple[Tensor, ...]  # q, k, v, slots, lengths
    options: dict[str, Any]
    cut: dict[str, int]  # split and block, of the kernel alone

    def run(self, attend: Attend) -> Tensor:
        return attend(*self.tensors, **self.options, **self.cut)

    def expected(self) -> Tensor:
        """The answer in float64, from gathered pages."""
        q, k, v = (x.double() for x in self.tensors[:3])
        # A row without tokens reads its first slot and gives it no weight, but 0 NaN = NaN.
        k, v = k.nan_to_num(), v.nan_to_num()
        return gather_attention(q, k, v, *self.tensors[3:], **self.options)

    def is_right(self, attend: Attend) -> bool:
        actual, expected = self.run(attend).double(), self.expected()
        tolerance = TOLERANCES[self.tensors[0].dtype]
        return bool(torch.isclose(actual, expected, rtol=tolerance, atol=tolerance).all())


def make_case(seed: int, dtype: torch.dtype, device: torch.device) -> Case:
    """A random case, small because the interpreter takes 10 ms a program."""
    draw, torch_draw = random.Random(seed), torch.Generator().manual_seed(seed)
    N, G, T = draw.randint(1, 3), draw.choice([1, 1, 2]), draw.choice([1, 1, 2, 5])
    H = G * draw.choice([1, 2, 3, 4])
    D, M = draw.choice([4, 8, 20]), draw.choice([4, 5, 16])
    S, split = draw.choice([(9, 16), (16, 16), (17, 16), (40, 16), (33, 32), (30, 512)])
    lengths = [S] + [draw.choice([0, 1, S // 2, S - 1]) for _ in range(N - 1)]
    draw.shuffle(lengths)
    pool = 2 * N * S
    slots = torch.randperm(pool, generator=torch_draw)[: N * S].view(N, S)
    k, v = torch.full((G, pool, D), torch.nan), torch.full((G, pool, M), torch.nan)
    for row, length in zip(slots, lengths, strict=True):
        k[:, row[:length]] = torch.randn(G, length, D, generator=torch_draw)
        v[:, row[:length]] = torch.randn(G, length, M, generator=torch_draw)
    q = torch.randn(N, H, T, D, generator=torch_draw)
    mask, bias = None, None
    if draw.random() < 0.5:
        mask = torch.rand(N, 1, T, S, generator=torch_draw) < draw.choice([0.1, 0.7])
    if draw.random() < 0.5:
        bias = torch.randn(*draw.choice([(H, T, S), (N, H, T, S)]), generator=torch_draw).to(device)
    tensors = tuple(x.to(device, dtype) for x in (q, k, v))
    options = {"scale": D**-0.5, "mask": None if mask is None else mask.to(device), "bias": bias}
    tables = slots.to(device), torch.tensor(lengths, device=device)
    return Case((*tensors, *tables), options, {"split": split, "block": 16})
