"""Flash attention is the written-out formula, gradients included, and keeps little for them."""

from typing import Any, NamedTuple

import pytest
import torch
from helpers.builders import assert_equal, gradients
from tile_cases import assert_same, held_for_the_gradient, visible
from torch import Tensor

from seq2seq.functional import causal_mask, explicit_attention, flash_attention
from seq2seq.functional.scores import dot
from seq2seq.functional.tiles import Tiles, TileSize, Tiling

B, H, D, M = 2, 4, 6, 5
SCALE = 0.4
BLOCKS = [(1, 1), (7, 16), (16, 7), (100, 100), (128, 512)]


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor


def inputs(queries: int, keys: int, groups: int, dtype: torch.dtype = torch.float64) -> Inputs:
    shapes = (B, H, queries, D), (B, groups, keys, D), (B, groups, keys, M)
    return Inputs(*(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes))


def explicit(
    given: Inputs, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None
) -> Tensor:
    """The reference, which holds all T x S weights."""
    if causal:
        T, S = given.q.shape[2], given.k.shape[2]
        past = causal_mask(T, S, S - T)
        mask = past if mask is None else mask & past
    scores = dot(given.q, given.k, SCALE)
    return explicit_attention(scores, given.v, mask=mask, bias=bias)[0]


@pytest.mark.parametrize(
    "mask",
    ["padding", "empty", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("none", "any"))],
)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("groups", [4, 2, 1], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 7), (23, 23), (5, 37), (37, 5)], ids=str)
def test_any_tiles_compute_the_softmax_with_gradients(
    sizes: tuple[int, int], groups: int, causal: bool, mask: str
) -> None:
    given, allowed = inputs(*sizes, groups), visible(mask, (B, H, *sizes))
    for block_q, block_k in BLOCKS:
        expected = explicit(given, allowed, causal)
        flash = flash_attention(
            *given,
            scale=SCALE,
            mask=allowed,
            causal=causal,
            block_q=block_q,
            block_k=block_k,
        )
        assert_same(flash, expected, *given)


@pytest.mark.parametrize(
    "shape", [(1,), (23,), (9, 23), (4, 9, 1), (4, 9, 23), (2, 4, 1, 23)], ids=str
)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("groups", [4, 2], ids=["mha", "gqa"])
def test_a_bias_is_added_and_learns_in_its_shape(
    groups: int, causal: bool, shape: tuple[int, ...]
) -> None:
    given, mask = inputs(9, 23, groups), visible("empty", (B, H, 9, 23))
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    for block_q, block_k in BLOCKS:
        expected = explicit(given, mask, causal, bias)
        flash = flash_attention(
            *given,
            scale=SCALE,
            mask=mask,
            bias=bias,
            causal=causal,
            block_q=block_q,
            block_k=block_k,
        )
        assert_same(flash, expected, *given, bias)


def test_what_is_kept_for_the_gradient_is_the_logarithm_of_the_sum() -> None:
    given, mask = inputs(9, 23, 2), visible("empty", (B, H, 9, 23))
    assert mask is not None
    out = flash_attention(*given, scale=SCALE, mask=mask, block_q=4, block_k=7)
    assert out.grad_fn is not None
    lse = out.grad_fn.saved_tensors[-1]  # type: ignore[attr-defined]
    scores = dot(given.q, given.k, SCALE).masked_fill(~mask, -torch.inf)
    assert_equal(lse, scores.logsumexp(-1, keepdim=True))
    # So the weights are exp(e - lse), and none where there is no key.
    weights = (scores - lse).exp()[mask.any(-1)]
    assert_equal(weights.sum(-1), torch.ones_like(weights[:, 0]))
    assert (lse[1] == -torch.inf).all()


def test_scores_beyond_the_range_of_exp_and_keys_of_any_order_do_no_harm() -> None:
    given = inputs(5, 40, 2, torch.float32)
    q, k, v = (x.detach() for x in given)
    for order in (torch.arange(40), torch.arange(39, -1, -1)):
        far = k * torch.linspace(1, 300, 40)[:, None]
        flash = flash_attention(
            q, far[:, :, order], v[:, :, order], scale=SCALE, block_q=2, block_k=3
        )
        wide = Inputs(q.double(), far.double(), v.double())
        assert_equal(flash.double(), explicit(wide), 1e-3)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_no_queries_get_no_answer_and_no_keys_give_zeros(
    sizes: tuple[int, int], causal: bool
) -> None:
    given = inputs(*sizes, 2)
    out = flash_attention(*given, scale=SCALE, causal=causal)
    assert out.shape == (B, H, sizes[0], M)
    assert not out.any()
    for slope in gradients(out.sum(), *given):
        assert not slope.any()


def test_a_query_before_every_key_gets_zeros() -> None:
    given = inputs(6, 4, 2)
    out = flash_attention(*given, scale=SCALE, causal=True, block_q=2)
    assert not out[:, :, :2].any() and out[:, :, 2:].all()
    (slope,) = gradients(out[:, :, 2:].square().sum(), given.q)
    assert not slope[:, :, :2].any()


def factors(given: Inputs, dropout: float, seed: int, blocks: tuple[int, int]) -> Tensor:
    """What each weight is multiplied by, drawn tile by tile as both passes draw it."""
    shape = (*given.q.shape[:3], given.k.shape[2])
    groups = given.k.shape[1]
    drawn = given.q.new_zeros(shape)
    tiles = Tiles(shape, Tiling(SCALE, False, dropout, seed, TileSize(B, *blocks)), None, None)
    for rows in tiles.rows():
        for columns in tiles.columns(rows):
            size = B * groups, H // groups * (rows.stop - rows.start), columns.stop - columns.start
            keep = tiles.keep(given.q.new_zeros(size), rows, columns)
            assert keep is not None
            drawn[:, :, rows, columns] = tiles.by_heads(keep, rows)
    return drawn


@pytest.mark.parametrize("groups", [4, 2], ids=["mha", "gqa"])
@pytest.mark.parametrize("blocks", [(4, 7), (128, 512)], ids=str)
def test_forward_and_backward_drop_the_same_weights(blocks: tuple[int, int], groups: int) -> None:
    given, mask = inputs(9, 23, groups), visible("empty", (B, H, 9, 23))
    bias = torch.randn(H, 9, 23, dtype=torch.float64, requires_grad=True)
    options: dict[str, Any] = {"block_q": blocks[0], "block_k": blocks[1], "dropout": 0.25}
    torch.default_generator.manual_seed(3)
    seed = int(torch.randint(2**62, ()))
    torch.default_generator.manual_seed(3)
    flash = flash_attention(*given, scale=SCALE, mask=mask, bias=bias, **options)
    keep = factors(given, 0.25, seed, blocks)
    assert set(keep.unique().tolist()) == {0, 4 / 3}
    # The sum of a softmax runs over the dropped weights too.
    weights = explicit_attention(dot(given.q, given.k, SCALE), given.v, mask=mask, bias=bias)[1]
    values = given.v.repeat_interleave(H // groups, dim=1)
    assert_same(flash, (weights * keep) @ values, *given, bias)


def test_dropout_is_repeated_by_seeding_and_else_is_not() -> None:
    given = inputs(9, 23, 2)

    def drawn() -> Tensor:
        return flash_attention(*given, scale=SCALE, dropout=0.5, block_q=4, block_k=7)

    torch.default_generator.manual_seed(1)
    first, second = drawn(), drawn()
    assert not torch.equal(first, second)
    torch.default_generator.manual_seed(1)
    assert torch.equal(drawn(), first)


def test_tiles_of_any_size_drop_the_same_weights() -> None:
    given, answers = inputs(9, 23, 2), []
    for block_q, block_k in BLOCKS:
        torch.default_generator.manual_seed(1)
        options: dict[str, Any] = {"block_q": block_q, "block_k": block_k, "dropout": 0.5}
        answers.append(flash_attention(*given, scale=SCALE, **options))
    for answer in answers[1:]:
        assert_equal(answer, answers[0])


def test_dropout_keeps_the_mean() -> None:
    given = inputs(9, 23, 2)
    draws = [flash_attention(*given, scale=SCALE, dropout=0.25, block_k=7) for _ in range(500)]
    mean, deviation = torch.stack(draws).mean(0), torch.stack(draws).std(0) / 500**0.5
    assert ((mean - explicit(given)).abs() < 5 * deviation).all()


def test_every_tile_draws_independently() -> None:
    given = inputs(12, 12, 4)
    tiles = factors(given, 0.5, 0, (4, 4)).unflatten(2, (3, 4)).unflatten(4, (3, 4))
    flat = tiles.permute(2, 4, 0, 1, 3, 5).reshape(9, -1)
    # 128 fair coins each: of two independent tiles 64 agree, with a deviation of 5.7.
    for first in range(9):
        for second in range(first):
            assert 30 < int((flat[first] == flat[second]).sum()) < 98


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_run_in_float32_under_a_narrow_type_and_under_autocast(dtype: torch.dtype) -> None:
    given = inputs(5, 300, 2, torch.float32)
    low = Inputs(*(x.to(dtype) for x in given))
    bias = torch.randn(H, 5, 300, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        flash = flash_attention(*low, scale=SCALE, bias=bias, block_q=4, block_k=16)
        slope = torch.randn(flash.shape)
        actual = gradients((flash.float() * slope).sum(), *given, bias)
    assert flash.dtype is dtype
    # Nothing is rounded but the inputs and the answer.
    reference = explicit(Inputs(*(x.float() for x in low)), bias=bias)
    step = torch.finfo(dtype).eps
    assert_equal(flash.float(), reference, step)
    expected = gradients((reference * slope).sum(), *given, bias)
    assert [x.dtype for x in actual] == [torch.float32] * 4
    assert_equal(actual, expected, 8 * step)


def kept(length: int, **options: Any) -> int:
    """Elements held for the gradient, at T = S = `length`."""
    given = inputs(length, length, 2, torch.float32)
    return held_for_the_gradient(lambda: flash_attention(*given, scale=SCALE, **options))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_what_is_kept_for_the_gradient_grows_with_the_length(causal: bool, dropout: float) -> None:
    mask = torch.ones(B, 1, 1, 1, dtype=torch.bool)
    options: dict[str, Any] = {"causal": causal, "dropout": dropout, "block_q": 16, "mask": mask}
    # q, k, v, out and lse of each token; the mask is not as long as the text here.
    a_token = B * (H * D + 2 * D + 2 * M + H * M + H)
    assert kept(50, **options) == 50 * a_token + mask.numel()
    assert kept(100, **options) == 100 * a_token + mask.numel()


def test_it_can_be_differentiated_once_and_says_so() -> None:
    given = inputs(5, 7, 2)
    out = flash_attention(*given, scale=SCALE)
    for loss in (out.sum(), out.square().sum()):
        with pytest.raises(RuntimeError, match="only once.*take attn.kernel=explicit"):
            torch.autograd.grad(loss, given.q, create_graph=True)


def test_shapes_that_flash_attention_cannot_take_are_refused_by_name() -> None:
    q, k, v = torch.zeros(2, 4, 3, 6), torch.zeros(2, 2, 5, 6), torch.zeros(2, 2, 5, 6)
    with pytest.raises(ValueError, match="k has shape"):
        flash_attention(q, k[..., :4], v, scale=1.0)
    with pytest.raises(ValueError, match="2 key heads do not divide 3 query heads"):
        flash_attention(q[:, :3], k, v, scale=1.0)
    with pytest.raises(ValueError, match=r"mask has shape \(3, 6\); .* = \(2, 4, 3, 5\)"):
        flash_attention(q, k, v, scale=1.0, mask=torch.ones(3, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"bias has shape \(1, 1, 1, 1, 1\)"):
        flash_attention(q, k, v, scale=1.0, bias=torch.zeros(1, 1, 1, 1, 1))
    with pytest.raises(ValueError, match="tiles of 0 queries and 512 keys"):
        flash_attention(q, k, v, scale=1.0, block_q=0)
