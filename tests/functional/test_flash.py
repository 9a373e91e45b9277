"""Flash attention equals the explicit formula and its gradients, and stores little for them."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from helpers.builders import assert_equal, gradients
from helpers.gradients import assert_same, held_for_the_gradient
from softmax_cases import visible, written_out
from torch import Tensor

from seq2seq.functional import explicit_attention, flash_additive_attention, flash_attention
from seq2seq.functional.flash import use_flash_additive
from seq2seq.functional.scores import additive, dot
from seq2seq.functional.tiles import Tiles, TileSize, Tiling

B, H, D, M = 3, 4, 6, 5
SCALE = 0.4
SHAPE = B, H, 9, 23


class Kind(NamedTuple):
    """Flash attention with one kind of score."""

    name: str
    attend: Callable[..., Tensor]
    score: Callable[..., Tensor]  # of the inputs, written out
    tiles: list[dict[str, Any]]  # options that cut tiles of several sizes, the first ones small
    held: int  # elements held for the gradient of each token, for two key heads
    beside: int  # and for all tokens together

    def inputs(
        self, T: int, S: int, groups: int, dtype: torch.dtype = torch.float64
    ) -> list[Tensor]:
        """The inputs in the order of the function, the values last."""
        shapes: list[tuple[int, ...]] = [(B, H, T, D), (B, groups, S, D), (B, groups, S, M)]
        if self is ADDITIVE:
            shapes[1:2] = [(B, H, S, D), (H, D)]
        return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]

    def written_out(self, given: list[Tensor], *options: Any, **named: Any) -> Tensor:
        return written_out(self.score(*given), given[-1], *options, **named)


DOT = Kind(
    "dot",
    lambda q, k, v, **options: flash_attention(q, k, v, scale=SCALE, **options),
    lambda q, k, v: dot(q, k, SCALE),
    [
        {"block_q": q, "block_k": k}
        for q, k in ((1, 1), (7, 16), (16, 7), (4, 7), (100, 100), (128, 512))
    ],
    B * (H * D + 2 * D + 2 * M + H * M + H),  # q, k, v, out and lse
    0,
)
# Tiles of one pair; of a few; of some queries and all keys; of some sentences; of everything.
ADDITIVE = Kind(
    "additive",
    flash_additive_attention,
    lambda wq, wk, u, v: additive(wq, wk, u),
    [
        {"max_elements": None if pairs is None else pairs * H * D}
        for pairs in (1, 7, 300, 1000, None)
    ],
    B * (2 * H * D + 2 * M + H * M + H),
    H * D,  # u
)
every_kind = pytest.mark.parametrize("kind", [DOT, ADDITIVE], ids=lambda kind: kind.name)


def cases() -> list[Any]:
    """Every kind with sizes and groups; for additive scores the rarer ones are slow."""
    sizes = [(1, 1), (1, 7), (23, 23), (5, 37), (37, 5)]
    return [
        pytest.param(
            kind,
            size,
            groups,
            marks=[pytest.mark.slow] * (kind is ADDITIVE and (groups == 1 or size == (37, 5))),
            id=f"{kind.name}-{size}-{groups}",
        )
        for kind, size, groups in itertools.product((DOT, ADDITIVE), sizes, (4, 2, 1))
    ]


@pytest.mark.parametrize(
    "mask",
    ["padding", "empty", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("none", "any"))],
)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize(("kind", "sizes", "groups"), cases())
def test_any_tiles_compute_the_softmax_with_gradients(
    kind: Kind, sizes: tuple[int, int], groups: int, causal: bool, mask: str
) -> None:
    given, allowed = kind.inputs(*sizes, groups), visible(mask, (B, H, *sizes))
    for tiles in kind.tiles:
        expected = kind.written_out(given, allowed, causal)
        flash = kind.attend(*given, mask=allowed, causal=causal, **tiles)
        assert_same(flash, expected, *given, tolerance=1e-12)


@pytest.mark.parametrize(
    "shape", [(1,), (23,), (9, 23), (4, 9, 1), (4, 9, 23), (B, 4, 1, 23), (B, 1, 9, 1)], ids=str
)
@pytest.mark.parametrize(
    ("kind", "causal"),
    [(DOT, False), (DOT, True), (ADDITIVE, True)],
    ids=["all", "dot", "additive"],
)
@pytest.mark.parametrize("groups", [4, 2], ids=["mha", "gqa"])
def test_a_bias_is_added_and_learns_in_its_shape(
    groups: int, kind: Kind, causal: bool, shape: tuple[int, ...]
) -> None:
    given, mask = kind.inputs(9, 23, groups), visible("empty", SHAPE)
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    for tiles in kind.tiles:
        expected = kind.written_out(given, mask, causal, bias)
        flash = kind.attend(*given, mask=mask, bias=bias, causal=causal, **tiles)
        assert_same(flash, expected, *given, bias, tolerance=1e-12)


def test_the_logarithm_of_the_sum_is_stored_for_the_gradient() -> None:
    given, mask = DOT.inputs(9, 23, 2), visible("empty", SHAPE)
    assert mask is not None
    out = DOT.attend(*given, mask=mask, block_q=4, block_k=7)
    assert out.grad_fn is not None
    lse = out.grad_fn.saved_tensors[-1]  # type: ignore[attr-defined]
    scores = DOT.score(*given).masked_fill(~mask, -torch.inf)
    assert_equal(lse, scores.logsumexp(-1, keepdim=True))
    # So the weights are exp(e - lse), and none where there is no key.
    weights = (scores - lse).exp()[mask.any(-1)]
    assert_equal(weights.sum(-1), torch.ones_like(weights[:, 0]))
    assert (lse[1] == -torch.inf).all()


def test_scores_beyond_the_range_of_exp_are_handled_in_any_order_of_keys() -> None:
    q, k, v = (x.detach() for x in DOT.inputs(5, 40, 2, torch.float32))
    for order in (torch.arange(40), torch.arange(39, -1, -1)):
        far = k * torch.linspace(1, 300, 40)[:, None]
        flash = DOT.attend(q, far[:, :, order], v[:, :, order], block_q=2, block_k=3)
        wide = [x.double() for x in (q, far, v)]
        assert_equal(flash.double(), DOT.written_out(wide), 1e-3)


def test_saturated_hidden_layers_give_exact_answers_and_gradients() -> None:
    near, sizes = ADDITIVE.inputs(5, 40, 2), (300, 300, 1000, 1)
    far = [(size * x).detach().requires_grad_() for size, x in zip(sizes, near, strict=True)]
    flash = ADDITIVE.attend(*far, max_elements=11 * H * D)
    assert flash.isfinite().all()
    assert_same(flash, ADDITIVE.written_out(far), *far, tolerance=1e-12)


@every_kind
@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_without_queries_there_is_no_answer_and_without_keys_it_is_zero(
    kind: Kind, sizes: tuple[int, int], causal: bool
) -> None:
    given = kind.inputs(*sizes, 2)
    out = kind.attend(*given, causal=causal)
    assert out.shape == (B, H, sizes[0], M)
    assert not out.any()
    for slope in gradients(out.sum(), *given):
        assert not slope.any()


def test_a_query_before_every_key_gets_zeros() -> None:
    given = DOT.inputs(6, 4, 2)
    out = DOT.attend(*given, causal=True, block_q=2)
    assert not out[:, :, :2].any() and out[:, :, 2:].all()
    (slope,) = gradients(out[:, :, 2:].square().sum(), given[0])
    assert not slope[:, :, :2].any()


def factors(tiling: Tiling, shape: tuple[int, int, int, int]) -> Tensor:
    """The dropout factor of each weight, drawn tile by tile as in both passes."""
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


@pytest.mark.parametrize("groups", [4, 2], ids=["mha", "gqa"])
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *((DOT, (B, *block)) for block in ((4, 7), (128, 512))),
        *((ADDITIVE, size) for size in ((1, 9, 1), (1, 9, 5), (2, 9, 23))),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_forward_and_backward_drop_the_same_weights(
    kind: Kind, size: tuple[int, int, int], groups: int
) -> None:
    given, mask = kind.inputs(9, 23, groups), visible("empty", SHAPE)
    bias = torch.randn(H, 9, 23, dtype=torch.float64, requires_grad=True)
    tiles = {"block_q": size[1], "block_k": size[2]}
    if kind is ADDITIVE:
        tiles = {"max_elements": size[0] * size[1] * size[2] * H * D}
    torch.default_generator.manual_seed(3)
    seed = int(torch.randint(2**62, ()))
    torch.default_generator.manual_seed(3)
    flash = kind.attend(*given, mask=mask, bias=bias, dropout=0.25, **tiles)
    keep = factors(Tiling(1.0, False, 0.25, seed, TileSize(*size)), SHAPE)
    assert set(keep.unique().tolist()) == {0, 4 / 3}
    # The sum of a softmax runs over the dropped weights too.
    weights = explicit_attention(kind.score(*given), given[-1], mask=mask, bias=bias)[1]
    values = given[-1].repeat_interleave(H // groups, dim=1)
    assert_same(flash, (weights * keep) @ values, *given, bias, tolerance=1e-12)


@every_kind
def test_dropout_depends_on_the_call_and_not_on_the_size_of_tiles(kind: Kind) -> None:
    given, answers = kind.inputs(9, 23, 2), []
    for tiles in kind.tiles:
        torch.default_generator.manual_seed(1)
        answers.append(kind.attend(*given, dropout=0.5, **tiles))
    for answer in answers[1:]:
        assert_equal(answer, answers[0])
    assert not torch.allclose(kind.attend(*given, dropout=0.5), answers[0])


def test_every_sentence_and_tile_draws_independently() -> None:
    drawn = factors(Tiling(1.0, False, 0.5, 0, TileSize(1, 4, 6)), (3, 4, 8, 12))
    flat = drawn.unflatten(2, (2, 4)).unflatten(4, (2, 6)).permute(0, 2, 4, 1, 3, 5).reshape(12, -1)
    # 96 fair coins each: of two independent tiles 48 agree, with a deviation of 4.9.
    for first, second in itertools.combinations(flat, 2):
        assert 18 < int((first == second).sum()) < 78


@every_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_run_in_float32_under_a_narrow_type_and_under_autocast(
    kind: Kind, dtype: torch.dtype
) -> None:
    given = kind.inputs(5, 300, 2, torch.float32)
    low = [x.to(dtype) if x.dim() == 4 else x for x in given]  # u is a parameter
    bias = torch.randn(H, 5, 300, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        flash = kind.attend(*low, bias=bias, **kind.tiles[2])
        slope = torch.randn(flash.shape)
        actual = gradients((flash.float() * slope).sum(), *given, bias)
    assert flash.dtype is dtype
    # Nothing is rounded but the inputs and the answer.
    reference = kind.written_out([x.float() for x in low], bias=bias)
    step = torch.finfo(dtype).eps
    assert_equal(flash.float(), reference, step)
    assert {x.dtype for x in actual} == {torch.float32}
    assert_equal(actual, gradients((reference * slope).sum(), *given, bias), 8 * step)


@every_kind
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_memory_for_the_gradient_grows_linearly_with_the_length(
    kind: Kind, causal: bool, dropout: float
) -> None:
    mask = torch.ones(B, 1, 1, 1, dtype=torch.bool)  # not as long as the text here
    for length in (50, 100):
        given = kind.inputs(length, length, 2, torch.float32)
        held = held_for_the_gradient(
            lambda given=given: kind.attend(*given, causal=causal, dropout=dropout, mask=mask)
        )
        assert sum(held) == length * kind.held + kind.beside + mask.numel()


def test_large_hidden_layers_of_several_queries_are_computed_in_tiles() -> None:
    def used(T: int, S: int, device: str = "cpu") -> bool:
        shapes = (2, 4, T, 64), (2, 4, S, 64)
        return use_flash_additive(*(torch.empty(shape, device=device) for shape in shapes))

    assert used(200, 200) and used(2, 100_000)
    assert not used(20, 20) and not used(1, 100_000) and not used(200, 200, "meta")


@every_kind
def test_a_second_derivative_is_refused(kind: Kind) -> None:
    given = kind.inputs(5, 7, 2)
    out = kind.attend(*given)
    for loss in (out.sum(), out.square().sum()):
        with pytest.raises(RuntimeError, match="only once.*take attn.kernel=explicit"):
            torch.autograd.grad(loss, given[0], create_graph=True)


def test_wrong_shapes_are_refused_by_name() -> None:
    q, k, v = (x.detach() for x in DOT.inputs(3, 5, 2))
    wq, wk, u, _ = (x.detach() for x in ADDITIVE.inputs(3, 5, 2))
    wide = torch.ones(3, 6, dtype=torch.bool)
    refused: list[tuple[Kind, tuple[Tensor, ...], dict[str, Any], str]] = [
        (DOT, (q, k[..., :4], v), {}, "k has shape"),
        (DOT, (q[:, :3], k, v), {}, "2 key heads do not divide 3 query heads"),
        (DOT, (q, k, v), {"mask": wide}, r"mask has shape \(3, 6\); .* = \(3, 4, 3, 5\)"),
        (DOT, (q, k, v), {"bias": torch.zeros(1, 1, 1, 1, 1)}, r"bias has shape \(1, 1, 1, 1, 1\)"),
        (DOT, (q, k, v), {"block_q": 0}, "tiles of 0 queries and 512 keys"),
        (ADDITIVE, (wq, wk[..., :4], u, v), {}, "wk has shape"),
        (ADDITIVE, (wq, wk, u[:2], v), {}, "u has shape"),
        (ADDITIVE, (wq, wk, u, v[:, :, :4]), {}, "v has shape"),
        (ADDITIVE, (wq, wk, u, torch.cat((v, v[:, :1]), dim=1)), {}, "3 key heads do not divide 4"),
    ]
    for kind, given, options, message in refused:
        with pytest.raises(ValueError, match=message):
            kind.attend(*given, **options)
