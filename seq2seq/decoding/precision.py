"""Convert models for inference: to native steps, to bfloat16 or to int8."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import Table
from seq2seq.decoding import native
from seq2seq.decoding.native.base import NativeModel
from seq2seq.decoding.native.build import UnavailableError
from seq2seq.decoding.native.linear import NativeLinear, Packer
from seq2seq.decoding.native.quantization import MAX_INPUTS, PACKED_FOR, Int8Linear
from seq2seq.decoding.native.recurrent import NativeRNN, is_covered_rnn
from seq2seq.decoding.native.transformer import NativeTransformer, is_covered
from seq2seq.models import Ensemble, Seq2Seq


def with_precision(model: Seq2Seq, precision: str) -> Seq2Seq:
    """A version of a model in some precision, for inference only. The given model is not changed.

    - `auto`: one of the next two; see `decoding_precision`.
    - `float32`: the same values. On a CPU, the matrices of linear maps are copied into the fastest
      layout, and other parameters are shared with the model. On other devices, the result is the
      model itself.
    - `bfloat16`: a second model with all parameters, activations and memories rounded to 8
      significant bits. It takes half the memory; on a CPU, its linear maps take twice as much.
    - `int8`: every `nn.Linear` (encoder, decoder, output) multiplies integers; see
      `native.quantization`. Everything else stays in float32 and shares its parameters with the
      model: embeddings (even if tied to the output matrix), norms, attention, and the cells of
      RNNs, which contain no `nn.Linear`.

    Args:
        model: model on the device where it will be used, since the result must not be moved.
        precision: `auto`, `float32`, `bfloat16` or `int8`.

    Raises: ConfigError if the precision is unknown, or for int8 if the device is not a CPU or a
        layer has too many inputs.
    """
    return PRECISIONS.find(precision)(model)


def decoding_precision(name: str, device: torch.device) -> str:
    """The precision with this name; `auto` is bfloat16 on a GPU that computes with it, else
    float32.
    """
    if name != "auto":
        return name
    has = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if has else "float32"


def to_usual(model: Seq2Seq) -> Seq2Seq:
    return with_precision(model, decoding_precision("auto", next(model.parameters()).device))


def to_float32(model: Seq2Seq) -> Seq2Seq:
    if not next(model.parameters()).is_cpu:
        return model
    return accelerate(copy_model(model), to_column_major, int8=False)


def to_bfloat16(model: Seq2Seq) -> Seq2Seq:
    converted = copy_model(model, lambda x: x.to(torch.bfloat16) if x.is_floating_point() else x)
    on_cpu = next(model.parameters()).is_cpu
    return replace_linears(converted, PackedLinear.of) if on_cpu else converted


def to_int8(model: Seq2Seq) -> Seq2Seq:
    if not next(model.parameters()).is_cpu:
        raise ConfigError(
            "precision=int8 runs on a CPU only. On a GPU use precision=bfloat16, or "
            "choose the CPU: --device cpu"
        )
    for name, layer in model.named_modules():
        if type(layer) is nn.Linear and layer.in_features > MAX_INPUTS:
            raise ConfigError(
                f"precision=int8 adds up to {MAX_INPUTS:,} products in 32 bits, and {name} "
                f"has {layer.in_features:,} inputs: precision=float32"
            )
    return accelerate(copy_model(model), Int8Linear, int8=True)


def accelerate(model: Seq2Seq, build: Callable[[nn.Linear], nn.Module], int8: bool) -> Seq2Seq:
    """The model with native steps, if the native decoder is available and covers it. Linear maps
    that do not become native are replaced by `build`.
    """
    try:
        library = native.load_library()
    except UnavailableError:
        return replace_linears(model, build)
    if isinstance(model, Ensemble):
        members = (accelerate(member, build, int8) for member in model.members)
        model.members = cast(Sequence[Seq2Seq], nn.ModuleList(members))
        return model
    packer = Packer(library, int8)
    native_linear = partial(NativeLinear, packer)
    converted = to_native(model, packer)
    if converted is None:
        return replace_linears(model, native_linear if int8 else build)
    replace_linears(model, native_linear)
    return converted


def to_native(model: Seq2Seq, packer: Packer) -> NativeModel | None:
    """The model with native steps; None if the native decoder does not cover it."""
    if any(x.dtype != torch.float32 or not x.is_cpu for x in model.parameters()):
        return None
    if is_covered(model):
        return NativeTransformer(model, packer)
    if is_covered_rnn(model):
        return NativeRNN(model, packer)
    return None


PRECISIONS: Table[Callable[[Seq2Seq], Seq2Seq]] = Table(
    "precision",
    {"auto": to_usual, "float32": to_float32, "bfloat16": to_bfloat16, "int8": to_int8},
)


def is_native(model: Seq2Seq) -> bool:
    """True if all steps of a converted model are native; it can then be sent to other processes."""
    members = model.members if isinstance(model, Ensemble) else [model]
    return all(isinstance(member, NativeModel) for member in members)


def describe_backend(model: Seq2Seq) -> str:
    """Describe what computes a converted model: `C` (native code), or torch and the reason."""
    if is_native(model):
        return "C"
    parameter = next(model.parameters())
    if parameter.dtype != torch.float32 or not parameter.is_cpu:
        return "torch: the native decoder computes only float32 and int8, on a CPU"
    return f"torch: {native.unavailable_reason() or 'no native code for these attentions'}"


def to_column_major(linear: nn.Linear) -> nn.Linear:
    """The same map with its matrix (O, K) stored by columns. On a CPU, this makes products with the
    few rows of a decoding step up to 1.7 times as fast.
    """
    matrix = linear.weight.detach().t().contiguous().t()
    turned = copy.copy(linear)
    turned._parameters = linear._parameters | {"weight": nn.Parameter(matrix, requires_grad=False)}
    return turned


def copy_model(model: Seq2Seq, convert: Callable[[Tensor], Tensor] = lambda x: x) -> Seq2Seq:
    """A copy with each parameter and buffer converted once, so that tied ones stay tied."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        converted = convert(parameter.detach())
        memo[id(parameter)] = nn.Parameter(converted, requires_grad=False)
    for buffer in model.buffers():
        memo[id(buffer)] = convert(buffer)
    return copy.deepcopy(model, memo).eval()


def replace_linears(model: Seq2Seq, build: Callable[[nn.Linear], nn.Module]) -> Seq2Seq:
    """Replace every `nn.Linear`, except subclasses, which may compute something else."""
    built = {module: build(module) for module in model.modules() if type(module) is nn.Linear}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if child in built:
                setattr(module, name, built[child])
    return model


class PackedLinear(nn.Module):
    """A linear map in bfloat16, (..., K) -> (..., O), that does not reorder its matrix at every
    call as `nn.Linear` does. On a CPU only, without gradients; the packed matrix is not saved.

    Raises: RuntimeError, NotImplementedError or AttributeError if PyTorch or the processor lacks
        the kernel.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # For code that reads the matrix without calling the layer.
        self.weight, self.bias = linear.weight, linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), PACKED_FOR)

    @classmethod
    def of(cls, linear: nn.Linear) -> Self | nn.Linear:
        """The layer packed, or unchanged where packing is not possible."""
        try:
            packed = cls(linear)
            packed(linear.weight.new_zeros(2, linear.in_features))
        except (AttributeError, NotImplementedError, RuntimeError):
            return linear
        return packed

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if not x.numel():
            return x.new_zeros(*x.shape[:-1], len(self.weight))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return out


def find_device(name: str) -> torch.device:
    """The device with this name; `auto` is a GPU if there is one.

    Raises: ConfigError if torch does not know the device or cannot use it here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device {name!r} cannot be used here: {str(error).splitlines()[0]}. "
            "Choose cpu, cuda or auto"
        ) from error
    return device
