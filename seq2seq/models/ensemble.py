"""Several models that translate as one: their predictions for the next piece are averaged."""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from seq2seq.attention import Attention
from seq2seq.attention.base import Encoded
from seq2seq.base.errors import ConfigError
from seq2seq.models.base import PLAIN, Decoded, Memories, PassOptions, Seq2Seq

Mean = Literal["probabilities", "log-probabilities"]
ROWS = 16  # number of rows to average at once on a CPU


class Ensemble(Seq2Seq):
    """A mixture of models with the same pieces, of any architectures, for decoding and scoring.

        probabilities:       p(y) = sum_i w_i p_i(y)
        log-probabilities:   p(y) = prod_i p_i(y)^w_i / Z

    The first, the linear mixture, favours pieces that at least one model finds probable; in the
    second, the log-linear mixture, each model can veto a piece. Nothing else is mixed: the states
    of all members are concatenated on the last axis, and their memories are listed one after
    another in one `DecodeState`. So one search, one page table and one fork serve all members.

    Args:
        members: models with the same source and target pieces; the caller has checked this.
        weights: positive weights w_i, which are divided by their sum. None = all the same.
        mean: quantity that is averaged.

    Attributes:
        cross_attentions: attentions of the first member, whose weights are returned.

    Raises: ConfigError if the weights do not fit, or the mean is unknown.
    """

    def __init__(
        self,
        members: Sequence[Seq2Seq],
        weights: Sequence[float] | None = None,
        mean: Mean = "probabilities",
    ):
        super().__init__()
        self.members = cast(Sequence[Seq2Seq], nn.ModuleList(members))
        self.weights = normalize_weights(weights, len(members))
        if mean not in ("probabilities", "log-probabilities"):
            raise ConfigError(f"mean={mean!r} should be 'probabilities' or 'log-probabilities'")
        self.mean = mean
        limits = [m.max_length for m in members if m.max_length is not None]
        self.max_length = min(limits, default=None)

    has_constant_step = False

    @property
    def cross_attentions(self) -> list[Attention[Any]]:
        return self.members[0].cross_attentions

    def encode(self, source: Tensor) -> Encoded:
        """Source ids (B, S) -> states (B, S, E_1 + E_2 + ...)."""
        encoded = [member.encode(source) for member in self.members]
        groups = [each.groups for each in encoded if each.groups is not None]
        states = torch.cat([each.states for each in encoded], -1)
        return Encoded(states, encoded[0].mask, torch.cat(groups, -1) if groups else None)

    def forward(self, source: Tensor, target: Tensor, options: PassOptions = PLAIN) -> Decoded:
        each = zip(self.members, self._options(options), strict=True)
        return concatenate_hidden([member(source, target, its) for member, its in each])

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        all_memories = Memories([], [])
        states, groups = self._by_width(encoded.states), encoded.groups
        for member, its_states in zip(self.members, states, strict=True):
            its_groups = None
            if groups is not None and member.group_marks is not None:
                its_groups, groups = groups.tensor_split([member.group_marks.shape[1] - 1], dim=-1)
            of_member = Encoded(its_states.contiguous(), encoded.mask, its_groups)
            of_source, of_target = member.memories(of_member, beams)
            all_memories.sources.extend(of_source)
            all_memories.pasts.extend(of_target)
        return all_memories

    def decode(
        self, tokens: Tensor, memories: Memories, positions: Tensor, options: PassOptions = PLAIN
    ) -> Decoded:
        decoded = []
        each = zip(self.members, self._layers(), self._options(options), strict=True)
        for member, layers, its in each:
            of_member = Memories(memories.sources[layers], memories.pasts[layers])
            decoded.append(member.decode(tokens, of_member, positions, its))
        return concatenate_hidden(decoded)

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """(..., E_1 + E_2 + ...) -> (..., V), the logarithm of the mean, up to a constant per row;
        float32 or wider, without gradients.
        """
        each = zip(self.members, self._by_width(hidden), strict=True)
        logits = [member.logits(its_hidden) for member, its_hidden in each]
        logits = [x.to(torch.promote_types(x.dtype, torch.float32)) for x in logits]
        total = logits[0]
        if self.mean == "log-probabilities":  # no softmax: it would only change the constant
            total *= self.weights[0]
            for x, weight in zip(logits[1:], self.weights[1:], strict=True):
                total.add_(x, alpha=weight)
            return total
        # In place, and on a CPU a few rows at a time, which stay in its caches. `logaddexp`, since
        # a sum of exponentials would be 0 for improbable pieces.
        size = ROWS if total.device.type == "cpu" else max(1, len(total))
        for rows in zip(*(x.split(size) for x in logits), strict=True):
            for x, weight in zip(rows, self.weights, strict=True):
                torch.log_softmax(x, -1, out=x).add_(math.log(weight))
            for x in rows[1:]:
                torch.logaddexp(rows[0], x, out=rows[0])
        return total

    def _by_width(self, states: Tensor) -> tuple[Tensor, ...]:
        """(..., E_1 + E_2 + ...) -> (..., E_1), (..., E_2), ..."""
        widths = [member.embeddings.dim for member in self.members]
        return torch.split(states, widths, dim=-1)

    def _options(self, options: PassOptions) -> list[PassOptions]:
        """The options for each member: only the first returns attention weights."""
        others = options._replace(need_weights=False)
        return [options, *[others] * (len(self.members) - 1)]

    def _layers(self) -> Iterator[slice]:
        """The slice of the memories that belongs to each member."""
        ends = list(accumulate(len(member.cross_attentions) for member in self.members))
        return map(slice, [0, *ends], ends)


def concatenate_hidden(decoded: Sequence[Decoded]) -> Decoded:
    """Concatenate hidden states on the last axis; keep the attention weights of the first."""
    return Decoded(torch.cat([each.hidden for each in decoded], -1), decoded[0].weights)


def normalize_weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Divide weights by their sum. Raises: ConfigError if they are not `count` positive numbers."""
    given = [1.0] * count if weights is None else weights
    if len(given) != count:
        raise ConfigError(
            f"{len(given)} weight(s) {list(given)} for {count} models: give one for each, in order"
        )
    for weight in given:
        if not 1e-6 <= weight <= 1e6:
            raise ConfigError(
                f"the weight {weight} of a model should be between 0.000001 and 1,000,000. If a "
                "model should not count, leave it out"
            )
    return tuple(weight / sum(given) for weight in given)
