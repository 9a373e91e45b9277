"""Islands of float32: where half precision would lose what is added up or compared."""

import torch
from torch import Tensor


def widened(x: Tensor) -> Tensor:
    """x in float32, or in float64 if it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
