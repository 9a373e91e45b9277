"""Hashed attention, compared with its definition token by token, and its limits."""

import itertools
import math
from functools import partial

import pytest
import torch
from helpers.builders import assert_equal, gradients, mask_of
from helpers.gradients import assert_same, held_for_the_gradient
from torch import Tensor

from seq2seq.functional import explicit_attention
from seq2seq.functional import lsh as module
from seq2seq.functional.lsh import (
    hash_buckets,
    lsh_attention,
    lsh_weights,
    rounds_seen,
    unit_vectors,
)
from seq2seq.functional.positions import distances
from seq2seq.functional.scores import dot

B, H, D, M = 3, 2, 6, 5


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def hashes(rounds: int, T: int, num_buckets: int) -> Tensor:
    return torch.randint(num_buckets, (B, H, rounds, T))


def lengths_of(T: int) -> list[int]:
    return [T, max(1, T // 2), 0]


def met(hash_of: list[int], i: int, chunk: int, length: int, causal: bool) -> list[int]:
    """The tokens that token i attends to in one round, by lists of the tokens of each bucket."""
    if i >= length:
        return []
    members = [j for j in range(length) if hash_of[j] == hash_of[i]]
    mine = members.index(i) // chunk
    chunks = [members[first : first + chunk] for first in range(0, len(members), chunk)]
    read = chunks[max(0, mine - 1) : mine + 1 if causal else mine + 2]
    return [j for j in itertools.chain(*read) if (j < i if causal else j != i)]


def slow(q: Tensor, k: Tensor, v: Tensor, buckets: Tensor, **given: object) -> Tensor:
    """Round by round as in the paper: outputs of rounds, weighted by e^(z_r - z)."""
    chunk, lengths, causal, bias = (given[n] for n in ("chunk", "lengths", "causal", "bias"))
    T = q.shape[2]
    out = torch.zeros_like(v)
    rows = []
    for b, h, i in itertools.product(range(B), range(H), range(T)):
        answers, sums = [], []
        for hash_of in buckets[b, h].tolist():
            others = met(hash_of, i, chunk, lengths[b], causal)
            if others:
                e = torch.stack([(q[b, h, i] * k[b, h, j]).sum() for j in others])
                if bias is not None:
                    e = e + torch.stack([bias[h, j - i + T - 1] for j in others])
                sums.append(e.exp().sum())
                answers.append((e.exp() / sums[-1]) @ v[b, h, others])
        if answers:
            total = torch.stack(sums).sum()
            rows.append(sum(z / total * o for z, o in zip(sums, answers, strict=True)))
        else:
            rows.append(v[b, h, i] if i < lengths[b] else torch.zeros(M, dtype=v.dtype))
    return torch.stack(rows).view_as(out)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rounds, chunk", [(1, 1), (3, 1), (1, 3), (3, 3), (2, 100)])
@pytest.mark.parametrize("T", [1, 2, 7, pytest.param(33, marks=pytest.mark.slow)])
def test_hashed_attention_follows_its_definition(
    T: int, rounds: int, chunk: int, causal: bool
) -> None:
    for masked, biased in itertools.product((False, True), repeat=2):
        q, k = randn(B, H, T, D).requires_grad_(), randn(B, H, T, D).requires_grad_()
        v, bias = randn(B, H, T, M).requires_grad_(), randn(H, 2 * T - 1).requires_grad_()
        lengths = lengths_of(T) if masked else [T] * B
        mask, added = mask_of(lengths, T) if masked else None, bias if biased else None
        buckets = hashes(rounds, T, 4)
        expected = slow(q, k, v, buckets, chunk=chunk, lengths=lengths, causal=causal, bias=added)
        out = lsh_attention(q, k, v, buckets, 4, chunk, mask=mask, bias=added, causal=causal)
        weights = lsh_weights(q, k, buckets, chunk, mask=mask, bias=added, causal=causal)
        assert_equal(weights @ v, expected)
        assert_same(out, expected, q, k, v, bias)


@pytest.mark.parametrize("causal", [False, True])
def test_rounds_are_counted_and_a_token_sees_itself_only_if_no_other(causal: bool) -> None:
    T, rounds, chunk = 29, 3, 2
    buckets, lengths = hashes(rounds, T, 6), lengths_of(T)
    count = rounds_seen(buckets, chunk, mask=mask_of(lengths, T), causal=causal)
    for b, h, i in itertools.product(range(B), range(H), range(T)):
        expected = [0] * T
        for hash_of in buckets[b, h].tolist():
            for j in met(hash_of, i, chunk, lengths[b], causal):
                expected[j] += 1
        if i < lengths[b] and not any(expected):
            expected[i] = 1
        assert count[b, h, i].tolist() == expected


BORDERS = {
    "all in the first bucket": [0] * 9,
    "all in the last bucket": [3] * 9,
    "one each": [3, 1, 0, 2],
    "empty buckets between": [0, 3, 0, 3, 3, 0, 0],
    "exactly whole chunks": [1, 1, 1, 2, 2, 2, 1, 1, 1],
    "one more than whole chunks": [2] * 7,
}


@pytest.mark.parametrize("hash_of", BORDERS.values(), ids=BORDERS)
@pytest.mark.parametrize("causal", [False, True])
def test_buckets_of_any_size_are_cut_into_chunks(hash_of: list[int], causal: bool) -> None:
    T = len(hash_of)
    buckets = torch.tensor(hash_of).expand(B, H, 1, T)
    q, k, v = randn(B, H, T, D), randn(B, H, T, D), randn(B, H, T, M)
    for length in (T, T - 1, 1):
        lengths = [length, T, 0]
        out = lsh_attention(q, k, v, buckets, 4, 3, mask=mask_of(lengths, T), causal=causal)
        given = {"chunk": 3, "lengths": lengths, "causal": causal, "bias": None}
        assert_equal(out, slow(q, k, v, buckets, **given))


@pytest.mark.parametrize("causal", [False, True])
def test_one_bucket_and_one_chunk_are_attention_to_all_others(causal: bool) -> None:
    T = 33
    q, k, v = randn(B, H, T, D), randn(B, H, T, D), randn(B, H, T, M)
    buckets, mask = torch.zeros(B, H, 2, T, dtype=torch.long), mask_of([T, 5, 1], T)
    others = ~torch.eye(T, dtype=torch.bool)
    if causal:
        others = others.tril()
    # A token without others reads itself: the first, and the only one of a row.
    seen = others & mask[:, None, None] & mask[:, None, :, None]
    alone = ~seen.any(-1) & mask[:, None]
    seen = seen | alone[..., None] & torch.eye(T, dtype=torch.bool)
    expected, weights = explicit_attention(dot(q, k), v, mask=seen)
    assert_equal(lsh_attention(q, k, v, buckets, 2, T, mask=mask, causal=causal), expected)
    assert_equal(lsh_weights(q, k, buckets, T, mask=mask, causal=causal), weights)


def test_the_size_of_pieces_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    T = 65
    q, k, v = randn(B, H, T, D), randn(B, H, T, D), randn(B, H, T, M)
    buckets, bias = hashes(2, T, 4), randn(H, 2 * T - 1)
    for causal in (False, True):
        whole = lsh_attention(q, k, v, buckets, 4, 3, bias=bias, causal=causal)
        for limit in (1, 200, 1000):
            monkeypatch.setattr(module, "MAX_ELEMENTS", limit)
            assert_equal(lsh_attention(q, k, v, buckets, 4, 3, bias=bias, causal=causal), whole)
        monkeypatch.undo()


def test_later_tokens_and_padding_move_no_hash_and_no_chunk() -> None:
    T, more, num_buckets = 21, 40, 4
    x, rotations = randn(B, H, T + more, D), torch.randn(2, H, D, num_buckets // 2)
    other = torch.cat((x[:, :, :T], 1e3 * randn(B, H, more, D)), dim=2)
    mask = mask_of([T] * B, T + more)
    buckets, changed = hash_buckets(x, rotations), hash_buckets(other, rotations)
    assert torch.equal(buckets[..., :T], changed[..., :T])
    # The past of a decoder, whatever follows; and a source, whatever padding follows.
    for causal, real in ((True, None), (False, mask)):
        count = rounds_seen(changed, 3, mask=real, causal=causal)
        assert torch.equal(count[:, :, :T, :T], rounds_seen(buckets[..., :T], 3, causal=causal))
        assert not count[:, :, :T, T:].any()
        outs = [
            lsh_attention(y, y, y, hash_buckets(y, rotations), 4, 3, mask=real, causal=causal)
            for y in (x, other)
        ]
        assert torch.equal(outs[0][:, :, :T], outs[1][:, :, :T])


def test_a_hash_is_the_nearest_of_the_directions_and_their_opposites() -> None:
    rotations = torch.eye(3).expand(1, 1, 3, 3)
    x = torch.tensor([[2.0, 1, 0], [0, 1, -3], [-1, 0.5, 0.5], [0, 0, 0], [1, 1, 0]])
    # x, y, z are buckets 0, 1, 2; their opposites 3, 4, 5; of equal ones the first.
    assert hash_buckets(x[None, None], rotations).tolist() == [[[[0, 5, 3, 0, 0]]]]
    assert hash_buckets(1e-3 * x[None, None], rotations).tolist() == [[[[0, 5, 3, 0, 0]]]]


def test_near_vectors_share_a_bucket_more_often() -> None:
    rotations = torch.randn(4000, 1, D, 4)
    x = torch.randn(D)
    sideways = torch.randn(D)
    sideways = unit_vectors(sideways - (sideways @ x) / (x @ x) * x) * x.norm()
    shares = []
    for angle in (0.0, 0.3, 0.9, math.pi / 2, math.pi):
        pair = torch.stack((x, math.cos(angle) * x + math.sin(angle) * sideways))
        first, second = hash_buckets(pair[None, None], rotations).unbind(-1)
        shares.append((first == second).double().mean().item())
    assert shares[0] == 1 and shares[-1] == 0
    assert shares == sorted(shares, reverse=True)
    # At a right angle, no better than chance: one of eight.
    assert abs(shares[3] - 1 / 8) < 5 * math.sqrt(1 / 8 * 7 / 8 / 4000)


def test_hashing_is_in_float32_or_wider_and_has_no_gradient() -> None:
    x, rotations = torch.randn(B, H, 50, D).bfloat16(), torch.randn(2, H, D, 8)
    expected = hash_buckets(x.double(), rotations.double())
    assert torch.equal(hash_buckets(x, rotations), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(hash_buckets(x.float(), rotations), expected)
    assert not hash_buckets(randn(B, H, 5, D).requires_grad_(), rotations).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_unit_vectors_have_finite_gradients_also_of_zero(dtype: torch.dtype) -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-3, 0.0]], dtype=dtype, requires_grad=True)
    y = unit_vectors(x)
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]])
    assert_equal(y.float(), expected, 4 * torch.finfo(dtype).eps)
    (slope,) = gradients(y.float().sum(), x)
    assert slope.isfinite().all() and not slope[1].any()
    # What is along the vector does not change it.
    assert abs((slope[0] * x[0]).sum().item()) < 8 * torch.finfo(dtype).eps


def test_all_zero_queries_attend_evenly_with_finite_gradients() -> None:
    x = torch.zeros(1, 1, 5, D, requires_grad=True)
    v = torch.randn(1, 1, 5, M)
    buckets = hash_buckets(x, torch.randn(1, 1, D, 2))
    out = lsh_attention(x, unit_vectors(x), v, buckets, 4, 16)
    others = (v.sum(2, keepdim=True) - v) / 4
    assert_equal(out, others)
    assert gradients(out.square().sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_memory_for_the_gradient_grows_linearly_with_the_length(causal: bool) -> None:
    kept = []
    for T in (1000, 4000):
        x = torch.randn(1, 1, T, D, requires_grad=True)
        buckets = hash_buckets(x, torch.randn(2, 1, D, 4))
        attend = partial(lsh_attention, x, unit_vectors(x), x, buckets, 8, 16, causal=causal)
        kept.append(sum(held_for_the_gradient(attend)))
    assert 3 < kept[1] / kept[0] < 4.2


def test_dropout_drops_weights_and_keeps_the_mean() -> None:
    T, p = 9, 0.4
    q, v = randn(1, 1, T, D), torch.eye(T, dtype=torch.float64)[None, None]
    buckets = torch.tensor([0, 1, 0, 0, 1, 2, 0, 1, 0])[None, None, None]
    exact = lsh_attention(q, unit_vectors(q), v, buckets, 4, 3, causal=True)
    draws = torch.stack(
        [
            lsh_attention(q, unit_vectors(q), v, buckets, 4, 3, causal=True, dropout=p)
            for _ in range(500)
        ]
    )
    seen = exact > 0
    dropped = draws == 0
    # Also the weight with which a token reads itself.
    assert seen[0, 0, 0, 0] and dropped[:, 0, 0, 0, 0].any()
    kept = torch.where(dropped, exact / (1 - p), draws)
    assert_equal(kept, (exact / (1 - p)).expand_as(kept), 1e-4)
    share = dropped[:, seen].double().mean(0)
    assert (share - p).abs().max() < 5 * math.sqrt(p * (1 - p) / 500)


def test_biases_are_read_by_distance() -> None:
    T = 7
    q, v, buckets = randn(B, H, T, D), randn(B, H, T, M), hashes(2, T, 2)
    table = randn(H, 2 * T - 1)
    dense = table[:, distances(torch.arange(T), T) + T - 1]
    count = rounds_seen(buckets, 3)
    scores = dot(q, unit_vectors(q)) + dense + count.clamp(min=1).double().log()
    expected, _ = explicit_attention(scores, v, mask=count > 0)
    assert_equal(lsh_attention(q, unit_vectors(q), v, buckets, 2, 3, bias=table), expected)


def test_shapes_that_disagree_are_named() -> None:
    q, v = randn(B, H, 7, D), randn(B, H, 7, M)
    with pytest.raises(ValueError, match="buckets has shape"):
        lsh_attention(q, q, v, hashes(2, 6, 4), 4, 3)
    with pytest.raises(ValueError, match="rotations has shape"):
        hash_buckets(q, torch.randn(2, H, D + 1, 2))
