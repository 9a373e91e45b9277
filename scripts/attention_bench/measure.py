"""The measurements: a mechanism on a sequence, and one token after a sequence."""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor
from zoo import Preset

from seq2seq.attention import Attention, Memory, Place, Role
from seq2seq.attention.base import Encoded
from seq2seq.comparison.live_memory import Live, live_memory

CHUNK = 256  # tokens fed to a decoder at once, before its steps are timed
STEPS = 4  # of a round; the fastest counts


class Setting(NamedTuple):
    """Conditions of all measurements. Batches have one sequence."""

    role: Role
    dim: int
    device: torch.device
    dtype: torch.dtype  # of products, by autocast; float32 = without it

    def build(self, preset: Preset) -> Attention[Any]:
        return preset.build(Place(self.role, self.dim, self.dim)).to(self.device)

    def tokens(self, length: int) -> Tensor:
        return torch.randn(1, length, self.dim, device=self.device)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def now(self) -> float:
        """The time in seconds, after all queued work has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


class Training:
    """Forward and backward over a sequence, the gradients of input and parameters included."""

    def __init__(self, preset: Preset, length: int, setting: Setting):
        self.setting = setting
        self.mechanism = setting.build(preset).train()
        self.x = setting.tokens(length).requires_grad_()
        cross = setting.role is Role.CROSS
        self.source = setting.tokens(length).requires_grad_() if cross else None
        self.gradient = torch.ones_like(self.x)

    def forward(self) -> Tensor:
        with self.setting.autocast():
            out: Tensor = self.mechanism(self.x, self.source).out
            return out

    def both(self) -> None:
        out = self.forward()
        torch.autograd.backward(out, self.gradient.to(out.dtype))

    def round(self, _: int) -> tuple[float, float]:
        """Returns: seconds forward and backward."""
        self.clear()
        gradient = self.gradient
        start = self.setting.now()
        out = self.forward()
        between = self.setting.now()
        torch.autograd.backward(out, gradient.to(out.dtype))
        end = self.setting.now()
        return between - start, end - between

    def clear(self) -> None:
        """Forget gradients, so that every round allocates the same."""
        self.mechanism.zero_grad(set_to_none=True)
        for leaf in (self.x, self.source):
            if leaf is not None:
                leaf.grad = None

    def memory(self) -> tuple[Live, Live]:
        """Of forward alone, and of forward and backward."""
        self.clear()
        forward = live_memory(self.forward, self.setting.device)
        self.clear()
        return forward, live_memory(self.both, self.setting.device)


class Decoding:
    """One more token after a sequence in the cache: the decoder's past, or a source."""

    def __init__(self, preset: Preset, length: int, setting: Setting):
        self.setting, self.length = setting, length
        self.mechanism = setting.build(preset).eval()
        self.x = setting.tokens(1)
        start = setting.now()
        with torch.no_grad(), setting.autocast():
            if setting.role is Role.CROSS:
                self.memory: Memory = self.mechanism.memory_of(Encoded(setting.tokens(length)))
            else:
                self.memory = self._fill_memory(setting.tokens(length))
        self.preparing = setting.now() - start  # seconds
        self.step()  # some memories allocate room in the first step after a long sequence

    def _fill_memory(self, x: Tensor) -> Memory:
        memory: Memory = self.mechanism.new_memory()
        positions = torch.arange(x.shape[1], device=x.device)
        for tokens, here in zip(
            torch.split(x, CHUNK, 1), torch.split(positions, CHUNK), strict=True
        ):
            self.mechanism.advance(tokens, memory, here)
        return memory

    @torch.no_grad()
    def step(self) -> None:
        position = torch.tensor([self.length], device=self.setting.device)
        with self.setting.autocast():
            if self.setting.role is Role.CROSS:
                self.mechanism.attend_beams(self.x, self.memory, position)
            else:
                self.mechanism.advance(self.x, self.memory, position)
        self.length += 1

    def bytes(self) -> int:
        """The cache, and the peak of a step on top of it."""
        remembered = self.memory.nbytes
        return remembered + live_memory(self.step, self.setting.device).peak

    def round(self, _: int) -> float:
        """Returns: seconds of the fastest of a few steps."""
        seconds = []
        for _ in range(STEPS):
            start = self.setting.now()
            self.step()
            seconds.append(self.setting.now() - start)
        return min(seconds)
