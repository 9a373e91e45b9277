"""The interface of every encoder-decoder: training, searches and plots use nothing else."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention import Attention, Role
from seq2seq.attention.base import Encoded, TokenAttention
from seq2seq.attention.page_pool import PagePool
from seq2seq.base.errors import ConfigError
from seq2seq.functional.context import token_groups
from seq2seq.models.candidates import CandidateRequest, Candidates, top_candidates
from seq2seq.models.layers.embedding import Embeddings
from seq2seq.models.state import DecodeState

Attentions = Mapping[Role, Mapping[str, Any]]  # role -> `name` and options of its mechanism


class Decoded(NamedTuple):
    """The output of a decoder for given target tokens. `Seq2Seq.logits` turns `hidden` into scores
    of pieces.
    """

    hidden: Tensor  # (B, T, E), or (N, n, E) for a step
    weights: Tensor | None  # cross-attention (L, B, H, T, S) of the L requested layers, if any


Layers = bool | Collection[int]  # decoder layers: all, none, or some by index


class PassOptions(NamedTuple):
    """Options of one pass of a batch through a model.

    Attributes:
        need_weights: decoder layers whose cross-attention weights to return; the other layers need
            not store theirs.
        source_cut, target_cut: masks (B, S) and (B, T) of tokens to replace by zero vectors, so
            that only their positions are seen; for `forward` only. None = no such tokens.
    """

    need_weights: Layers = False
    source_cut: Tensor | None = None
    target_cut: Tensor | None = None

    def wants_weights(self, layer: int) -> bool:
        layers = self.need_weights
        return layers if isinstance(layers, bool) else layer in layers


PLAIN = PassOptions()


class Memories(NamedTuple):
    """The memories that a decoder attends to, one of each kind per layer."""

    sources: list[Any]  # the source, in B rows; `Encoded` if each layer makes its own memory of it
    pasts: list[Any]  # the target so far, in N rows; None if the given tokens are all of it


class Seq2Seq(nn.Module):
    """An encoder-decoder. Token ids are int64, sources end in eos, and rows are padded with pad at
    the right.

    `forward` is teacher forcing; `encode`, `start` and `step` do the same computation a few tokens
    at a time. A subclass defines what its decoder remembers (`memories`), and how the decoder reads
    tokens with these memories (`decode`).

    Attributes:
        max_length: largest number of pieces for which each stack has positions, including eos;
            None = any number.
        group_marks: marks that the tokenizer gives each source id, see `data.groups`; None = groups
            are unknown. They are not saved with the weights, since they belong to the tokenizer.
        unpositioned: (V,) bool, True for source ids without a place in the order; None = there are
            none. Not saved with the weights either.
    """

    roles: ClassVar[frozenset[Role]]  # the roles in which it has attention
    # Classes of options; the constructor takes an instance of each after `position`.
    option_classes: ClassVar[tuple[type[Any], ...]] = ()
    embeddings: Embeddings
    max_length: int | None = None
    group_marks: Tensor | None
    unpositioned: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("group_marks", None, persistent=False)
        self.register_buffer("unpositioned", None, persistent=False)

    def groups(self, source: Tensor) -> Tensor | None:
        """Source ids (B, S) -> word and sentence of each token, (B, S, levels), if known."""
        return None if self.group_marks is None else token_groups(source, self.group_marks)

    def source_positions(self, source: Tensor) -> Tensor:
        """The positions of source ids (B, S): 0 ... S - 1, (S,), if `unpositioned` is None.

        Otherwise they are (B, S). All unpositioned tokens of a row get position 0, and its other
        tokens are counted from 1, skipping them. A row without unpositioned tokens is counted from
        0, so no position exceeds S - 1.

        Source: the feature tags of Wu et al. 2021, arXiv:2005.10213.
        """
        if self.unpositioned is None:
            return torch.arange(source.shape[1], device=source.device)
        outside = self.unpositioned[source]
        counted = (~outside).cumsum(1) - 1 + outside.any(1, keepdim=True)
        return counted.masked_fill(outside, 0)

    @property
    def blocks(self) -> list[nn.Module]:
        """The layers of all stacks, which a training may compile."""
        return []

    @property
    def attentions(self) -> list[Attention[Any]]:
        """All attentions of the model."""
        return [module for module in self.modules() if isinstance(module, Attention)]

    @property
    def max_source(self) -> int | None:
        """Length in pieces of the longest source that positions and attentions can read, including
        eos; None = any length. The target is limited by `max_length` alone.
        """
        readers = (a.max_length for a in self.attentions if a.place.role is not Role.DECODER)
        limits = [limit for limit in (self.max_length, *readers) if limit is not None]
        return min(limits, default=None)

    @property
    def cross_attentions(self) -> list[Attention[Any]]:
        """The cross-attention of each decoder layer; layers may share one."""
        raise NotImplementedError

    @property
    def can_merge(self) -> bool:
        """True if newly started sentences can join a batch of sentences that started earlier."""
        return all(a.can_merge for a in self.attentions if a.place.role is Role.DECODER)

    @property
    def has_constant_step(self) -> bool:
        """True if `decode` of one token is tensor code of constant sizes, whatever the length."""
        readers = [a for a in self.attentions if a.place.role is not Role.ENCODER]
        return all(attention.has_constant_step for attention in readers)

    def encode(self, source: Tensor) -> Encoded:
        """Source ids (B, S) -> encoded source, to which the decoder attends."""
        raise NotImplementedError

    def forward(self, source: Tensor, target: Tensor, options: PassOptions = PLAIN) -> Decoded:
        """Teacher forcing: source ids (B, S), target ids (B, T) that begin with bos."""
        raise NotImplementedError

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        """The memories before the first token, for N = B * `beams` hypotheses."""
        raise NotImplementedError

    def decode(
        self, tokens: Tensor, memories: Memories, positions: Tensor, options: PassOptions = PLAIN
    ) -> Decoded:
        """Read the next n tokens of every hypothesis: ids (N, n) at positions (n,) or (N, n).

        The memories of the target are changed in place.
        """
        raise NotImplementedError

    def start(self, encoded: Encoded, beams: int = 1, pages: PagePool | None = None) -> DecodeState:
        """The state before the first token, for K = `beams` hypotheses of each sentence.

        If `pages` is given, tokens are stored in pages of that pool, and states with the same pool
        can merge. Otherwise each state has its own tensors.
        """
        return DecodeState(*self.memories(encoded, beams), beams, encoded.states.device, pages)

    def pages_for(self, page_size: int, source: int, target: int, beams: int = 1) -> int:
        """The number of pages that one sentence needs.

        Args:
            page_size: tokens per page.
            source: length of the source in pieces, including eos.
            target: tokens read in each hypothesis: for the longest translation, all its tokens and
                bos, but not eos.
            beams: number of hypotheses.
        """
        roles = {a.place.role for a in self.attentions if isinstance(a, TokenAttention)}
        of_source = -(-source // page_size) if Role.CROSS in roles else 0
        of_target = beams * -(-target // page_size) if Role.DECODER in roles else 0
        return of_source + of_target

    def step(self, tokens: Tensor, state: DecodeState, need_weights: bool = False) -> Decoded:
        """Read the next n tokens of every hypothesis: ids (N, n) -> hidden (N, n, E). `state` is
        changed in place.
        """
        positions = self.begin(tokens.shape[1], state)
        memories = Memories(state.source, state.past)
        return self.decode(tokens, memories, positions, PassOptions(need_weights))

    def begin(self, n: int, state: DecodeState) -> Tensor:
        """Call `DecodeState.begin`, after a check that there are enough positions."""
        self._check_length(state.length + n, "target")
        return state.begin(n)

    def _check_length(self, length: int, side: str) -> None:
        if self.max_length is not None and length > self.max_length:
            raise ConfigError(
                f"a {side} of {length} pieces is longer than the {self.max_length} positions that "
                f"this model has learnt. For training: position.length={length}, or a smaller "
                "data.max_length"
            )

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., E) -> scores (..., V) of all target pieces, before the softmax."""
        logits: Tensor = self.embeddings.output(hidden)
        return logits

    @torch.no_grad()
    def candidates(self, hidden: Tensor, request: CandidateRequest) -> Candidates:
        """The candidates for the next token of each row: hidden (N, E) -> (N, C + R)."""
        return top_candidates(self.logits(hidden), request)
