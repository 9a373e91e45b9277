"""The memories of a decoder's layers in buffers, which the layers use like any other memory."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import (
    DenseMemory,
    JointMemory,
    SourceMemory,
    StateMemory,
    TokenMemory,
)
from seq2seq.base.symbols import BOS, EOS
from seq2seq.decoding.device.buffers import Axis, Buffers, Spec
from seq2seq.models import Seq2Seq
from seq2seq.models.base import Memories


class Steps:
    """What all layers read in a step: where each hypothesis writes, and what it may read.

    Attributes:
        positions: position of the token that each row reads, (N, 1).
        read: mask of the entries of a slab that each beam may read, (B, K, T K).
        past: mask of the positions up to each row's own, (N, T).
    """

    def __init__(self, buffers: Buffers) -> None:
        self.buffers, self.beams = buffers, buffers.beams
        buffers.declare(visible=Spec((self.beams, "TK"), torch.bool))
        self.positions: Tensor
        self.read: Tensor
        self.past: Tensor

    def begin(self, last: int) -> None:
        """Begin a step.

        Args:
            last: last position that there is. Sentences that are done stay there.
        """
        K = self.beams
        position = self.buffers["position"].clamp(max=last)
        beams = torch.arange(K, device=position.device)
        self.entries = position[:, None] * K + beams  # (B, K)
        self.read = self.buffers["visible"]
        self.read.scatter_(2, self.entries[:, :, None], True)
        self.positions = position.repeat_interleave(K)[:, None]
        T = self.read.shape[2] // K
        self.past = torch.arange(T, device=position.device) <= self.positions

    def fork(self, parents: Tensor) -> None:
        """Let each row continue the hypothesis of its parent row, parents (N,)."""
        rows = self.buffers.rows("visible")
        rows.copy_(rows.index_select(0, parents))


class SlotMemory(TokenMemory):
    """The target tokens of a layer, written once at places that `Steps` gives.

    Args:
        steps: places of the current step.
        streams: names of the buffers of the streams.
        folds: True if the beams of a sentence share a slab; otherwise each row has its own tokens,
            which move when it continues another row.
    """

    def __init__(self, steps: Steps, streams: dict[str, str], folds: bool) -> None:
        self.steps, self.streams = steps, streams
        self.folds = folds and steps.beams > 1
        self.beams = steps.beams if self.folds else 1

    def storage(self, name: str) -> Tensor:
        """The tokens of a stream, (rows, heads, places, width)."""
        buffers = self.steps.buffers
        name = self.streams[name]
        return buffers[name] if self.folds else buffers.rows(name)

    @property
    def rows(self) -> int:
        return len(self.storage(next(iter(self.streams))))

    @property
    def nbytes(self) -> int:
        return sum(self.storage(name).nbytes for name in self.streams)

    def append(self, streams: dict[str, Tensor]) -> None:
        for name, x in streams.items():  # (N, 1, heads, width)
            storage = self.storage(name)
            places = self.steps.entries if self.folds else self.steps.positions
            new = x.reshape(*places.shape, *x.shape[2:]).transpose(1, 2).to(storage.dtype)
            storage.scatter_(2, places[:, None, :, None].expand_as(new), new)

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        views = {name: self.storage(name).transpose(1, 2) for name in self.streams}
        return views, self.steps.read if self.folds else self.steps.past

    def keep(self, rows: Tensor) -> None:
        raise NotImplementedError  # sentences leave by their slots

    def fork(self, parents: Tensor) -> None:
        if not self.folds:
            for name in self.streams:
                storage = self.storage(name)
                storage.copy_(storage.index_select(0, parents))


class Layer(NamedTuple):
    """The buffers of a memory, by the names that the memory gives its tensors."""

    tokens: dict[str, str]  # streams with an entry per token
    state: dict[str, str]  # tensors of a fixed size
    folds: bool = False  # whether the beams of a sentence can share its tokens
    is_summary: bool = False  # whether it is a `SourceMemory`


class SlotMemories:
    """The memories of all layers.

    Args:
        model: model, which decodes a token of an empty source to find the sizes of its memories.
        buffers: buffers, in which those of the memories are declared.
    """

    def __init__(self, model: Seq2Seq, buffers: Buffers) -> None:
        self.model, self.buffers, self.steps = model, buffers, Steps(buffers)
        buffers.declare(real=Spec(("S",), torch.bool))
        sources, pasts = example_memories(model, buffers)
        self.sources = [self._declare(f"source{i}", each, "S") for i, each in enumerate(sources)]
        self.pasts = [self._declare(f"past{i}", each, "T") for i, each in enumerate(pasts)]
        self._now = Memories([], [])

    def _declare(self, label: str, memory: Any, letter: str) -> Layer:
        """Declare the buffers of a source ("S") or of the target so far ("T")."""
        tokens, state = parts_of(memory)
        folds = tokens is not None and tokens.folds and self.buffers.beams > 1
        # Tensors of the target have a row for each hypothesis; some slabs are for all of them.
        rows: tuple[Axis, ...] = (self.buffers.beams,) if letter == "T" else ()
        layer = Layer({}, {}, folds, isinstance(state, SourceMemory))
        for name, x in tokens.storage.items() if tokens else ():
            shape = (x.shape[1], letter, x.shape[3])
            slab = (x.shape[1], "TK", x.shape[3])
            layer.tokens[name] = f"{label}.{name}"
            axes = slab if folds and rows else (*rows, *shape)
            self.buffers.declare(**{layer.tokens[name]: Spec(axes, x.dtype)})
        for name, x in state.state.items() if state else ():
            layer.state[name] = f"{label}.state.{name}"
            blank = state.blank.get(name, 0) if state else 0
            spec = Spec((*rows, *x.shape[1:]), x.dtype, blank)
            self.buffers.declare(**{layer.state[name]: spec})
        return layer

    def begin(self, last: int) -> Memories:
        """The memories for the next step, which may read `last` + 1 positions."""
        self.steps.begin(last)
        self._now = Memories(
            [self._source(layer) for layer in self.sources], [self._past(x) for x in self.pasts]
        )
        return self._now

    def _source(self, layer: Layer) -> Any:
        real = self.buffers["real"]
        streams = {name: self.buffers[of].transpose(1, 2) for name, of in layer.tokens.items()}
        tokens = DenseMemory.of(streams, real) if streams else None
        values = {name: self.buffers[of] for name, of in layer.state.items()}
        if layer.is_summary:  # its sequence is only for weights, which no step reads
            return SourceMemory(real[..., None], real, **values)
        return joint(tokens, StateMemory(**values) if values else None)

    def _past(self, layer: Layer) -> Any:
        tokens = SlotMemory(self.steps, layer.tokens, layer.folds) if layer.tokens else None
        values = {name: self.buffers.rows(of) for name, of in layer.state.items()}
        return joint(tokens, StateMemory(**values) if values else None)

    def end(self, parents: Tensor | None) -> None:
        """Keep what the layers remembered in the step, and let each row continue its parent row,
        (N,); None = itself.
        """
        if parents is not None:
            self.steps.fork(parents)
        for layer, memory in zip(self.pasts, self._now.pasts, strict=True):
            tokens = memory.tokens if isinstance(memory, JointMemory) else memory
            state = memory.context if isinstance(memory, JointMemory) else memory
            if layer.tokens and parents is not None:
                tokens.fork(parents)
            for name, of in layer.state.items():
                new = state.state[name]
                chosen = new if parents is None else new.index_select(0, parents)
                self.buffers.rows(of).copy_(chosen)

    def first_values(self, encoded: Encoded) -> dict[str, Tensor]:
        """The values of the buffers for n sentences that start, (n, ...)."""
        K = self.buffers.beams
        values = {"real": encoded.real}
        memories = self.model.memories(encoded, K)
        for layer, memory in zip(self.sources, memories.sources, strict=True):
            tokens, state = parts_of(memory)
            if tokens is not None:
                values.update({of: tokens.storage[name] for name, of in layer.tokens.items()})
            if state is not None:
                values.update({of: state.state[name] for name, of in layer.state.items()})
        for layer, memory in zip(self.pasts, memories.pasts, strict=True):
            _, state = parts_of(memory)
            if state is not None and state.state:
                states = {of: state.state[name] for name, of in layer.state.items()}
                values.update({of: x.unflatten(0, (-1, K)) for of, x in states.items()})
        return values


def parts_of(memory: Any) -> tuple[DenseMemory | None, StateMemory | None]:
    """The part of a memory with an entry per token, and the part of a fixed size.

    Raises: TypeError if it has others.
    """
    if isinstance(memory, JointMemory):
        (tokens, _), (_, state) = parts_of(memory.tokens), parts_of(memory.context)
        return tokens, state
    if type(memory) is DenseMemory:
        return memory, None
    if type(memory) in (StateMemory, SourceMemory):
        return None, memory
    raise TypeError(f"{type(memory).__name__} has no buffers")


def joint(tokens: TokenMemory | None, state: StateMemory | None) -> Any:
    """A memory of these parts, of which at least one is there."""
    if tokens is not None and state is not None:
        return JointMemory(tokens, state)
    return state if tokens is None else tokens


def example_memories(model: Seq2Seq, buffers: Buffers) -> Memories:
    """The memories of K hypotheses after one token, of a source that is empty."""
    source = torch.full((1, 1), EOS, device=buffers.device)
    memories = model.memories(model.encode(source), buffers.beams)
    first = torch.full((buffers.beams, 1), BOS, device=buffers.device)
    model.decode(first, memories, torch.zeros(1, dtype=torch.long, device=buffers.device))
    return memories
