"""The softmax family: multi-head, multi-query and grouped-query attention, with any score and
kernel.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq.attention.base import (
    Attended,
    Cost,
    Encoded,
    Place,
    Role,
    TokenAttention,
    positions_of,
)
from seq2seq.attention.heads import (
    check_heads,
    check_position,
    default_kv_heads,
    join_heads,
    position_bias,
    project_together,
    projection,
    split_heads,
)
from seq2seq.attention.memory import DenseMemory, PackedMemory, TokenMemory
from seq2seq.attention.paged import PagedMemory
from seq2seq.attention.scores import SCORES, Widths
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.functional import (
    explicit_attention,
    flash_additive_attention,
    flash_attention,
    fused_attention,
)
from seq2seq.functional.decode import decode_attention, use_decode_attention
from seq2seq.functional.flash import use_flash_additive
from seq2seq.functional.softmax import intersect_masks, past_mask
from seq2seq.functional.triton.launch import check_triton
from seq2seq.functional.varlen import varlen_attention

Kernel = Literal["auto", "explicit", "fused", "flash", "triton"]

# Options of `MultiHead` that mechanisms which change queries and keys lack, with the reason.
NO_SCORES = {
    "score": "it changes the queries or keys of a scaled dot product, its only score",
    "project": "it changes queries and keys after their projections, so it always needs these",
}


class MultiHead(TokenAttention):
    """Softmax attention: each query averages all values that it may see, with weights that are the
    softmax of its scores with their keys.

        out = concat_h( softmax_j(e(q_hi, k_gj)) v_g ) Wo,   g = h // (H / G)

    A position scheme may rotate queries and keys, and may add to the scores.

    Args:
        place: surroundings of the attention.
        num_heads: number of query heads H; divides the width.
        num_kv_heads: number of key/value heads G; divides H. G = H is multi-head attention, G = 1
            multi-query, and anything between them grouped-query. null is the largest divisor of H
            that is at most max(2, H // 4) and less than H.
        score: name in `attention.scores.SCORES`.
        kernel: way of computing, with the same result up to rounding. `explicit` holds all weights;
            `fused` is torch's kernel; `flash` never holds more than a tile of the weights, also
            with dropout, learnt biases and hidden layers; `triton` is flash by GPU kernels, which
            need the package triton. `auto` is fused if the score is a dot product and no weights
            are requested, `decode_attention` for the few queries of a decoding step, and flash for
            large hidden layers on a CPU.
        project: false uses queries, keys and values without the projections Wq, Wk, Wv, Wo: the
            attention of recurrent models, whose values are the encoder's states.
        bias: whether the projections have biases.
        dropout: probability of dropping a weight in training.

    Raises: ConfigError if the numbers of heads do not divide the width and each other, or if the
        score or the heads do not fit the kernel or the position scheme.
    Source: Vaswani et al. 2017, arXiv:1706.03762; Shazeer 2019, arXiv:1911.02150; Ainslie et al.
    2023, arXiv:2305.13245.
    """

    supports = frozenset({"rotate", "bias", "relate"})
    has_constant_step = True
    q: nn.Module  # projections
    k: nn.Module
    v: nn.Module
    out: nn.Module

    def __init__(
        self,
        place: Place,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        score: str = "scaled_dot",
        kernel: Kernel = "auto",
        project: bool = True,
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(place)
        check_range("attn.dropout", dropout, 0, 1)
        dim, source_dim = place.dim, place.source_dim
        groups = num_kv_heads
        if groups is None:
            groups = default_kv_heads(num_heads) if project else num_heads
        check_heads(num_heads, groups, dim if project else source_dim)
        if groups != num_heads and not project:
            raise ConfigError(
                f"num_kv_heads={groups} shares keys and values between {num_heads} heads, which "
                "needs projections: attn.project=true, or leave it out"
            )
        width = dim // num_heads
        key_width = width if project else source_dim // num_heads
        widths = Widths(num_heads, width, key_width, project)
        check_score(score, kernel, place)
        check_position(place, num_heads, key_width)
        self.num_heads, self.num_kv_heads, self.width = num_heads, groups, width
        self.kernel, self.dropout = kernel, dropout
        self.score = SCORES.find(score)(widths)
        if kernel in ("flash", "triton"):
            self.no_graph = (
                f"computes with kernel={kernel} in tiles, whose number depends on the length"
            )
        self.folds = self.score.is_dot  # with other scores, each query-key pair is expensive
        self.reads_queries = self.score.reads_queries
        self.out_dim = dim if project else source_dim

        if not project:
            self.q, self.k, self.v, self.out = (nn.Identity() for _ in range(4))
            return
        self.q = projection(dim, dim, bias, 0.5**0.5 * self.score.size)
        self.k = projection(source_dim, groups * width, bias, 0.5**0.5 * self.score.size)
        self.v = projection(source_dim, groups * width, bias, 0.5**0.5)
        self.out = projection(dim, dim, bias)

    def lr_multipliers(self) -> dict[nn.Parameter, float]:
        size = self.score.size
        return {p: size for layer in (self.q, self.k) for p in layer.parameters() if size != 1}

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        name = options.get("score", "scaled_dot")
        score = SCORES.find(name)
        width = "A" if score.is_additive else "D"
        kernel = options.get("kernel", "auto")
        # A learnt bias, as for the keys of a Gaussian, makes the fused kernel hold T x S weights.
        writes = (
            not (score.is_dot or score.is_additive)
            or kernel == "explicit"
            or (name == "gaussian" and kernel not in ("flash", "triton"))
        )
        held = "T S" if writes else "T + S"
        remembers = "1 number a head, v (G D)" if name == "concat_linear" else "k, v (2 G D)"
        return Cost(time=f"T S {width}", memory=held, remembers=f"{remembers} a token")

    def visible(self, here: Tensor, there: Tensor) -> Tensor | None:
        """Mask that hides more keys from each query, besides padding and the future.

        It is for mechanisms that differ from this one only in the keys that they hide.

        Args:
            here: positions of the queries, broadcastable to (N, H, T, 1).
            there: positions of the keys, (S,).

        Returns: bool, broadcastable to (N, H, T, S), True = may attend; None = all.
        """
        return None

    @classmethod
    def label(cls, options: Mapping[str, Any]) -> str:
        if options["name"] != "multihead":
            return str(options["name"])
        if options.get("score", "scaled_dot") != "scaled_dot":
            return str(options["score"])
        if options.get("kernel") == "flash":
            return "flash"
        sharing = {1: "mqa", options["num_heads"]: "mha"}
        return sharing.get(options.get("num_kv_heads"), "gqa")

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        k, v = project_together(x, self.k, self.v)
        return self.streams(k, v, positions)

    def streams(self, k: Tensor, v: Tensor, positions: Tensor) -> dict[str, Tensor]:
        """Make the streams to remember from keys and values (N, S, G D) of tokens at positions."""
        k = k.unflatten(-1, (self.num_kv_heads, -1))  # (N, S, G, D)
        v = v.unflatten(-1, (self.num_kv_heads, -1))
        k = self.place.rotate(k.transpose(1, 2), positions).transpose(1, 2)
        return {"k": self.score.keys(k), "v": v}

    def _writes_weights(self, dropout: float, q: Tensor, k: Tensor) -> bool:
        """True if this attention computes with explicit T x S weights."""
        if self.kernel != "auto":
            return self.kernel == "explicit"
        if self.score.is_dot:
            # In this case the fused kernel would hold them too, and its dropout is slow.
            return dropout > 0 and q.device.type == "cpu"
        return not (self.score.is_additive and use_flash_additive(q, k))

    def attend_itself(self, encoded: Encoded, need_weights: bool) -> Attended:
        if not self._is_plain:
            return super().attend_itself(encoded, need_weights)
        x, positions = encoded.states, positions_of(encoded.states)
        q, k, v = project_together(x, self.q, self.k, self.v)
        memory = DenseMemory.of(self.streams(k, v, positions), encoded.mask)
        heads = split_heads(q, self.num_heads)
        out, weights = self.attend_heads(heads, memory, positions, need_weights)
        return Attended(self.out(join_heads(out)), weights)

    @property
    def _is_plain(self) -> bool:
        """True if queries, keys and values are no more than products with the same tokens."""
        own = type(self)
        return (own.remember, own.memory_of, own.attend) == (
            MultiHead.remember,
            MultiHead.memory_of,
            MultiHead.attend,
        )

    def attend(
        self, x: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        q = split_heads(self.q(x), self.num_heads)
        out, weights = self.attend_heads(q, memory, positions, need_weights)
        return Attended(self.out(join_heads(out)), weights)

    def attend_heads(
        self, q: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from the queries (N, H, T, D) of the heads.

        Returns: outputs of the heads (N, H, T, width of values), and the weights or None.
        """
        if isinstance(memory, PackedMemory):
            return self.attend_packed(q, memory, positions), None
        if isinstance(memory, PagedMemory) and self._reads_pages(q) and not need_weights:
            return self.attend_pages(q, memory, positions), None
        streams, mask = memory.read()
        k, v = streams["k"].transpose(1, 2), streams["v"].transpose(1, 2)  # (N, G, S, D)
        bias = position_bias(self.place, q, positions, k.shape[2], memory.beams)
        q = self.place.rotate(self.score.queries(q), positions)
        causal = self.place.role is Role.DECODER and q.shape[2] > 1 and memory.beams == 1
        if mask is not None:
            mask = mask[:, None, None] if memory.beams == 1 else mask[:, None]
        mask = intersect_masks(mask, self._visible(positions, k.shape[2], memory.beams))
        dropout = self.dropout_now
        weights = None
        writes = need_weights or self._writes_weights(dropout, q, k)
        few = self.kernel == "auto" and dropout == 0 and use_decode_attention(q)
        if causal and (writes or few or positions.dim() > 1):
            mask = intersect_masks(mask, past_mask(positions, q.shape[2], k.shape[2]))
            causal = False
        if writes:
            out, weights = explicit_attention(
                self.score(q, k), v, mask=mask, bias=bias, dropout=dropout
            )
        elif self.score.is_additive:
            out = flash_functions(self.kernel)[1](
                q, k, self.score.u, v, mask=mask, bias=bias, causal=causal, dropout=dropout
            )
        else:
            q, scale, of_keys = self.score.as_dot_product(q, k)
            if of_keys is not None:
                bias = of_keys if bias is None else bias + of_keys
            if few:
                out = decode_attention(q, k, v, scale=scale, mask=mask, bias=bias)
            else:
                out = flash_functions(self.kernel)[0](
                    q, k, v, scale=scale, mask=mask, bias=bias, causal=causal, dropout=dropout
                )
        return out, weights if need_weights else None

    def _visible(self, positions: Tensor, keys: int, beams: int) -> Tensor | None:
        """Call `visible` for queries at these positions and `keys` keys, `beams` per position."""
        if type(self).visible is MultiHead.visible:  # not overridden: no positions are needed
            return None
        there = torch.arange(keys, device=positions.device) // beams
        return self.visible(positions[..., None, :, None], there)

    def attend_packed(self, q: Tensor, memory: PackedMemory, positions: Tensor) -> Tensor:
        """Like `attend_heads`, for packed tokens, without weights: queries (1, H, N, D)."""
        k, v = (memory.storage[name][0].transpose(0, 1) for name in ("k", "v"))  # (S, G, D)
        q = self.place.rotate(self.score.queries(q), positions)
        q, scale, _ = self.score.as_dot_product(q, k)
        causal = self.place.role is Role.DECODER
        q = q[0].transpose(0, 1)
        out = varlen_attention(q, k, v, memory.borders, scale=scale, causal=causal)
        return out.transpose(0, 1)[None]

    def _reads_pages(self, q: Tensor) -> bool:
        """True if a kernel can read the keys and values of a decoding step from their pages."""
        readable = self.score.is_dot and not self.score.biases_keys
        return self.kernel == "triton" and readable and use_decode_attention(q)

    def attend_pages(self, q: Tensor, memory: PagedMemory, positions: Tensor) -> Tensor:
        """Like `attend_heads`, but without copying keys and values, and without weights."""
        from seq2seq.functional.triton.paged import paged_attention  # needs Triton

        view, T = memory.table.view, q.shape[2]
        S = view.slots.shape[1]
        (k,), (v,) = memory.storage["k"], memory.storage["v"]  # (G, slots, D)
        bias = position_bias(self.place, q, positions, S)
        q = self.place.rotate(self.score.queries(q), positions)
        mask = self._visible(positions, S, memory.beams)
        if self.place.role is Role.DECODER and T > 1:
            mask = intersect_masks(mask, past_mask(positions, T, S))
        q, scale, _ = self.score.as_dot_product(q, k)
        return paged_attention(q, k, v, view.slots, view.lengths, scale=scale, mask=mask, bias=bias)


def flash_functions(kernel: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The functions that return no weights: for dot products, and for additive scores."""
    if kernel == "triton":  # the package is needed only for this kernel
        module = import_module("seq2seq.functional.triton_flash")
        return module.triton_attention, module.triton_additive_attention
    return flash_attention if kernel == "flash" else fused_attention, flash_additive_attention


def check_score(name: str, kernel: str, place: Place) -> None:
    """Check a score. Raises: ConfigError if it does not work with the kernel or the positions."""
    score = SCORES.find(name)
    in_tiles = score.is_dot or score.is_additive
    possible = {"fused": score.is_dot, "flash": in_tiles, "triton": in_tiles}
    if not possible.get(kernel, True):
        raise ConfigError(f"kernel={kernel} cannot compute score={name}. Take kernel=auto")
    if kernel == "triton":
        check_triton()
    if place.position is not None and place.position.hook == "rotate" and not score.is_dot:
        raise ConfigError(
            f"score={name} in the {place.role.description} is not a dot product, so position=rope, "
            "which rotates queries and keys, does not work with it. Take position=sinusoidal"
        )
