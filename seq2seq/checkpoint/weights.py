"""Load the weights of a model without initializing them first, and without a second copy.

A file stores 8-bit matrices as int8, with a float32 scale per row; in a model they are float32.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2seq.base.errors import CheckpointError
from seq2seq.functional.int8 import quantize_matrix

SHORTEST_ROW = 16  # numbers: for fewer, the scale would take much of the space that is saved
# Every function that fills a tensor at random: the others of `nn.init` call these methods.
RANDOM = {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_}
RANDOM |= {Tensor.uniform_, Tensor.normal_}


class SkipInit(TorchFunctionMode):
    """A context in which parameters are not initialized at random, since a file will replace them.
    Memory that is never written is never committed by the system.
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
    """Copy the tensors of a mapped file into memory, so that the file may change. Tensors that
    share memory also share it in the copy.

    Raises: CheckpointError if `state` is not a dict of named tensors, or if tensors overlap in the
        file, since a small file could then fill the memory.
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
    """Make these tensors the parameters of a model, sharing their memory. Tied parameters stay
    tied.

    Raises: RuntimeError if names or shapes differ from those of the model.
    """
    before, own = dict(model.named_parameters(remove_duplicate=False)), model.state_dict()
    fitting = {
        name: value.detach().to(own[name].dtype).contiguous()
        if name in own and value.shape == own[name].shape  # otherwise it may expand few elements
        else value
        for name, value in weights.items()
    }
    model.load_state_dict(fitting, assign=True)
    for name, parameter in before.items():
        module, _, last = name.rpartition(".")
        parameter.data = model.get_parameter(name).data
        setattr(model.get_submodule(module), last, parameter)


def is_rounded(parameter: Tensor) -> bool:
    """True if a parameter is a matrix whose rows are long enough to be stored in 8 bits."""
    return parameter.dim() >= 2 and parameter.shape[-1] >= SHORTEST_ROW


def quantize_weights(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The state of a model with its matrices in int8, (..., O, K), and the scales of their rows,
    (..., O), both by name.

    Matrices are those of linear maps, embeddings, recurrent cells and scores. Tied ones stay tied;
    other parameters are not changed.

    Raises: CheckpointError if a matrix holds an infinity or a NaN.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    state: dict[str, Tensor] = model.state_dict()
    scales: dict[str, Tensor] = {}
    pairs: dict[int, tuple[Tensor, Tensor]] = {}  # by the memory of the matrix
    for name, value in state.items():
        if name not in parameters or not is_rounded(value):
            continue
        if value.data_ptr() not in pairs:
            integers, scale = quantize_matrix(value)
            pairs[value.data_ptr()] = integers, scale.squeeze(-1)
        state[name], scales[name] = pairs[value.data_ptr()]
        if not scales[name].isfinite().all():
            raise CheckpointError(f"{name} cannot be rounded: not all of its numbers are finite")
    return state, scales


def dequantize_weights(state: Mapping[str, Tensor], scales: Any) -> dict[str, Tensor]:
    """Reverse `quantize_weights`: the state of a model with its matrices in float32. Quantizing
    them again gives the same integers and scales. Tied matrices stay tied.

    Args:
        state: tensors by name, the matrices in int8.
        scales: scales of the rows by name, as found in a file and not yet verified.

    Raises: CheckpointError if integers and scales do not fit together.
    """
    scales = copy_weights(scales)
    names = [name for name, value in state.items() if value.dtype == torch.int8]
    if scales.keys() != set(names):
        raise CheckpointError("its 8-bit matrices and its scales have different names")
    weights = dict(state)
    matrices: dict[int, Tensor] = {}  # by the memory of the integers
    for name in names:
        integers, scale = state[name], scales[name]
        memory = integers.untyped_storage()
        known = matrices.get(memory.data_ptr())
        # Many views of the same integers could take any amount of memory once converted.
        is_whole = integers.is_contiguous() and memory.nbytes() == integers.numel()
        if (
            not (is_whole and scale.shape == integers.shape[:-1])
            or (known is not None and known.shape != integers.shape)
            or not (scale.dtype == torch.float32 and scale.isfinite().all() and (scale > 0).all())
        ):
            raise CheckpointError(f"{name} in 8 bits and its scales do not fit together")
        if known is None:
            matrices[memory.data_ptr()] = known = integers * scale[..., None]
        weights[name] = known
    return weights


def check_input_scales(scales: Any) -> dict[str, float]:
    """The input scales of linear layers by name, as found in a file.

    Raises: CheckpointError if they are not positive finite numbers by name.
    """
    if not isinstance(scales, dict) or not all(
        isinstance(name, str) and isinstance(scale, float) and 0 < scale < math.inf
        for name, scale in scales.items()
    ):
        raise CheckpointError("its input scales are not positive numbers by name of a layer")
    return scales
