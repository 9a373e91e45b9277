"""Attention over packed tokens is attention to each sentence alone, gradients included."""

import inspect
from typing import Any

import pytest
import torch
from helpers.builders import assert_equal
from torch import Tensor

from seq2seq.functional import fused_attention
from seq2seq.functional.varlen import Borders, varlen_attention, varlen_kernel

H, D = 4, 6
SCALE = D**-0.5
QUERIES, KEYS = [3, 0, 1, 4, 0], [2, 0, 5, 4, 1]  # the last has keys and no queries


def borders(queries: list[int], keys: list[int]) -> Borders:
    starts = (torch.tensor([0, *lengths]).cumsum(0).int() for lengths in (queries, keys))
    return Borders(*starts, max(queries + keys))


def inputs(queries: int, keys: int, groups: int) -> list[Tensor]:
    shapes = (queries, H, D), (keys, groups, D), (keys, groups, D)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def one_by_one(given: list[Tensor], queries: list[int], keys: list[int], causal: bool) -> Tensor:
    """Each sentence alone."""
    parts = zip(
        *(x.split(n) for x, n in zip(given, (queries, keys, keys), strict=True)), strict=True
    )
    rows = [
        fused_attention(*(x.transpose(0, 1)[None] for x in part), scale=SCALE, causal=causal)
        for part in parts
        if len(part[0])
    ]
    return torch.cat([row[0].transpose(0, 1) for row in rows])


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
def test_packed_sentences_are_read_one_by_one(groups: int, causal: bool) -> None:
    keys = QUERIES if causal else KEYS
    given = inputs(sum(QUERIES), sum(keys), groups)
    out = varlen_attention(*given, borders(QUERIES, keys), scale=SCALE, causal=causal)
    expected = one_by_one(given, QUERIES, keys, causal)
    assert_equal(out, expected)
    slope = torch.randn_like(out)
    assert_equal(
        list(torch.autograd.grad(out, given, slope)),
        list(torch.autograd.grad(expected, given, slope)),
    )


def test_queries_without_keys_read_zeros_and_have_no_gradient() -> None:
    given = inputs(3, 2, H)
    out = varlen_attention(*given, borders([1, 2], [2, 0]), scale=SCALE)
    assert not out[1:].any()
    (slope,) = torch.autograd.grad(out.sum(), given[:1])
    assert slope.isfinite().all() and not slope[1:].any()


def test_the_kernel_for_gpus_is_called_with_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On tensors without storage, since there may be no GPU."""
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    kernel, calls = varlen.varlen_attn, list[Any]()

    def note(*args: Any, **options: Any) -> Any:
        calls.append(inspect.signature(kernel).bind(*args, **options).arguments)
        return kernel(*args, **options)

    monkeypatch.setattr(varlen, "varlen_attn", note)
    half: Any = {"device": "meta", "dtype": torch.bfloat16, "requires_grad": True}
    given = [torch.empty(size, **half) for size in ((5, H, D), (7, 2, D), (7, 2, D))]
    starts = torch.empty(2, 4, device="meta", dtype=torch.int32)
    out = varlen_kernel(*given, Borders(*starts, 9), SCALE, causal=True)
    slopes = torch.autograd.grad(out.sum(), given)
    assert out.shape == (5, H, D) and out.dtype == torch.bfloat16
    assert [x.shape for x in slopes] == [x.shape for x in given]
    (call,) = calls
    sizes = [call[name].shape for name in ("query", "key", "value")]
    assert sizes == [(5, H, 8), (7, H, 8), (7, H, 8)]  # all heads, of a multiple of 8
    assert (call["max_q"], call["max_k"], call["scale"]) == (9, 9, SCALE)
    assert call["window_size"] == (-1, 0)  # causal
