"""Linear maps with matrices in the layout of the native decoder."""

from collections.abc import Iterable
from ctypes import CDLL
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.decoding.native import load_library
from seq2seq.decoding.native.layout import WORKSPACE, data_ptr, structs
from seq2seq.functional.int8 import quantize_matrix
from seq2seq.models.layers.input_scale import input_scale_of


class PackedMatrix:
    """A matrix (O, K), in float32 or rounded to 8 bits, and a bias.

    Args:
        panels: packed matrix.
        scales, sums: scale of each output, and sum of its integers, in 8 bits; None in float32.
        input_scale: scale of all inputs in 8 bits; 0 if each row has its own.

    Attributes:
        struct: matrix as a structure of the native decoder.
    """

    def __init__(
        self,
        library: CDLL,
        shape: tuple[int, int],
        panels: Tensor,
        scales: Tensor | None,
        sums: Tensor | None,
        bias: Tensor | None,
        input_scale: float = 0.0,
    ):
        self.library, self.tensors = library, (panels, scales, sums, bias)
        self.input_scale = input_scale
        self.panels, self.scales, self.bias = panels, scales, bias
        self.outputs, self.inputs = shape
        sizes, is_int8 = (self.inputs, self.outputs), scales is not None
        self.struct = structs.Linear(*sizes, is_int8, *map(data_ptr, self.tensors), input_scale)

    def __reduce__(self) -> tuple[Any, ...]:
        return load_matrix, ((self.outputs, self.inputs), *self.tensors, self.input_scale)

    def part(self, first: int, count: int) -> "PackedMatrix | None":
        """The part for some outputs, in the same memory; None if it begins within a panel."""
        width = self.library.s2s_panel_width()
        if first % width:
            return None
        panels = self.panels[len(self.panels) // -(-self.outputs // width) * (first // width) :]
        end = first + count
        scales, sums, bias = (None if x is None else x[first:end] for x in self.tensors[1:])
        shape = count, self.inputs
        return PackedMatrix(self.library, shape, panels, scales, sums, bias, self.input_scale)

    def product(self, x: Tensor) -> Tensor:
        """x (R, K) float32 -> (R, O)."""
        x, y = x.contiguous(), x.new_empty(len(x), self.outputs)
        WORKSPACE.run(self.library.s2s_linear, self.struct, x.data_ptr(), len(x), y.data_ptr())
        return y


def load_matrix(shape: tuple[int, int], *parts: Any) -> PackedMatrix:
    return PackedMatrix(load_library(), shape, *parts)


def pack_matrix(
    library: CDLL, weight: Tensor, bias: Tensor | None, int8: bool, input_scale: float = 0.0
) -> PackedMatrix:
    """Pack a matrix (O, K) into panels, in int8 rounded. Other arguments as in `PackedMatrix`."""
    outputs, inputs = weight.shape
    width = library.s2s_panel_width()
    padded = -(-outputs // width) * width
    bias = None if bias is None else bias.detach().float().contiguous()
    if not int8:
        rows, panels = weight.detach().contiguous(), torch.empty(max(1, padded * inputs))
        library.s2s_pack_float32(rows.data_ptr(), inputs, outputs, panels.data_ptr())
        return PackedMatrix(library, (outputs, inputs), panels, None, None, bias)
    integers, scales = quantize_matrix(weight)
    panels = torch.empty(max(1, padded * -(-inputs // 4)), dtype=torch.int32)
    sums = torch.empty(outputs, dtype=torch.int32)
    addresses = panels.data_ptr(), sums.data_ptr()
    library.s2s_pack_int8(integers.data_ptr(), inputs, outputs, *addresses)
    shape = outputs, inputs
    return PackedMatrix(library, shape, panels, scales.flatten(), sums, bias, input_scale)


class Packer:
    """Packs the linear maps of a model.

    Args:
        packed: matrices that another process packed, of the same maps in the same order.

    Attributes:
        matrices: packed matrices, in the order of packing.
        parts: packed matrix of each map, which may be part of a larger one.
    """

    def __init__(self, library: CDLL, int8: bool, packed: Iterable[PackedMatrix] = ()):
        self.library, self.int8 = library, int8
        self._packed = iter(packed)
        self.matrices: list[PackedMatrix] = []
        self.parts: dict[nn.Module, PackedMatrix] = {}

    def pack(self, *maps: Any) -> PackedMatrix:
        """Pack several maps of the same inputs as one matrix."""
        whole = next(self._packed, None)
        if whole is None:
            weight, bias = maps[0].weight, maps[0].bias  # a single map needs no copy
            if len(maps) > 1:
                biases = [torch.zeros(m.out_features) if m.bias is None else m.bias for m in maps]
                bias = torch.cat(biases) if any(m.bias is not None for m in maps) else None
                weight = torch.cat([m.weight for m in maps])
            scale = max(map(input_scale_of, maps))
            whole = pack_matrix(self.library, weight, bias, self.int8, scale)
        self.matrices.append(whole)
        first = 0
        for each in maps:
            part = whole.part(first, each.out_features)
            if part is not None:
                self.parts[each] = part
            first += each.out_features
        return whole

    def pack_float32(self, weight: Tensor, bias: Tensor | None) -> PackedMatrix:
        """Pack a matrix that stays in float32 even for an int8 model."""
        whole = next(self._packed, None) or pack_matrix(self.library, weight, bias, int8=False)
        self.matrices.append(whole)
        return whole


class NativeLinear(nn.Module):
    """A native linear map, (..., K) -> (..., O) in the type of the input. On a CPU only,
    without gradients, and never saved: it is made from an `nn.Linear`, which stays unchanged. A map
    that is already packed shares its memory.
    """

    def __init__(self, packer: Packer, linear: nn.Linear):
        super().__init__()
        self.packed = packer.parts.get(linear) or packer.pack(linear)
        self.bias, self.given = self.packed.bias, linear.weight.detach()
        self.out_features, self.in_features = linear.weight.shape

    @cached_property
    def rows(self) -> Tensor:
        """The matrix (O, K) for products with some of its rows; in 8 bits as integers, with K
        padded to a multiple of 4.
        """
        if self.packed.scales is None:
            return self.given.contiguous()
        return nn.functional.pad(quantize_matrix(self.given)[0], (0, -self.in_features % 4))

    @cached_property
    def weight(self) -> Tensor:
        """The matrix (O, K) after rounding, for code that reads it without calling the layer."""
        if self.packed.scales is None:
            return self.given
        integers, scales = quantize_matrix(self.given)
        return integers * scales

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().reshape(-1, self.in_features)
        y = self.packed.product(rows.float())
        return y.view(*x.shape[:-1], self.out_features).to(x.dtype)
