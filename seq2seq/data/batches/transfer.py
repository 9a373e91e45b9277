"""Copies of batches on a GPU, made while it still computes on earlier ones."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from seq2seq.data.batches.batch import Batch

V = TypeVar("V")


class Sent(NamedTuple):
    """A batch on its way to a device, and the event after its last copy (None on a CPU)."""

    batch: Batch
    arrived: Any = None


class Transfer:
    """Sends batches to a device from the thread that makes them.

    The copies run on a stream of their own, from pinned memory, so neither the host nor the
    computation waits for them. Batches for a CPU are passed on unchanged.

    Args:
        device: where the batches are needed.
    """

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(self, batch: Batch) -> Sent:
        """Start the copies of a batch."""
        if self.stream is None:
            return Sent(batch)
        device = self.stream.device
        with torch.cuda.stream(self.stream):
            copy = map_tensors(batch, lambda x: x.pin_memory().to(device, non_blocking=True))
            return Sent(copy, self.stream.record_event())

    def receive(self, sent: Sent) -> Batch:
        """The batch, ready for the work that the caller's stream is given from now on."""
        if self.stream is not None:
            current = torch.cuda.current_stream(self.stream.device)
            current.wait_event(sent.arrived)
            map_tensors(sent.batch, lambda x: x.record_stream(current))
        return sent.batch


def map_tensors(value: V, function: Callable[[Tensor], Any]) -> V:
    """A batch, or a part of one, with the results of a function in place of its tensors."""
    if isinstance(value, Tensor):
        return cast(V, function(value))
    if not isinstance(value, tuple):
        return value
    parts = [map_tensors(part, function) for part in value]
    return cast(V, type(value)(*parts) if hasattr(value, "_fields") else tuple(parts))
