"""Page-local and windowed attention in blocks, compared with loops over the formulas."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
import torch
from helpers.builders import assert_equal, mask_of
from helpers.gradients import assert_same, held_for_the_gradient
from torch import Tensor

from seq2seq.functional.local import (
    Bias,
    Keys,
    SoftmaxOptions,
    page_local_attention,
    window_attention,
)
from seq2seq.functional.positions import alibi

Form = Literal["joint", "per_page", "mean"]
SCALE = 0.4
FORMS: tuple[Form, ...] = ("joint", "per_page", "mean")


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def by_loops(
    q: Tensor,
    keys: Keys,
    visible: Callable[[int, int], bool],
    bias: Bias | None,
    page: int | None = None,
    divided: bool = False,
) -> tuple[Tensor, Tensor]:
    """Full attention with a softmax over the visible keys, or over those of each page.

    q (B, H, T, D) at the last positions of all keys -> out (B, H, T, M), weights (B, H, T, S).
    """
    B, H, T, _ = q.shape
    S = keys.k.shape[2]
    none = q.new_zeros(())
    weights = [[[[none] * S for _ in range(T)] for _ in range(H)] for _ in range(B)]
    for b, h, t in itertools.product(range(B), range(H), range(T)):
        i = S - T + t
        seen = [j for j in range(S) if visible(i, j) and (keys.mask is None or keys.mask[b, j])]
        score = {}
        for j in seen:
            added = None if bias is None else bias(torch.tensor([[[j - i]]]))
            score[j] = SCALE * q[b, h, t] @ keys.k[b, h, j]
            score[j] = score[j] if added is None else score[j] + added[0, h, 0, 0]
        pages = {0 if page is None else j // page for j in seen}
        for one in pages:
            members = [j for j in seen if page is None or j // page == one]
            total = torch.stack([score[j].exp() for j in members]).sum()
            for j in members:
                weights[b][h][t][j] = score[j].exp() / total / (len(pages) if divided else 1)
    whole = torch.stack(
        [torch.stack([torch.stack([torch.stack(r) for r in h]) for h in b]) for b in weights]
    )
    return whole @ keys.v, whole


class Learnt:
    """A bias that is learnt for each distance up to 80, as T5's is for each class of distances."""

    def __init__(self, heads: int):
        self.table = normal(161, heads)
        self.asked = 0  # for at most this many pairs at once

    def __call__(self, distance: Tensor) -> Tensor:
        self.asked = max(self.asked, distance.numel())
        return self.table[distance.clamp(-80, 80) + 80].movedim(-1, -3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("radius, first", [(1, 0), (1, 2), (3, 1), (9, 40)])
@pytest.mark.parametrize("size", [1, 7, 37])
def test_a_window_is_full_attention_with_its_mask(
    size: int, radius: int, first: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.functional.local.MIN_BLOCK", 5)  # so that there are blocks
    first = min(first, size)
    q, k, v = normal(2, 2, size, 4), normal(2, 2, size, 4), normal(2, 2, size, 3)
    # Rows of all lengths: one that is full, and one that is so short that a query may see nothing.
    mask, bias = mask_of([size, size // 3], size), Learnt(2)
    whole = Keys(k, v, mask)
    head = Keys(k[:, :, :first], v[:, :, :first], mask[:, :first])

    def visible(i: int, j: int) -> bool:
        return (abs(i - j) <= radius or j < first) and not (causal and j > i)

    how, options = SoftmaxOptions(SCALE, bias), {"radius": radius, "causal": causal}
    shown = how._replace(need_weights=True)
    actual = window_attention(q, whole, head, shown, **options)
    expected = by_loops(q, whole, visible, bias)
    assert_same(actual, expected, q, k, v, bias.table)
    assert_equal(window_attention(q, whole, head, how, **options), (actual[0], None))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("page, radius", [(1, 2), (4, 0), (4, 1), (5, 3)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 7, pytest.param(23, marks=pytest.mark.slow)])
def test_pages_are_full_attention_with_their_mask(
    size: int, form: Form, page: int, radius: int, causal: bool
) -> None:
    q, k, v = normal(2, 2, size, 4), normal(2, 2, size, 4), normal(2, 2, size, 3)
    mask, bias = mask_of([size, size // 3], size), Learnt(2)
    whole = Keys(k, v, mask)

    def visible(i: int, j: int) -> bool:
        return abs(i // page - j // page) <= radius and not (causal and j > i)

    how = SoftmaxOptions(SCALE, bias)
    options: dict[str, Any] = {"page": page, "radius": radius, "form": form, "causal": causal}
    actual = page_local_attention(q, whole, how._replace(need_weights=True), **options)
    alone = None if form == "joint" else page
    expected = by_loops(q, whole, visible, bias, alone, divided=form == "mean")
    assert_same(actual, expected, q, k, v, bias.table)
    assert_equal(page_local_attention(q, whole, how, **options), (actual[0], None))


@pytest.mark.parametrize("last", [1, 2, 6, 12, 20])
@pytest.mark.parametrize("forgotten", [0, 3, 11])
def test_the_last_queries_need_only_the_last_keys(last: int, forgotten: int) -> None:
    size, page, radius = 31, 4, 1
    q, k, v = normal(2, 2, size, 4), normal(2, 2, size, 4), normal(2, 2, size, 3)
    bias = partial(alibi, heads=2)
    start = max(0, min(forgotten, size - last - (radius + 1) * page))
    kept = Keys(k[:, :, start:], v[:, :, start:], start=start)
    shared: dict[str, Any] = {"how": SoftmaxOptions(SCALE, bias, need_weights=True), "causal": True}
    for form in FORMS:
        cut = partial(page_local_attention, page=page, radius=radius, form=form, **shared)
        out, weights = cut(q, Keys(k, v))
        assert weights is not None
        assert_equal(cut(q[:, :, -last:], kept), (out[:, :, -last:], weights[:, :, -last:]))
    window = partial(window_attention, radius=3, **shared)
    head = Keys(k[:, :, :2], v[:, :, :2])
    out, weights = window(q, Keys(k, v), head)
    assert weights is not None
    assert_equal(window(q[:, :, -last:], kept, head), (out[:, :, -last:], weights[:, :, -last:]))


def test_five_equal_scores_in_pages_of_two_give_the_means_on_paper() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).view(1, 1, 5, 1)
    keys = Keys(torch.randn(1, 1, 5, 2), values)
    # The query sits in the middle page; the means of the pages are 1.5, 3.5 and 5.
    expected = {"joint": 15 / 5, "per_page": 1.5 + 3.5 + 5, "mean": (1.5 + 3.5 + 5) / 3}
    for form in FORMS:
        q = torch.zeros(1, 1, 5, 2)
        out, _ = page_local_attention(q, keys, SoftmaxOptions(1.0), page=2, radius=1, form=form)
        assert out[0, 0, 2:4].flatten().tolist() == pytest.approx([expected[form]] * 2)


def test_a_global_key_within_the_window_counts_once() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).view(1, 1, 5, 1)
    keys = Keys(torch.randn(1, 1, 5, 2), values)
    head = Keys(keys.k[:, :, :2], values[:, :, :2])
    out, _ = window_attention(torch.zeros(1, 1, 5, 2), keys, head, SoftmaxOptions(1.0), radius=1)
    # The keys of each query: 1 2, 1 2 3, 1 2 3 4, 1 2 3 4 5, 1 2 4 5.
    assert out.flatten().tolist() == pytest.approx([1.5, 2, 2.5, 3, 3])


def test_dropout_drops_weights_and_enlarges_the_others() -> None:
    size, p = 50, 0.4
    q, k = torch.randn(2, 1, 2, size, 4)
    keys = Keys(k, torch.eye(size).expand(1, 2, size, size))  # so that outputs are weights
    how = SoftmaxOptions(SCALE, dropout=p, need_weights=True)
    for out, weights in (
        page_local_attention(q, keys, how, page=4, radius=1),
        window_attention(q, keys, Keys(k[:, :, :1], keys.v[:, :, :1]), how, radius=3),
    ):
        assert weights is not None
        assert_equal(weights.sum(-1), torch.ones(1, 2, size))
        dropped = (out == 0) & (weights > 0)
        assert_equal(out[~dropped], (weights / (1 - p))[~dropped], 1e-4)
        assert 0.3 < dropped.sum() / (weights > 0).sum() < 0.5


@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_linearly_with_the_length(causal: bool) -> None:
    def measure(size: int) -> tuple[int, int, int]:
        bias = Learnt(2)
        q, k, v = normal(1, 2, size, 8), normal(1, 2, size, 8), normal(1, 2, size, 8)
        keys, head = Keys(k, v), Keys(k[:, :, :1], v[:, :, :1])
        shared: dict[str, Any] = {"how": SoftmaxOptions(SCALE, bias), "causal": causal}
        pages = partial(page_local_attention, q, keys, page=4, radius=1, **shared)
        window = partial(window_attention, q, keys, head, radius=4, **shared)
        return sum(held_for_the_gradient(pages)), sum(held_for_the_gradient(window)), bias.asked

    for short, long in zip(measure(512), measure(2048), strict=True):
        assert long <= 4.1 * short
