"""Memory and time of additive attention, forward and backward: written out, in tiles, in Triton."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gpu_bench.models import seconds
from gpu_bench.rows import LEFT_OUT, Row
from seq2seq.comparison.live_memory import live_memory
from seq2seq.functional import explicit_attention, flash_additive_attention
from seq2seq.functional.scores import additive
from seq2seq.functional.triton.launch import lacks_triton

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    width, lengths = (4, (16, 32)) if tiny else (256, (1024, 4096))
    ways: dict[str, Attention] = {
        "written out": lambda q, k, u, v: explicit_attention(additive(q, k, u), v)[0],
        "tiles in torch": flash_additive_attention,
    }
    if told := lacks_triton():
        yield Row("Triton", f"needs {told}", LEFT_OUT)
    else:
        from seq2seq.functional.triton_flash import triton_additive_attention

        ways["Triton"] = triton_additive_attention
    for length in lengths:
        for name, attend in ways.items():
            what = f"T = S = {length:,}, A = {width}, one head, float32: {name}"
            yield Row(what, measure(attend, length, width, device))


def measure(attend: Attention, length: int, width: int, device: torch.device) -> str:
    q, k, v = (torch.randn(1, 1, length, width, device=device, requires_grad=True) for _ in "qkv")
    u = torch.randn(1, width, device=device, requires_grad=True)

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(attend(q, k, u, v).sum(), (q, k, u, v))

    try:
        both()
        peak = live_memory(both, device).peak
        times = [seconds(both, device) for _ in range(3)]
    except torch.OutOfMemoryError:
        return "does not fit in the memory of the device"
    return f"{peak / 2**20:,.1f} MiB above the inputs, {1000 * min(times):,.3g} ms"
