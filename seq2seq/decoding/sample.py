"""Sampling: each token is drawn at random."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.decoding.greedy import IndependentBeams
from seq2seq.decoding.options import ALL_TOKENS, SampleOptions
from seq2seq.decoding.search import Array, Search

# The options of a distribution that sentences of one batch may choose.
SHAPES = ("temperature", "top_p", "epsilon", "min_p")


class SampleState(IndependentBeams):
    """Beams that draw from the distribution of `Sample`.

    A draw depends on the seed, the draw id of the sentence, the beam and the step, but not on
    other beams or sentences.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        for name in SHAPES:
            setattr(self, name, self.option_values(name))
        self.seed = self.option_values("seed", np.int64)

    def choose(self, logp: Tensor, ids: Tensor) -> tuple[Array, Array]:
        of_rows = [self.per_row(getattr(self, name))[:, None] for name in SHAPES]
        counters = (self.to_tensor(x) for x in (self.seed, self.draw_ids, self.length))
        choice = draw_candidates(logp, of_rows, self.search.beams, *counters)
        return logp.gather(1, choice).cpu().numpy(), ids.gather(1, choice).cpu().numpy()


def draw_candidates(
    logp: Tensor,
    options: Sequence[Tensor],
    beams: int,
    seed: Tensor,
    draw_ids: Tensor,
    length: Tensor,
) -> Tensor:
    """Draw a candidate for each of N = B * K rows.

    Args:
        logp: log-probabilities of the candidates, best first, (N, C).
        options: temperature, top_p, epsilon and min_p of each row, (N, 1) each.
        beams: K.
        seed, draw_ids, length: of each sentence, (B,): its seed, its number, its tokens so far.

    Returns: places of the drawn candidates, (N, 1).
    """
    temperature, top_p, epsilon, min_p = options
    p = (logp.double() / temperature).softmax(-1)
    mass = p.cumsum(-1)
    # top_p keeps the smallest set of best tokens that has this mass, so the mass before its
    # last token is less. Each option keeps a number of best tokens; the smallest number counts.
    mask = (mass - p < top_p) & (p >= epsilon.maximum(min_p * p[:, :1]))
    count = mask.sum(1, keepdim=True).clamp(min=1)
    numbers = torch.arange(beams, device=logp.device)
    u = uniform_draw(seed[:, None], draw_ids[:, None], numbers, length[:, None])
    return (mass <= u.view(-1, 1) * mass.gather(1, count - 1)).sum(1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class Sample(SampleOptions, Search):
    """Independent draws, one beam each. The score is log-probability / length, at temperature 1.

    A token can be drawn if top_k, top_p, epsilon and min_p all keep it; the best one always can.

    temperature and top_k (Fan et al. 2018) come first, then top_p (Holtzman et al. 2020) and
    epsilon (Hewitt et al. 2022, arXiv:2210.15191). min_p, relative to the best token, follows the
    temperature (Nguyen et al. 2024, arXiv:2407.01082).
    """

    search_state = SampleState
    of_sentence = (*Search.of_sentence, *SHAPES, "seed")

    @property
    def beams(self) -> int:
        return self.samples

    @property
    def candidates(self) -> int:
        return ALL_TOKENS if self.top_k is None else self.top_k


def uniform_draw(seed: Tensor, *counters: Tensor) -> Tensor:
    """A random float64 in [0, 1) for each (broadcast) combination of seed and counters.

    This is a hash, not a generator: it does not depend on earlier draws. Each counter goes through
    the finaliser of SplitMix64 (Steele, Lea, Flood 2014). Products wrap around 2^64.
    """
    state = mix_bits(seed)
    for counter in counters:
        state = mix_bits(state + counter)
    return logical_shift(state, 11).double() * 2.0**-53


def mix_bits(x: Tensor) -> Tensor:
    """A bijection of int64 in which each bit of x changes each bit of the result half the time."""
    x = x - 0x61C8864680B583EB  # the golden ratio, as a signed integer, like the factors below
    x = (x ^ logical_shift(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ logical_shift(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ logical_shift(x, 31)


def logical_shift(x: Tensor, bits: int) -> Tensor:
    """x >> bits, with zeros from the left."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
