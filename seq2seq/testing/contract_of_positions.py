"""The contract of position schemes: what holds for them outside attention."""

import torch

from seq2seq.models.layers.positions import PositionScheme
from seq2seq.testing.subject import DIM, assert_equal, gradients, randn

HOOKS = ("embed", "rotate", "bias", "relate")
PLACES = torch.arange(7)


@torch.no_grad()
def check_hook(scheme: PositionScheme) -> None:
    """It acts at its hook, one of `embed`, `rotate`, `bias` and `relate`, and at no other."""
    x, heads = randn(2, 7, DIM), randn(2, scheme.heads or 4, 7, 8)
    distance = PLACES - PLACES[:, None]
    found = (
        not torch.equal(scheme.embed(x, PLACES), x),
        not torch.equal(scheme.rotate(heads, PLACES), heads),
        scheme.bias(distance, heads.shape[1]) is not None,
        scheme.relate(heads, distance) is not None,
    )
    acting = [hook for hook, acts in zip(HOOKS, found, strict=True) if acts]
    assert acting == [scheme.hook], f"its hook is {scheme.hook}, and it acts at {acting}"


def check_embedding(scheme: PositionScheme) -> None:
    """Vectors added to tokens depend on each token's position alone, and reach every parameter."""
    x = randn(2, 7, DIM).requires_grad_()
    whole = scheme.embed(x, PLACES)
    assert whole.shape == x.shape, f"{tuple(x.shape)} becomes {tuple(whole.shape)}"
    steps = [scheme.embed(x[:, [t]], PLACES[t : t + 1]) for t in PLACES]
    assert_equal(torch.cat(steps, dim=1), whole)
    assert_equal(scheme.embed(x, PLACES.expand(2, 7)), whole)
    later = scheme.embed(x, PLACES + 1)
    assert not torch.allclose(later, whole), "positions make no difference"
    for gradient in gradients((whole * x).sum(), x, *scheme.parameters()):
        assert gradient.any(), "a parameter has no gradient"
    for dtype in (torch.float32, torch.bfloat16):
        out = scheme.to(dtype).embed(x.to(dtype), PLACES)
        assert out.dtype is dtype and out.isfinite().all(), f"in {dtype} it gives {out.dtype}"
