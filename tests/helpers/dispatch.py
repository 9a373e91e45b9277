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
