"""Tensors of constant sizes for the sentences that are being decoded, one slot per sentence."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.decoding.device.replay import synchronize

Axis = int | str  # a number, or a letter of `Size.axes`


class Size(NamedTuple):
    """A size class. Each has its own buffers and its own graph.

    Attributes:
        slots: number of sentences that fit, B.
        room: number of target positions, T.
        source: number of source positions, S.
        limit: longest limit of a translation, at least the longest prefix, L.
        listed: longest shortlist of a sentence, W; 0 = all tokens may be used.
        forced: 1 if any sentence has a prefix.
        minimum: 1 if any sentence has a minimum length.
        ngram: largest n of the n-grams that may not repeat; 0 = anything may.
    """

    slots: int = 1
    room: int = 32
    source: int = 16
    limit: int = 64
    listed: int = 0
    forced: int = 0
    minimum: int = 0
    ngram: int = 0

    def union(self, other: "Size") -> "Size":
        """The smallest class that holds the sentences of either."""
        return Size(*(max(mine, its) for mine, its in zip(self, other, strict=True)))

    def axes(self, beams: int) -> dict[str, int]:
        """The sizes that buffers have along the axes with these letters."""
        return {
            "T": self.room,
            "T+1": self.room + 1,
            "TK": self.room * beams,
            "S": self.source,
            "L": self.limit,
            "W": self.listed,
        }


class Spec(NamedTuple):
    """The description of a buffer, whatever the size class."""

    shape: tuple[Axis, ...]  # of one sentence
    dtype: torch.dtype
    blank: float = 0  # value in slots without a sentence, and where a sentence has no value yet


@dataclass(frozen=True, eq=False)
class Space:
    """The buffers of one size class.

    Attributes:
        tensors: buffers by name, (B, ...).
        step: function that decodes one more token of every hypothesis.
    """

    tensors: dict[str, Tensor]
    step: Callable[[], None]


class Buffers:
    """Descriptions of buffers, and the buffers of the size class in use.

    Attributes:
        specs: descriptions by name.
        tensors: buffers in use, (B, ...).
    """

    def __init__(self, beams: int, device: torch.device) -> None:
        self.beams, self.device = beams, device
        self.specs: dict[str, Spec] = {}
        self.tensors: dict[str, Tensor] = {}
        self._nbytes: dict[Size, int] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def rows(self, name: str) -> Tensor:
        """A buffer (B, K, ...) by rows, (N, ...)."""
        return self.tensors[name].flatten(0, 1)

    def declare(self, **specs: Spec) -> None:
        self.specs.update(specs)

    def shape(self, spec: Spec, size: Size) -> tuple[int, ...]:
        axes = size.axes(self.beams)
        of_sentence = (axes[axis] if isinstance(axis, str) else axis for axis in spec.shape)
        return size.slots, *of_sentence

    def nbytes(self, size: Size) -> int:
        """The bytes that all buffers of a size class take, once all are declared."""
        if size not in self._nbytes:  # asked for every sentence that may join
            shapes = ((spec.dtype, self.shape(spec, size)) for spec in self.specs.values())
            self._nbytes[size] = sum(dtype.itemsize * prod(shape) for dtype, shape in shapes)
        return self._nbytes[size]

    def allocate(self, size: Size) -> dict[str, Tensor]:
        """Blank buffers of a size class."""
        with self.device:
            return {
                name: torch.full(self.shape(spec, size), spec.blank, dtype=spec.dtype)
                for name, spec in self.specs.items()
            }

    def put(self, slots: Tensor, values: Mapping[str, Tensor]) -> None:
        """Start sentences: clear their slots, and write what is not blank.

        Args:
            slots: slots of the sentences, (n,).
            values: by the name of a buffer, (n, ...), not longer than it along any axis.
        """
        for name, buffer in self.tensors.items():
            buffer.index_fill_(0, slots, self.specs[name].blank)
            if name in values:
                value = values[name].to(buffer.dtype)
                corner(buffer, value).index_copy_(0, slots, value)

    def move(self, tensors: dict[str, Tensor], slots: Tensor) -> None:
        """Use other buffers, with the sentences of these slots (n,) in their first n slots. The
        other slots are cleared.
        """
        for name, new in tensors.items():
            old, first = self.tensors[name], new[: len(slots)]
            new.fill_(self.specs[name].blank)
            kept = old[tuple(slice(0, n) for n in (len(old), *new.shape[1:]))]
            corner(first, kept).copy_(kept.index_select(0, slots))
        self.tensors = tensors


def corner(buffer: Tensor, like: Tensor) -> Tensor:
    """The first part of a buffer along all axes but the first, as long as `like`."""
    return buffer[(slice(None), *(slice(0, n) for n in like.shape[1:]))]


class SlotStore:
    """The spaces of the size classes that were used last, for all batches of an engine.

    Args:
        limit: bytes that they may take together.

    Attributes:
        holders: batches that use a space now.
    """

    def __init__(self, limit: float = inf) -> None:
        self.limit, self.holders = limit, set[Hashable]()
        self._spaces: dict[Hashable, tuple[Space, int]] = {}  # with bytes, used last at the end

    def fits(self, holder: Hashable, nbytes: int) -> bool:
        """True if a space of this size is within the batch's share of the limit. Batches have equal
        shares, and one is left for the space that it replaces.
        """
        shares = 1 + len(self.holders | {holder})
        return shares * nbytes <= self.limit

    def find(self, holder: Hashable, size: Size, nbytes: int, make: Callable[[], Space]) -> Space:
        """The space of a batch; if there is none, make it in place of those used least."""
        key = holder, size
        self.holders.add(holder)
        if key not in self._spaces:
            while self._spaces and nbytes + sum(n for _, n in self._spaces.values()) > self.limit:
                synchronize()  # a graph may still be running
                del self._spaces[next(iter(self._spaces))]
            self._spaces[key] = make(), nbytes
        self._spaces[key] = self._spaces.pop(key)
        return self._spaces[key][0]

    def clear(self) -> None:
        """Free all spaces."""
        synchronize()
        self._spaces.clear()
        self.holders.clear()
