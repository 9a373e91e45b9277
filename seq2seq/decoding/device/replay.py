"""CUDA graphs, and copies between host and device for which nobody waits.

On a CPU, a graph is the function itself and a copy is a copy.
"""

from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock
from typing import Any, Generic, TypeVar
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
Label = TypeVar("Label")


# One thread at a time may capture.
CAPTURES = Lock()


@cache
def capture_place(device: torch.device) -> tuple[Any, torch.cuda.Stream]:
    """The memory of all graphs of a device, which never run at once, and the stream on which they
    are captured. The pool outlives its graphs: torch refuses one whose graphs are all gone.
    """
    with torch.cuda.device(device):
        return torch.cuda.MemPool(), torch.cuda.Stream()


def capture(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """A function that does the same as `run`, on a GPU in one launch.

    Args:
        run: function that works in place on tensors that stay where they are. On a GPU it is
            called twice, so that kernels are compiled and libraries loaded before the capture.
        device: device of the tensors.
    """
    if device.type != "cuda":
        return run
    (pool, side), graph = capture_place(device), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream(device))
    replay: Callable[[], None] = graph.replay
    # A failed capture leaves its stream as the current one, unless an outer block restores it.
    with CAPTURES, torch.cuda.stream(side):
        run()
        run()
        try:
            # Other threads, such as those of a service, may use the GPU meanwhile.
            with torch.cuda.graph(graph, pool.id, side, capture_error_mode="thread_local"):
                run()
        except RuntimeError as error:
            replay = run
            warn(
                f"a step could not be captured as a CUDA graph, so its kernels are launched one by "
                f"one ({error}). decode.cache=paged (--cache paged) captures nothing",
                stacklevel=2,
            )
    torch.cuda.current_stream(device).wait_stream(side)
    return replay


def synchronize() -> None:
    """Wait until the GPU has finished all its work, if there is one in use."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def upload(array: Array, device: torch.device) -> Tensor:
    """A copy on the device."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.clone()
    return tensor.pin_memory().to(device, non_blocking=True)


class Mirror(Generic[Label]):
    """Tensors as the host saw them one step ago, so that the host never waits for the last step."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self._posted: tuple[dict[str, Tensor], Label, Any] | None = None

    def exchange(
        self, tensors: Mapping[str, Tensor], label: Label
    ) -> tuple[dict[str, Array], Label] | None:
        """Begin to copy tensors. Returns: the copies begun in the last call, and their label."""
        before, event = self._posted, None
        copies = {
            name: torch.empty(x.shape, dtype=x.dtype, pin_memory=self.on_gpu).copy_(
                x, non_blocking=self.on_gpu
            )
            for name, x in tensors.items()
        }
        if self.on_gpu:
            event = torch.cuda.Event()
            event.record()
        self._posted = copies, label, event
        if before is None:
            return None
        copies, label, event = before
        if event is not None:
            event.synchronize()
        return {name: x.numpy() for name, x in copies.items()}, label
