"""A Transformer's stacks as structures of the C, if it covers them."""

from ctypes import pointer
from threading import Lock
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from seq2seq.attention.multihead import MultiHead
from seq2seq.attention.scores import Dot, ScaledDot
from seq2seq.attention.ssru import SSRU
from seq2seq.decoding.native.layout import address, check_step, structs
from seq2seq.decoding.native.linear import Packer
from seq2seq.models.transformer import Transformer
from seq2seq.nn.layer import ACTIVATIONS, FeedForward
from seq2seq.nn.positions import ALiBi, Learned, PositionScheme, Rotary, Sinusoidal, T5Bias

KINDS = {nn.Identity: 0, nn.LayerNorm: 1, nn.RMSNorm: 2}
NUMBERS = {ACTIVATIONS[name]: i for i, name in enumerate(("relu", "gelu", "silu"), start=1)}
SCHEMES = (Sinusoidal, Learned, Rotary, ALiBi, T5Bias, PositionScheme)
FIRST_POSITIONS = 256


def is_covered(model: nn.Module) -> TypeGuard[Transformer]:
    """Does the C compute both stacks of this model?"""
    if type(model) is not Transformer:
        return False
    layers = [*model.encoder, *model.decoder]
    own = [layer.attention for layer in model.decoder]
    read = [layer.attention for layer in model.encoder] + [layer.cross for layer in model.decoder]
    positions = (model.encoder_position, model.decoder_position)
    norms = [m for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.RMSNorm))]
    return (
        all(map(is_plain, read))
        and (all(map(is_plain, own)) or all(type(unit) is SSRU for unit in own))
        and all(type(layer.feed) is FeedForward for layer in layers)
        and all(type(scheme) in SCHEMES for scheme in positions)
        and all(type(norm) in KINDS for norm in norms)
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in model.parameters())
    )


def is_plain(attention: nn.Module) -> bool:
    if type(attention) is not MultiHead or not isinstance(attention.q, nn.Linear):
        return False
    return type(attention.score) in (Dot, ScaledDot)


class NativeStack:
    """One stack of a model that is covered: `encoder` or `decoder`."""

    def __init__(self, packer: Packer, model: Transformer, side: str):
        self.packer = packer
        self.held: list[Any] = []  # what the structures point to
        self._lock = Lock()  # of `reach`
        layers = list(getattr(model, side))
        self.position: PositionScheme = getattr(model, f"{side}_position")
        words = model.embeddings.target if side == "decoder" else model.embeddings.source
        self.dim, self.pieces = model.embeddings.dim, len(words.weight)
        array = (structs.layer * len(layers))()
        for struct, layer in zip(array, layers, strict=True):
            self._fill(struct, layer)
        self.own = [struct.own for struct in array if struct.own.heads]
        self.struct = structs.stack(
            *(self.dim, len(layers), layers[0].around_feed.pre, array),
            self._norm(getattr(model, f"{side}_norm")),
            self._keep(words.weight),
            model.embeddings.scale,
            vocabulary=self.pieces,
        )
        crosses = [layer.cross for layer in layers if hasattr(layer, "cross")]
        # What all layers of a decoder remember of the source: k and v of the first, and so on.
        maps = [m for cross in crosses for m in (cross.k, cross.v)]
        self.of_source = packer(*maps) if maps else None
        self.positions = 0  # that its tables have
        self.reach(FIRST_POSITIONS)

    def reach(self, positions: int) -> None:
        """Have tables for so many positions. Other threads may decode with the shorter ones: those
        stay, and a longer one takes their place in one write.
        """
        if positions <= self.positions:
            return
        with self._lock:
            if positions > self.positions:
                self._grow(self.position.max_length or max(positions, 2 * self.positions))

    def _grow(self, P: int) -> None:
        """Make tables for P positions."""
        scheme, places = self.position, torch.arange(P)
        if scheme.hook == "embed":
            zeros = torch.zeros(1, P, self.dim)
            self.struct.places = self._keep(scheme.embed(zeros, places)[0])
        for own in self.own:
            if scheme.hook == "rotate":
                half = own.width // 2
                ones = torch.cat((torch.ones(P, half), torch.zeros(P, half)), 1)
                own.turns = self._keep(scheme.rotate(ones[None, None], places)[0, 0])
            if scheme.hook == "bias":
                bias = scheme.bias(torch.arange(-P, P + 1)[None], own.heads)
                assert bias is not None
                by_distance = structs.distances(self._keep(bias[:, 0]), 2 * P + 1)
                self.held.append(by_distance)
                own.bias = pointer(by_distance)
        # Last, since who sees it reads the tables.
        self.struct.positions = self.positions = P

    def check(self, tokens: Tensor, positions: Tensor) -> None:
        """Raises: DataError for ids or positions that its tables lack."""
        check_step(tokens, self.pieces, "an id of")
        check_step(positions, self.positions, "a position of")

    def _keep(self, tensor: Tensor) -> int | None:
        tensor = tensor.detach().contiguous()
        self.held.append(tensor)
        return address(tensor)

    def _fill(self, struct: Any, layer: Any) -> None:
        attention, feed = layer.attention, layer.feed
        norm = self._norm(layer.around_attention.norm)
        if type(attention) is SSRU:
            struct.unit = structs.recurrence(self.packer(attention.x, attention.gate).struct, norm)
        else:
            maps = attention.q, attention.k, attention.v
            struct.own = self._attention(attention, norm, *maps)
        if hasattr(layer, "cross"):
            norm = self._norm(layer.around_cross.norm)
            struct.cross = self._attention(layer.cross, norm, layer.cross.q)
        struct.feed = structs.feed(
            up=self.packer(feed.up).struct,
            down=self.packer(feed.down).struct,
            norm=self._norm(layer.around_feed.norm),
            activation=NUMBERS[feed.activation],
        )
        if feed.gate is not None:
            struct.feed.gate = self.packer(feed.gate).struct

    def _attention(self, attention: MultiHead, norm: Any, *maps: nn.Module) -> Any:
        return structs.attention(
            in_=self.packer(*maps).struct,
            out=self.packer(attention.out).struct,
            norm=norm,
            heads=attention.num_heads,
            groups=attention.num_kv_heads,
            width=attention.width,
            scale=attention.score.scale,
        )

    def _norm(self, norm: Any) -> Any:
        if type(norm) is nn.Identity:
            return structs.norm()
        bias = getattr(norm, "bias", None)
        weight, bias = self._keep(norm.weight), None if bias is None else self._keep(bias)
        return structs.norm(KINDS[type(norm)], norm.eps, weight, bias)
