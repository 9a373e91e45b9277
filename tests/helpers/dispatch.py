"""Dispatch modes: what a computation asks of the device, found out without one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operations whose results, or the shapes of whose results, the host must read.
READS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique_dim",
    "unique_consecutive",
    "_unique2",
    "equal",
    "is_nonzero",
    "repeat_interleave.Tensor",
    "lift_fresh",  # torch.tensor(...), which is copied from memory that is not pinned
}


class NoWait(TorchDispatchMode):
    """Refuses operations for which the host would wait for a GPU."""

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = function.__name__
        masked = name.startswith("index") and any(
            isinstance(x, Tensor) and x.dtype == torch.bool for x in flat(args[1:])
        )
        if name.split(".")[0] in READS or name in READS or masked:
            raise AssertionError(f"{name} waits for the device")
        return function(*args, **(kwargs or {}))


def flat(values: Sequence[Any]) -> list[Any]:
    """The items of nested lists and tuples."""
    parts = [flat(x) if isinstance(x, list | tuple) else [x] for x in values]
    return [x for part in parts for x in part]


def refuses(run: Callable[[], Any]) -> bool:
    """True if `NoWait` refuses something that `run` does."""
    try:
        with NoWait():
            run()
    except AssertionError:
        return True
    return False


class Trace(TorchDispatchMode):
    """Notes each operation with the sizes, types and places of its tensors, and all other values
    that it is given. Two traces that are equal can be the same graph of a GPU.

    The place of a tensor that was there before is its address. The place of one that an operation
    made is the number of that operation: a graph has memory of its own for these.

    Attributes:
        calls: what was noted, one text for each operation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.made: dict[int, int] = {}  # address of the storage -> number of the operation
        self.alive: list[Tensor] = []  # so that no address is used twice

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        given = flat((*args, *options.values()))
        known = {start_of(x) for x in given if isinstance(x, Tensor)}
        noted = [self.describe(x) for x in given]
        result = function(*args, **options)
        results = flat((result,))
        for x in results:
            if isinstance(x, Tensor) and start_of(x) not in known:
                self.made[start_of(x)] = len(self.calls)
                self.alive.append(x)
        noted += ["->", *map(self.describe, results)]
        self.calls.append(" ".join([function.__name__, *options, *noted]))
        return result

    def describe(self, value: Any) -> str:
        if isinstance(value, torch.ScriptObject):  # a handle of the profiler
            return type(value).__name__
        if not isinstance(value, Tensor):
            return repr(value)
        start = start_of(value)
        place = f"call {self.made[start]}" if start in self.made else f"address {start}"
        size = f"{tuple(value.shape)} {value.stride()} {value.storage_offset()}"
        return f"[{value.dtype} {size} {value.device} {place}]"


def start_of(x: Tensor) -> int:
    """The address at which the memory of a tensor starts."""
    return x.untyped_storage().data_ptr()
