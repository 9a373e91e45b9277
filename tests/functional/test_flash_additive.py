"""Bahdanau's attention in tiles is the written-out formula, gradients included."""

from typing import Any, NamedTuple

import pytest
import torch
from helpers.builders import assert_equal, gradients
from tile_cases import assert_same, held_for_the_gradient, visible
from torch import Tensor

from seq2seq.functional import causal_mask, explicit_attention, flash_additive_attention
from seq2seq.functional.flash import use_flash_additive
from seq2seq.functional.scores import additive
from seq2seq.functional.tiles import Tiles, TileSize, Tiling

B, H, A, M = 3, 4, 6, 5
# Tiles of one pair; of a few; of some queries and all keys; of some sentences; of everything.
ELEMENTS = [1, 7 * H * A, 300 * H * A, 1000 * H * A, None]


class Inputs(NamedTuple):
    wq: Tensor
    wk: Tensor
    u: Tensor
    v: Tensor


def inputs(queries: int, keys: int, groups: int, dtype: torch.dtype = torch.float64) -> Inputs:
    shapes = (B, H, queries, A), (B, H, keys, A), (H, A), (B, groups, keys, M)
    return Inputs(*(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes))


def explicit(
    given: Inputs, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None
) -> Tensor:
    """The reference, which holds all T x S x A numbers."""
    wq, wk, u, v = given
    if causal:
        T, S = wq.shape[2], wk.shape[2]
        past = causal_mask(T, S, S - T)
        mask = past if mask is None else mask & past
    return explicit_attention(additive(wq, wk, u), v, mask=mask, bias=bias)[0]


@pytest.mark.parametrize(
    "mask",
    ["padding", "empty", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("none", "any"))],
)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize(
    "groups", [4, 2, pytest.param(1, marks=pytest.mark.slow)], ids=["mha", "gqa", "mqa"]
)
@pytest.mark.parametrize(
    "sizes",
    [(1, 1), (1, 7), (23, 23), (5, 37), pytest.param((37, 5), marks=pytest.mark.slow)],
    ids=str,
)
def test_any_tiles_compute_the_softmax_with_gradients(
    sizes: tuple[int, int], groups: int, causal: bool, mask: str
) -> None:
    given, allowed = inputs(*sizes, groups), visible(mask, (B, H, *sizes))
    for elements in ELEMENTS:
        expected = explicit(given, allowed, causal)
        flash = flash_additive_attention(*given, mask=allowed, causal=causal, max_elements=elements)
        assert_same(flash, expected, *given)


@pytest.mark.parametrize(
    "shape", [(1,), (23,), (9, 23), (4, 9, 1), (4, 9, 23), (3, 4, 1, 23), (3, 1, 9, 1)], ids=str
)
@pytest.mark.parametrize("groups", [4, 2], ids=["mha", "gqa"])
def test_a_bias_is_added_and_learns_in_its_shape(groups: int, shape: tuple[int, ...]) -> None:
    given, mask = inputs(9, 23, groups), visible("empty", (B, H, 9, 23))
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    for elements in ELEMENTS:
        expected = explicit(given, mask, True, bias)
        flash = flash_additive_attention(
            *given, mask=mask, bias=bias, causal=True, max_elements=elements
        )
        assert_same(flash, expected, *given, bias)


def test_saturated_hidden_layers_and_scores_beyond_the_range_of_exp_do_no_harm() -> None:
    near, sizes = inputs(5, 40, 2), (300, 300, 1000, 1)
    far = Inputs(
        *((size * x).detach().requires_grad_() for size, x in zip(sizes, near, strict=True))
    )
    flash = flash_additive_attention(*far, max_elements=11 * H * A)
    assert flash.isfinite().all()
    assert_same(flash, explicit(far), *far)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_no_queries_get_no_answer_and_no_keys_give_zeros(sizes: tuple[int, int]) -> None:
    given = inputs(*sizes, 2)
    out = flash_additive_attention(*given)
    assert out.shape == (B, H, sizes[0], M)
    assert not out.any()
    for slope in gradients(out.sum(), *given):
        assert not slope.any()


def factors(tiling: Tiling, shape: tuple[int, int, int, int]) -> Tensor:
    """What each weight is multiplied by, drawn tile by tile as both passes draw it."""
    drawn = torch.zeros(shape, dtype=torch.float64)
    for part in tiling.parts(shape[0]):
        of_part = drawn[part]
        tiles = Tiles((len(of_part), *shape[1:]), tiling, None, None, part.start)
        for rows in tiles.rows():
            for columns in tiles.columns(rows):
                tile = of_part[:, :, rows, columns]
                keep = tiles.keep(torch.zeros_like(tile).flatten(0, 1), rows, columns)
                assert keep is not None
                tile.copy_(tiles.by_heads(keep, rows))
    return drawn


@pytest.mark.parametrize(
    "size",
    [TileSize(1, 9, 1), TileSize(1, 9, 5), TileSize(2, 9, 23)],
    ids=lambda size: str(tuple(size)),
)
def test_forward_and_backward_drop_the_same_weights(size: TileSize) -> None:
    given, mask = inputs(9, 23, 2), visible("empty", (B, H, 9, 23))
    torch.default_generator.manual_seed(3)
    seed = int(torch.randint(2**62, ()))
    torch.default_generator.manual_seed(3)
    elements = size.sentences * size.queries * size.keys * H * A
    flash = flash_additive_attention(*given, mask=mask, dropout=0.25, max_elements=elements)
    keep = factors(Tiling(1.0, False, 0.25, seed, size), (B, H, 9, 23))
    assert set(keep.unique().tolist()) == {0, 4 / 3}
    # The sum of a softmax runs over the dropped weights too.
    scores = additive(given.wq, given.wk, given.u)
    weights = explicit_attention(scores, given.v, mask=mask)[1]
    values = given.v.repeat_interleave(H // 2, dim=1)
    assert_same(flash, (weights * keep) @ values, *given)


def test_every_sentence_and_tile_draws_independently() -> None:
    drawn = factors(Tiling(1.0, False, 0.5, 0, TileSize(1, 4, 6)), (3, 4, 8, 6))
    flat = drawn.unflatten(2, (2, 4)).transpose(1, 2).reshape(6, -1)
    # 96 fair coins each: of two independent tiles 48 agree, with a deviation of 4.9.
    for first in range(6):
        for second in range(first):
            assert 18 < int((flat[first] == flat[second]).sum()) < 78


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_run_in_float32_under_a_narrow_type_and_under_autocast(dtype: torch.dtype) -> None:
    wq, wk, u, v = given = inputs(5, 300, 2, torch.float32)
    low = Inputs(wq.to(dtype), wk.to(dtype), u, v.to(dtype))
    with torch.autocast("cpu", torch.bfloat16):
        flash = flash_additive_attention(*low, max_elements=50 * H * A)
        slope = torch.randn(flash.shape)
        actual = gradients((flash.float() * slope).sum(), *given)
    assert flash.dtype is dtype
    # Nothing is rounded but the inputs and the answer.
    reference = explicit(Inputs(*(x.float() for x in low)))
    step = torch.finfo(dtype).eps
    assert_equal(flash.float(), reference, step)
    assert_equal(actual, gradients((reference * slope).sum(), *given), 8 * step)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_what_is_kept_for_the_gradient_grows_with_the_length(dropout: float) -> None:
    def held(length: int) -> int:
        given = inputs(length, length, 2, torch.float32)
        return held_for_the_gradient(lambda: flash_additive_attention(*given, dropout=dropout))

    # Projections, values, out and lse of each token; u once.
    a_token = B * (2 * H * A + 2 * M + H * M + H)
    assert [held(50), held(100)] == [50 * a_token + H * A, 100 * a_token + H * A]


def test_large_hidden_layers_of_several_queries_are_computed_in_tiles() -> None:
    def used(T: int, S: int, device: str = "cpu") -> bool:
        shapes = (2, 4, T, 64), (2, 4, S, 64)
        return use_flash_additive(*(torch.empty(shape, device=device) for shape in shapes))

    assert used(200, 200) and used(2, 100_000)
    assert not used(20, 20) and not used(1, 100_000) and not used(200, 200, "meta")


def test_it_can_be_differentiated_once_and_says_so() -> None:
    given = inputs(5, 7, 2)
    loss = flash_additive_attention(*given).square().sum()
    with pytest.raises(RuntimeError, match="only once.*take attn.kernel=explicit"):
        torch.autograd.grad(loss, given.u, create_graph=True)


def test_shapes_that_it_cannot_take_are_refused_by_name() -> None:
    wq, wk, u, v = (x.detach() for x in inputs(3, 5, 2))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"wk": wk[..., :4]}, "wk has shape"),
        ({"u": u[:2]}, "u has shape"),
        ({"v": v[:, :, :4]}, "v has shape"),
        ({"v": torch.cat((v, v[:, :1]), dim=1)}, "3 key heads do not divide 4 query heads"),
        ({"mask": torch.ones(3, 6, dtype=torch.bool)}, r"mask has shape \(3, 6\)"),
    ]
    for change, message in refused:
        with pytest.raises(ValueError, match=message):
            flash_additive_attention(**{"wq": wq, "wk": wk, "u": u, "v": v, **change})
