"""The weights of a file as those of a model: read once, initialised never, in memory once."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2seq.errors import CheckpointError

# All that draws numbers for a tensor: the other functions of `nn.init` call these methods.
RANDOM = {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_}
RANDOM |= {Tensor.uniform_, Tensor.normal_}


class SkipInit(TorchFunctionMode):
    """Inside, nothing is drawn for parameters that a file will replace: the system gives memory
    only to what is written.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function in RANDOM:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def copy_weights(state: Any) -> dict[str, Tensor]:
    """The tensors of a mapped file in memory of their own, so that the file may change. Those that
    share memory share it in the copy.

    Raises: CheckpointError if these are not tensors by name, or if they repeat parts of the file:
        a small one could fill the memory.
    """
    if not isinstance(state, dict) or not all(
        isinstance(name, str)
        and isinstance(value, Tensor)
        and (value.layout, value.device.type) == (torch.strided, "cpu")
        for name, value in state.items()
    ):
        raise CheckpointError("it holds no named weights")
    storages = (value.untyped_storage() for value in state.values())
    spans = sorted({(each.data_ptr(), each.data_ptr() + each.nbytes()) for each in storages})
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        raise CheckpointError("its weights overlap in the file")
    return deepcopy(state)


def assign_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Let the parameters of a model be these tensors, in the same memory; tied ones stay tied.

    Raises: RuntimeError if there are others, or of other shapes.
    """
    before, own = dict(model.named_parameters(remove_duplicate=False)), model.state_dict()
    fitting = {
        name: value.detach().to(own[name].dtype).contiguous()
        if name in own and value.shape == own[name].shape  # else it may repeat few elements
        else value
        for name, value in weights.items()
    }
    model.load_state_dict(fitting, assign=True)
    for name, parameter in before.items():
        module, _, last = name.rpartition(".")
        parameter.data = model.get_parameter(name).data
        setattr(model.get_submodule(module), last, parameter)
