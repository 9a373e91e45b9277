"""Every kernel in Triton against the readable torch that computes the same, in float64.

Tolerances are of the largest number: products of float32 are not those of float64.
"""

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from gpu_bench.rows import LEFT_OUT, Row, judge
from seq2seq.functional.decode import gather_attention
from seq2seq.functional.flash import flash_additive_attention, flash_attention
from seq2seq.functional.triton.launch import lacks_triton

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 6e-2}
# Of attention forward and backward. Each set is compiled once a type.
OPTIONS: tuple[dict[str, Any], ...] = (
    {"causal": True},
    {"padding": True, "dropout": 0.3},
    {"biased": True},
)


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    if told := lacks_triton():
        yield Row("Triton", f"needs {told}", LEFT_OUT)
        return
    checks = {"flash": flash_error, "additive": additive_error, "paged decoding": paged_error}
    for name, check in checks.items():
        for dtype, tolerance in TOLERANCES.items():
            count = 3 if tiny else 30
            what = f"{name}, {str(dtype).removeprefix('torch.')}"
            try:
                errors = [
                    check(options, dtype, device, tiny) for options in islice(cycle(OPTIONS), count)
                ]
            except Exception as error:  # the other kernels are still to be checked
                yield judge(what, f"{type(error).__name__}: {error}"[:300], False)
                continue
            told = f"error at most {max(errors):.1e} in {count} cases"
            yield judge(what, told, max(errors) < tolerance)
    yield check_bits(device, tiny)


def flash_error(
    options: dict[str, Any], dtype: torch.dtype, device: torch.device, tiny: bool
) -> float:
    from seq2seq.functional.triton_flash import triton_attention

    B, G, T, S, D = sizes(tiny, causal="causal" in options)
    q, k, v = (noise(*shape, D) for shape in ((B, 2 * G, T), (B, G, S), (B, G, S)))
    given = prepared(options, (B, 2 * G, T, S))
    return error_of(triton_attention, flash_attention, (q, k, v), given, dtype, device)


def additive_error(
    options: dict[str, Any], dtype: torch.dtype, device: torch.device, tiny: bool
) -> float:
    from seq2seq.functional.triton_flash import triton_additive_attention

    B, H, T, S, A = sizes(tiny, causal="causal" in options)
    inputs = noise(B, H, T, A), noise(B, H, S, A), noise(H, A), noise(B, H, S, A)
    given = prepared(options, (B, H, T, S))
    functions = triton_additive_attention, flash_additive_attention
    return error_of(*functions, inputs, given, dtype, device)


def sizes(tiny: bool, causal: bool) -> tuple[int, int, int, int, int]:
    """Ragged B, heads, T, S and a width."""
    T, S = torch.randint(1, 20 if tiny else 300, (2,)).tolist()
    return 1 if tiny else 3, 1 if tiny else 2, min(T, S) if causal else T, S, 16 if tiny else 64


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def prepared(options: dict[str, Any], shape: tuple[int, int, int, int]) -> dict[str, Any]:
    """The options of an attention (B, H, T, S): `padding` and `biased` as tensors."""
    B, H, T, S = shape
    given: dict[str, Any] = {}
    given |= {name: options[name] for name in ("causal", "dropout") if name in options}
    if "padding" in options:
        lengths = torch.randint(0, S + 1, (B, 1, 1, 1))
        given["mask"] = torch.arange(S) < lengths
    if "biased" in options:
        given["bias"] = noise(H, T, S)
    return given


def error_of(
    kernel: Callable[..., Tensor],
    readable: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    options: dict[str, Any],
    dtype: torch.dtype,
    device: torch.device,
) -> float:
    """Of the result and all gradients, relative to the largest number of each."""
    if readable is flash_attention:
        options = {**options, "scale": inputs[0].shape[-1] ** -0.5}
    slope = torch.randn(*inputs[0].shape[:3], inputs[-1].shape[-1], device=device).to(dtype)
    seed, results = int(torch.randint(2**31, ())), []
    for function, wide in ((kernel, dtype), (readable, torch.float64)):
        # What is rounded for the kernel is as rounded for the reference.
        leaves = [x.to(device, dtype).to(wide).requires_grad_() for x in inputs]
        given = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in options.items()}
        if "bias" in given:
            leaves.append(given["bias"].to(dtype).to(wide).requires_grad_())
            given["bias"] = leaves[-1]
        torch.manual_seed(seed)  # of dropout
        out = function(*leaves[: len(inputs)], **given)
        results.append([out, *torch.autograd.grad(out, leaves, slope.to(out.dtype))])
    pairs = zip(*results, strict=True)
    return max(relative(one.double(), other.double()) for one, other in pairs)


def relative(actual: Tensor, expected: Tensor) -> float:
    if not actual.isfinite().all():
        return float("inf")
    actual, expected = actual.detach(), expected.detach()
    # A gradient that should be zero, as with a single key, is as exact as what it is a sum of.
    return float((actual - expected).abs().max() / expected.abs().max().clamp(min=1))


def paged_error(
    options: dict[str, Any], dtype: torch.dtype, device: torch.device, tiny: bool
) -> float:
    from seq2seq.functional.triton.paged import paged_attention

    N, G, T, S, D = (2, 1, 2, 20, 16) if tiny else (40, 2, 5, 600, 64)
    q, k, v, *tables = pool(N, G, T, S, D, dtype, device)
    if "causal" in options:
        q = q[:, :, :1]
    given = prepared({k: v for k, v in options.items() if k == "biased"}, (N, 2 * G, q.shape[2], S))
    given = {name: x.to(device, dtype) for name, x in given.items()}
    out = paged_attention(q, k, v, *tables, scale=D**-0.5, **given)
    wide = {name: x.double() for name, x in given.items()}
    tensors = (x.double().nan_to_num() for x in (q, k, v))
    return relative(out.double(), gather_attention(*tensors, *tables, scale=D**-0.5, **wide))


def pool(
    N: int, G: int, T: int, S: int, D: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """q, k, v, slots and lengths; slots that no row has hold NaN."""
    lengths = torch.randint(0, S + 1, (N,))
    slots = torch.randperm(2 * N * S)[: N * S].view(N, S)
    owned = slots[torch.arange(S) < lengths[:, None]]
    k, v = (torch.full((G, 2 * N * S, D), torch.nan) for _ in range(2))
    k[:, owned], v[:, owned] = torch.randn(2, G, len(owned), D)
    moved = (x.to(device, dtype) for x in (torch.randn(N, 2 * G, T, D), k, v))
    return *moved, slots.to(device), lengths.to(device)


def check_bits(device: torch.device, tiny: bool) -> Row:
    """Paged decoding of each row alone and of all together: the same bits."""
    from seq2seq.functional.triton.paged import paged_attention

    N, S = (3, 20) if tiny else (64, 1500)
    q, k, v, slots, lengths = pool(N, 2, 1, S, 16 if tiny else 64, torch.bfloat16, device)
    together = paged_attention(q, k, v, slots, lengths)
    same = 0
    for n in range(N):
        row, longest = slice(n, n + 1), max(1, int(lengths[n]))
        alone = paged_attention(q[row], k, v, slots[row, :longest], lengths[row])
        same += int(torch.equal(alone, together[row]))
    told = f"{same} of {N} rows have the bits that they have alone"
    return judge("paged decoding, bfloat16, batch invariance", told, same == N)
