"""Attention of a few queries, compared with explicit attention."""

import pytest
import torch
from helpers.builders import assert_equal, mask_of

from seq2seq.functional import explicit_attention
from seq2seq.functional.decode import FEW, decode_attention, use_decode_attention
from seq2seq.functional.scores import dot


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("queries", [1, 5])
def test_few_queries_get_the_explicit_attention(groups: int, queries: int) -> None:
    B, H, S, D, M = 3, 4, 7, 6, 5
    q, bias = torch.randn(B, H, queries, D).double(), torch.randn(H, queries, S).double()
    k, v = torch.randn(B, groups, S, D).double(), torch.randn(B, groups, S, M).double()
    of_keys = mask_of([7, 0, 3], S)[:, None, None]
    of_pairs = torch.rand(B, 1, queries, S) < 0.7
    for mask in (None, of_keys, of_pairs):
        for added in (None, bias):
            expected, _ = explicit_attention(dot(q, k, 0.3), v, mask=mask, bias=added)
            out = decode_attention(q, k, v, scale=0.3, mask=mask, bias=added)
            assert_equal(out, expected, 1e-12)
    assert not decode_attention(q, k, v, mask=of_keys)[1].any()


def test_the_inputs_and_their_type_are_kept() -> None:
    q, k, v = (torch.randn(2, 4, n, 8).bfloat16() for n in (1, 9, 9))
    before = [x.clone() for x in (q, k, v)]
    mask = torch.rand(2, 1, 1, 9) < 0.5
    out = decode_attention(q, k, v, mask=mask, bias=torch.randn(4, 1, 9))
    assert out.dtype is torch.bfloat16
    assert all(torch.equal(x, y) for x, y in zip(before, (q, k, v), strict=True))


def test_decode_attention_is_used_for_few_queries_without_gradients() -> None:
    q = torch.zeros(1, 1, FEW, 2)
    assert not use_decode_attention(q)
    with torch.no_grad():
        assert use_decode_attention(q) and not use_decode_attention(torch.zeros(1, 1, FEW + 1, 2))
