"""Attention to the page of the query and to neighbouring pages."""

from typing import Any, Literal

from torch import Tensor

from seq2seq.attention.base import Attended, Cost, Place, Role
from seq2seq.attention.ring import RingMemory
from seq2seq.attention.windowed import WindowedAttention
from seq2seq.base.registry import check_range
from seq2seq.functional.local import page_local_attention


class PageLocal(WindowedAttention):
    """Attention in pages of a sequence: a query reads the keys of its page and neighbouring pages.

        out_i = sum_j a_ij v_j,   a_i = softmax over { j : |i // P - j // P| <= radius }

    Page borders are at fixed positions: appending tokens does not move them, but inserting tokens
    at the beginning does. In the decoder, a query does not read keys after itself.

    Args:
        place: surroundings of the attention, a self-attention.
        num_heads: H; divides the width.
        page: P, number of tokens in a page.
        radius: number of pages that a query reads on each side of its own.
        form: `joint` is one softmax over all these keys. `per_page` normalises each page separately
            and adds the results, so that the weights of a query sum to the number of pages that it
            sees. `mean` divides by that number.
        bias: whether the projections have biases.
        dropout: probability of dropping a weight in training.

    Raises: ConfigError if `num_heads` does not divide the width or does not fit the position
        scheme, or if a value is out of range.
    Source: similar to the local blocks of Parmar et al. 2018, arXiv:1802.05751.
    """

    usual_cost = Cost(
        time="T (2 radius + 1) page D",
        memory="T (2 radius + 1) page",
        remembers="k, v (2 H D) of the last (radius + 1) page tokens",
    )

    def __init__(
        self,
        place: Place,
        *,
        page: int = 16,
        radius: int = 1,
        form: Literal["joint", "per_page", "mean"] = "joint",
        **options: Any,
    ):
        super().__init__(place, **options)
        check_range("attn.page", page, 1)
        check_range("attn.radius", radius, 0)
        self.page = page
        self.radius = radius
        self.form = form
        self.sums_to_one = form != "per_page"

    def new_memory(self) -> RingMemory:
        return RingMemory((self.radius + 1) * self.page)

    def attend(
        self, x: Tensor, memory: RingMemory, positions: Tensor, need_weights: bool = False
    ) -> Attended:
        out, weights = page_local_attention(
            self.heads_at(self.q(x), positions),
            memory.read(),
            self.softmax_options(need_weights),
            page=self.page,
            radius=self.radius,
            form=self.form,
            causal=self.place.role is Role.DECODER,
        )
        return Attended(self.project_out(out), weights)
