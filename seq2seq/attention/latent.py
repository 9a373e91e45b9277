"""Multi-head latent attention: the keys and values of all heads come from one vector per token."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attended, Cost, Place, Role, TokenAttention
from seq2seq.attention.heads import (
    check_heads,
    check_position,
    join_heads,
    position_bias,
    projection,
    split_heads,
)
from seq2seq.attention.memory import TokenMemory
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.functional.latent import absorbing_is_cheaper, latent_attention, rms_norm
from seq2seq.functional.softmax import intersect_masks, past_mask


class Latent(TokenAttention):
    """Multi-head attention that remembers one latent vector per token, and makes the keys and
    values of all heads from it.

        cq = RMSNorm(Wdq x)  or x      q_h = [qn; RoPE(qr)] = Wuq_h cq
        c  = RMSNorm(Wdkv x)           k_h = [Wuk_h c; RoPE(Wkr x)],  v_h = Wuv_h c
        out = concat_h( softmax_j(q_hi . k_hj / sqrt(Dn + Dr)) v_h ) Wo

    If there are few queries, Wuk is applied to them instead of to all latents ("absorbed" form), so
    that decoding compares queries directly with the latents, as in multi-query attention. Elsewhere
    MLA may also mean multi-head linear attention, which is called `linear` here.

    Args:
        place: surroundings of the attention.
        num_heads: H; divides the width E. D below is E / H.
        latent_dim: Rc, width of c. null is 4 D, as in the paper, or the source's width if that is
            less, since a latent of that width can already hold everything.
        query_dim: Rq, width of cq. null makes queries directly from x.
        nope_dim: Dn, width of the part of a head's queries and keys that is not rotated; null is D.
        rope_dim: Dr, even width of the part that position=rope rotates; null is D / 2 with
            position=rope, else 0. In cross-attention it is always 0.
        value_dim: Dv, width of a head's values; null is D.
        kernel: kernel of the expanded form, as in `MultiHead`. `auto` is fused, except if weights
            are requested or for dropout on a CPU.
        bias: whether the maps from the model's width and back to it have biases.
        dropout: probability of dropping a weight in training.

    Raises: ConfigError if a width is impossible, or if `rope_dim` is set without position=rope.
    Source: DeepSeek-AI 2024, arXiv:2405.04434.
    """

    supports = frozenset({"rotate", "bias"})
    has_constant_step = True

    def __init__(
        self,
        place: Place,
        *,
        num_heads: int,
        latent_dim: int | None = None,
        query_dim: int | None = None,
        nope_dim: int | None = None,
        rope_dim: int | None = None,
        value_dim: int | None = None,
        kernel: Literal["auto", "explicit", "fused"] = "auto",
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(place)
        dim, source_dim = place.dim, place.source_dim
        check_heads(num_heads, num_heads, dim)
        check_range("attn.latent_dim", latent_dim, 1)
        check_range("attn.query_dim", query_dim, 1)
        check_range("attn.nope_dim", nope_dim, 1)
        check_range("attn.value_dim", value_dim, 1)
        check_range("attn.dropout", dropout, 0, 1)
        width = dim // num_heads
        self.num_heads, self.kernel, self.dropout = num_heads, kernel, dropout
        self.latent_dim = latent_dim or min(4 * width, source_dim)
        self.nope_dim, self.value_dim = nope_dim or width, value_dim or width
        self.rope_dim = rotary_width(place, rope_dim, width)
        check_position(place, num_heads, self.rope_dim)
        self.q_down: nn.Linear | None = None
        if query_dim is not None:
            self.q_down = projection(dim, query_dim, bias)
            self.q_gain = nn.Parameter(torch.ones(query_dim))
        q_width = num_heads * (self.nope_dim + self.rope_dim)
        self.q = projection(query_dim or dim, q_width, bias and query_dim is None)
        self.kv_down = projection(source_dim, self.latent_dim, bias)
        self.kv_gain = nn.Parameter(torch.ones(self.latent_dim))
        self.k_up = projection(self.latent_dim, num_heads * self.nope_dim, bias=False)
        self.v_up = projection(self.latent_dim, num_heads * self.value_dim, bias=False)
        self.k_rope = projection(source_dim, self.rope_dim, bias) if self.rope_dim else None
        self.out = projection(num_heads * self.value_dim, dim, bias)

    @classmethod
    def cost(cls, options: Mapping[str, Any]) -> Cost:
        held = "T S" if options.get("kernel") == "explicit" else "T + S"
        return Cost("T S D", held, "latent, rotary key (Rc + Dr) a token")

    def remember(self, x: Tensor, positions: Tensor) -> dict[str, Tensor]:
        latent = rms_norm(self.kv_down(x), self.kv_gain)  # (N, S, Rc)
        if self.k_rope is not None:
            turned = self.place.rotate(self.k_rope(x)[:, None], positions)
            latent = torch.cat((latent, turned[:, 0]), dim=-1)
        return {"latent": latent[:, :, None]}

    def _queries(self, x: Tensor, positions: Tensor) -> Tensor:
        """Project inputs to queries, (N, T, E) -> (N, H, T, Dn + Dr), and rotate them."""
        if self.q_down is not None:
            x = rms_norm(self.q_down(x), self.q_gain)
        q = split_heads(self.q(x), self.num_heads)
        if not self.rope_dim:
            return q
        still, turned = q.split([self.nope_dim, self.rope_dim], dim=-1)
        return torch.cat((still, self.place.rotate(turned, positions)), dim=-1)

    def attend(
        self, x: Tensor, memory: TokenMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        streams, mask = memory.read()
        latent = streams["latent"].transpose(1, 2)  # (N, 1, S, Rc + Dr)
        q = self._queries(x, positions)
        T, S = q.shape[2], latent.shape[2]
        bias = position_bias(self.place, q, positions, S)
        mask = None if mask is None else mask[:, None, None]
        causal = self.place.role is Role.DECODER and T > 1
        if causal and positions.dim() > 1:
            mask, causal = intersect_masks(mask, past_mask(positions, T, S)), False
        dropout = self.dropout_now
        # With dropout on a CPU the fused kernel holds the weights too, and its dropout is slow.
        slow = dropout > 0 and x.device.type == "cpu"
        fused = self.kernel == "fused" or (self.kernel == "auto" and not slow)
        out, weights = latent_attention(
            q,
            latent,
            self.k_up.weight.unflatten(0, (self.num_heads, -1)),
            self.v_up.weight.unflatten(0, (self.num_heads, -1)),
            absorbed=absorbing_is_cheaper(T, S, self.latent_dim, self.nope_dim + self.value_dim),
            fused=fused and not need_weights,
            mask=mask,
            bias=bias,
            causal=causal,
            dropout=dropout,
        )
        return Attended(self.out(join_heads(out)), weights if need_weights else None)


def rotary_width(place: Place, asked: int | None, width: int) -> int:
    """The rotary width Dr in this place, from the option `rope_dim` and the head width D."""
    if place.role is Role.CROSS:
        return 0
    if place.position is None or place.position.hook != "rotate":
        if asked:
            raise ConfigError(
                f"attn.rope_dim={asked} needs position=rope, which the "
                f"{place.role.description} does not have. Take position=rope, or attn.rope_dim=null"
            )
        return 0
    chosen = width // 2 if asked is None else asked
    if chosen < 2 or chosen % 2:
        said = f"attn.rope_dim={asked}" if asked is not None else f"attn.rope_dim=D/2={chosen}"
        raise ConfigError(
            f"{said} should be even and at least 2, since position=rope rotates pairs of numbers. "
            f"Take attn.rope_dim={max(2, chosen - chosen % 2)}, or position=sinusoidal"
        )
    return chosen
