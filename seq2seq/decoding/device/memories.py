"""The memories of a decoder's layers in buffers, which the layers use like any other memory."""

from typing import Any

import torch
from torch import Tensor

from seq2seq.attention.base import Encoded
from seq2seq.attention.memory import DenseMemory, JointMemory, SourceMemory, StateMemory, tokens_of
from seq2seq.base.symbols import BOS, EOS
from seq2seq.decoding.device.buffers import Axis, Buffers, Spec
from seq2seq.models import Seq2Seq
from seq2seq.models.base import Memories


class Steps:
    """The places of a step, for all layers: where each hypothesis writes, and which it may read.

    Attributes:
        positions: position of the token that each row reads, (N, 1).
        read: mask of the entries of a slab that each beam may read, (B, K, T K).
        past: mask of the positions up to each row's own, (N, T).
    """

    def __init__(self, buffers: Buffers) -> None:
        self.buffers, self.beams = buffers, buffers.beams
        buffers.declare(visible=Spec((self.beams, "TK"), torch.bool))

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


class SlotMemory:
    """The target tokens of a layer, written once at places that `Steps` gives. It has the part of
    `TokenMemory` that steps need: sentences join and leave by their slots.

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

    def append(self, streams: dict[str, Tensor]) -> None:
        for name, x in streams.items():  # (N, 1, heads, width)
            storage = self.storage(name)
            places = self.steps.entries if self.folds else self.steps.positions
            new = x.reshape(*places.shape, *x.shape[2:]).transpose(1, 2).to(storage.dtype)
            storage.scatter_(2, places[:, None, :, None].expand_as(new), new)

    def read(self) -> tuple[dict[str, Tensor], Tensor | None]:
        views = {name: self.storage(name).transpose(1, 2) for name in self.streams}
        return views, self.steps.read if self.folds else self.steps.past

    def fork(self, parents: Tensor) -> None:
        if not self.folds:
            for name in self.streams:
                storage = self.storage(name)
                storage.copy_(storage.index_select(0, parents))


class SlotMemories:
    """The memories of all layers.

    Args:
        model: model, which decodes a token of an empty source to find the sizes of its memories.
        buffers: buffers, in which those of the memories are declared.
    """

    @torch.no_grad()
    def __init__(self, model: Seq2Seq, buffers: Buffers) -> None:
        self.model, self.buffers, self.steps = model, buffers, Steps(buffers)
        buffers.declare(real=Spec(("S",), torch.bool))
        source = torch.full((1, 1), EOS, device=buffers.device)
        first = torch.full((buffers.beams, 1), BOS, device=buffers.device)
        self.examples = model.memories(model.encode(source), buffers.beams)
        model.decode(first, self.examples, torch.zeros(1, dtype=torch.long, device=source.device))
        for label, memory in by_label(self.examples):
            for name, x in tensors_of(memory).items():
                buffers.declare(**{f"{label}.{name}": self._spec(memory, label, name, x)})

    def _spec(self, memory: Any, label: str, name: str, x: Tensor) -> Spec:
        """The buffer of a tensor of a memory. Tensors of the past have K rows a sentence, or one
        slab with the tokens of all of them.
        """
        rows: tuple[Axis, ...] = (self.buffers.beams,) if label.startswith("past") else ()
        if not name.startswith("tokens."):
            blank = getattr(memory, "blank", {}).get(name.removeprefix("state."), 0)
            return Spec((*rows, *x.shape[1:]), x.dtype, blank)
        heads, width = x.shape[1], x.shape[3]
        if not rows:
            return Spec((heads, "S", width), x.dtype)
        if self._folds(memory):
            return Spec((heads, "TK", width), x.dtype)
        return Spec((*rows, heads, "T", width), x.dtype)

    def _folds(self, memory: Any) -> bool:
        """True if the beams of a sentence share its tokens."""
        tokens = tokens_of(memory)
        return tokens is not None and tokens.folds and self.buffers.beams > 1

    def begin(self, last: int) -> Memories:
        """The memories for the next step, which may read `last` + 1 positions."""
        self.steps.begin(last)
        now = {label: self._build(memory, label) for label, memory in by_label(self.examples)}
        layers = len(self.examples.sources)
        return Memories([*now.values()][:layers], [*now.values()][layers:])

    def _build(self, example: Any, label: str) -> Any:
        """The memory in buffers that replaces this example."""
        of_past = label.startswith("past")
        if isinstance(example, JointMemory):
            tokens = self._build(example.tokens, label)
            return JointMemory(tokens, self._build(example.context, label))
        if isinstance(example, DenseMemory):
            streams = {name: f"{label}.tokens.{name}" for name in example.storage}
            if of_past:
                return SlotMemory(self.steps, streams, self._folds(example))
            views = {name: self.buffers[of].transpose(1, 2) for name, of in streams.items()}
            return DenseMemory.of(views, self.buffers["real"])
        take = self.buffers.rows if of_past else self.buffers.__getitem__
        values = {name: take(f"{label}.state.{name}") for name in example.state}
        if isinstance(example, SourceMemory):  # its sequence is for weights, which no step reads
            real = self.buffers["real"]
            return SourceMemory(real[..., None], real, **values)
        return StateMemory(**values)

    def end(self, memories: Memories, parents: Tensor | None) -> None:
        """Keep what the layers remembered in the step, in the memories that `begin` returned, and
        let each row continue its parent row, (N,); None = itself.
        """
        if parents is not None:
            self.steps.fork(parents)
        for label, memory in by_label(Memories([], memories.pasts)):
            tokens = memory.tokens if isinstance(memory, JointMemory) else memory
            if parents is not None and isinstance(tokens, SlotMemory):
                tokens.fork(parents)
            for name, new in tensors_of(memory).items():
                chosen = new if parents is None else new.index_select(0, parents)
                self.buffers.rows(f"{label}.{name}").copy_(chosen)

    def first_values(self, encoded: Encoded) -> dict[str, Tensor]:
        """The values of the buffers for n sentences that start, (n, ...)."""
        K, values = self.buffers.beams, {"real": encoded.real}
        for label, memory in by_label(self.model.memories(encoded, K)):
            for name, x in tensors_of(memory).items():
                of_rows = label.startswith("past")
                values[f"{label}.{name}"] = x.unflatten(0, (-1, K)) if of_rows else x
        return values


def by_label(memories: Memories) -> list[tuple[str, Any]]:
    """The memories of all layers, with names: source0, source1, ..., past0, past1, ..."""
    sources = [(f"source{i}", each) for i, each in enumerate(memories.sources)]
    return sources + [(f"past{i}", each) for i, each in enumerate(memories.pasts)]


def tensors_of(memory: Any) -> dict[str, Tensor]:
    """The tensors that a memory holds itself: its tokens (rows, heads, length, width), and those of
    a fixed size.
    """
    if isinstance(memory, JointMemory):
        return tensors_of(memory.tokens) | tensors_of(memory.context)
    if isinstance(memory, SlotMemory):  # its tokens are in the buffers
        return {}
    if isinstance(memory, DenseMemory):
        return {f"tokens.{name}": x for name, x in memory.storage.items()}
    return {f"state.{name}": x for name, x in memory.state.items()}
