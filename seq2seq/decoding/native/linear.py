"""Linear maps whose matrices are in the layout of the C."""

from collections.abc import Iterable
from ctypes import CDLL
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from seq2seq.decoding.native.layout import WORK, address, structs
from seq2seq.functional.int8 import quantize_rows


class Packed:
    """A matrix (O, K), in float32 or rounded to 8 bits as in `functional.int8`, and a bias.

    Args:
        panels: as the C packs them.
        scales, sums: of each output in 8 bits; None in float32.

    Attributes:
        struct: the same for the C.
    """

    def __init__(
        self,
        functions: CDLL,
        shape: tuple[int, int],
        panels: Tensor,
        scales: Tensor | None,
        sums: Tensor | None,
        bias: Tensor | None,
    ):
        self.functions, self.held = functions, (panels, scales, sums, bias)
        self.panels, self.scales, self.sums, self.bias = self.held
        self.outputs, self.inputs = shape
        is_int8 = scales is not None
        self.struct = structs.linear(self.inputs, self.outputs, is_int8, *map(address, self.held))

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, ((self.outputs, self.inputs), *self.held)

    @classmethod
    def of(cls, functions: CDLL, weight: Tensor, bias: Tensor | None, int8: bool) -> Self:
        outputs, inputs = weight.shape
        padded = -(-outputs // functions.panel_columns()) * functions.panel_columns()
        size = max(1, padded * (-(-inputs // 4) if int8 else inputs))
        bias = None if bias is None else bias.detach().float().contiguous()
        if int8:
            rows, scales = quantize_rows(weight.detach())
            panels = torch.empty(size, dtype=torch.int32)
            sums = torch.empty(outputs, dtype=torch.int32)
            of_rows = address(panels), address(sums)
            functions.pack_integers(address(rows), inputs, outputs, *of_rows)
            return cls(functions, (outputs, inputs), panels, scales.flatten(), sums, bias)
        rows, panels = weight.detach().contiguous(), torch.empty(size)
        functions.pack_floats(address(rows), inputs, outputs, address(panels))
        return cls(functions, (outputs, inputs), panels, None, None, bias)

    def part(self, first: int, count: int) -> "Packed | None":
        """The map of some outputs, in the same memory; None if they begin within a panel."""
        columns = self.functions.panel_columns()
        if first % columns:
            return None
        panels = self.panels[len(self.panels) // -(-self.outputs // columns) * (first // columns) :]
        of_outputs = (None if x is None else x[first : first + count] for x in self.held[1:])
        return Packed(self.functions, (count, self.inputs), panels, *of_outputs)

    def product(self, x: Tensor) -> Tensor:
        """x (R, K) float32 -> (R, O)."""
        x, y = x.contiguous(), x.new_empty(len(x), self.outputs)
        WORK.run(self.functions.outputs, self.struct, address(x), len(x), address(y))
        return y


def unpickled(shape: tuple[int, int], *held: Any) -> Packed:
    from seq2seq.decoding import native  # which needs this module

    return Packed(native.is_required(), shape, *held)


class Packer:
    """Packs the linear maps of a model.

    Args:
        made: those of the same maps in the same order, packed by another process.

    Attributes:
        made: in the order of their making.
        known: the part of each map.
    """

    def __init__(self, functions: CDLL, int8: bool, made: Iterable[Packed] = ()):
        self.functions, self.int8 = functions, int8
        self._given = iter(made)
        self.made: list[Packed] = []
        self.known: dict[nn.Module, Packed] = {}

    def __call__(self, *maps: Any) -> Packed:
        """Several maps of the same inputs as one, of which each is a part."""
        whole = next(self._given, None) or self._packed(*maps)
        self.made.append(whole)
        first = 0
        for each in maps:
            part = whole.part(first, each.out_features)
            if part is not None:
                self.known[each] = part
            first += each.out_features
        return whole

    def _packed(self, *maps: Any) -> Packed:
        biases = [torch.zeros(m.out_features) if m.bias is None else m.bias for m in maps]
        bias = torch.cat(biases) if any(m.bias is not None for m in maps) else None
        return Packed.of(self.functions, torch.cat([m.weight for m in maps]), bias, self.int8)


class NativeLinear(nn.Module):
    """A linear map computed by the C, (..., K) -> (..., O) in the type of the input. On a CPU only,
    without gradients, and never saved: it is made from an `nn.Linear`, which stays unchanged.
    """

    def __init__(self, packed: Packed, weight: Tensor):
        super().__init__()
        self.packed, self.bias, self.given = packed, packed.bias, weight.detach()
        self.out_features, self.in_features = weight.shape

    @classmethod
    def of(cls, packer: Packer, linear: nn.Linear) -> Self:
        """The layer, in the same memory if it is packed already."""
        return cls(packer.known.get(linear) or packer(linear), linear.weight)

    @cached_property
    def weight(self) -> Tensor:
        """The matrix (O, K) as it multiplies, for code that does not call the layer."""
        if self.packed.scales is None:
            return self.given
        integers, scales = quantize_rows(self.given)
        return integers * scales

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().reshape(-1, self.in_features)
        y = self.packed.product(rows.float())
        return y.view(*x.shape[:-1], self.out_features).to(x.dtype)
