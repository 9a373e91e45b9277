"""Draw docs/images/gallery/NAME.png: for each mechanism, which tokens its queries read.

    python scripts/draw_gallery.py [FOLDER]

Each picture has one map for every role that the mechanism is defined for. Rows are queries, columns
are tokens to read: blue is read, the darker the more (by the square root of the weight), and grey
has no weight at all. Nothing is trained. The tokens are words of a sentence in which words repeat,
each a random vector. Queries and keys use the same projection, so that a word resembles itself. A
mechanism without weights is drawn by its influence: the norm of the derivative of each output by
each token.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.ma import masked_array
from torch import Tensor, nn

from seq2seq.attention import ATTENTION, MULTIHEAD_PRESETS, Attention, Role, build
from seq2seq.functional.positions import sinusoid
from seq2seq.pages.plots import METADATA, QUIET, RAMP, RULE

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "gallery"
SOURCE = "the dog saw the cat and then the cat saw the old dog run away"
TARGET = "and then away the old dog run the cat saw"  # the same words in another order
DIM, HEADS = 64, 4
GAIN = 1.4  # a word resembles itself, and few others

# Options that are smaller than usual, so that a picture of 15 tokens shows their effect.
OPTIONS: dict[str, dict[str, Any]] = {
    "longformer": {"window": 2},
    "page_local": {"page": 3},
    "reformer": {"chunk": 2, "rounds": 1},
    "local_m": {"radius": 2},
    "local_p": {"radius": 4},
    "linformer": {"rank": 5, "length": 15},
    "mla": {"latent_dim": DIM},
    "performer": {"num_features": 256},
}


def names() -> list[str]:
    """Every mechanism, by the name of its preset."""
    return sorted({*MULTIHEAD_PRESETS, *ATTENTION} - {"multihead"})


def vectors(sentence: str) -> Tensor:
    """Tokens (1, T, E): the vector of each word, and a little of its position."""
    generator = torch.Generator().manual_seed(3)
    known, words = dict.fromkeys(SOURCE.split()), sentence.split()
    table = {word: torch.randn(DIM, generator=generator) for word in known}
    positions = sinusoid(torch.arange(len(words)), DIM)
    return (torch.stack([table[word] for word in words]) + 0.2 * positions)[None]


def mechanism_of(name: str, role: Role) -> Attention[Any]:
    """A mechanism whose keys are projected as its queries are, and without parameters of zero."""
    torch.manual_seed(0)
    attention = build(name, dim=DIM, num_heads=HEADS, role=role, **OPTIONS.get(name, {})).eval()
    for label, parameter in attention.named_parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=1.0 if label.startswith(("score", "centre")) else 0.1)
    parts = dict(attention.named_children())
    q = nn.init.orthogonal_(torch.empty(DIM, DIM)) * GAIN**0.5
    for part in ("q", "k", "qk", "q_global", "k_global", "k_up"):
        if isinstance(layer := parts.get(part), nn.Linear):
            layer.weight.data.copy_(q[: layer.out_features])
    if isinstance(down := parts.get("kv_down"), nn.Linear):
        nn.init.eye_(down.weight)
    return attention


def map_of(name: str, role: Role) -> Tensor:
    """The map of a mechanism in a role: weights of its first head or, if it has none, the influence
    of each token, relative to that of all tokens. (T, S)
    """
    attention = mechanism_of(name, role)
    x = vectors(TARGET if role is Role.CROSS else SOURCE)
    source = vectors(SOURCE).requires_grad_()
    if attention.shows_weights:
        weights: Tensor | None
        _, weights = attention(x, source if role is Role.CROSS else None, need_weights=True)
        assert weights is not None
        return weights[0, 0].detach()
    out = attention(x, source).out[0]
    rows = [torch.autograd.grad(row.sum(), source, retain_graph=True)[0][0] for row in out]
    influence: Tensor = torch.stack(rows).norm(dim=-1)
    return influence / influence.sum(-1, keepdim=True)


def draw(name: str) -> Figure:
    roles = [role for role in Role if role in find(name).roles]
    figure = Figure(figsize=(1.75 * len(roles), 1.95), layout="constrained")
    for axes, role in zip(figure.subplots(1, len(roles), squeeze=False)[0], roles, strict=True):
        weights = map_of(name, role)
        shown = masked_array(weights.sqrt(), weights == 0)
        axes.imshow(shown, cmap=RAMP.with_extremes(bad=RULE), vmin=0, vmax=0.8, aspect="equal")
        axes.set(xticks=[], yticks=[])
        axes.set_title(role.value, fontsize=8, color=QUIET, pad=3)
        axes.spines[:].set(color=RULE)
    return figure


def find(name: str) -> type[Attention[Any]]:
    return ATTENTION.find("multihead" if name in MULTIHEAD_PRESETS else name)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        figure = draw(name)
        FigureCanvasAgg(figure)
        figure.savefig(folder / f"{name}.png", dpi=100, metadata=METADATA["png"])
    print(folder)


if __name__ == "__main__":
    main()
