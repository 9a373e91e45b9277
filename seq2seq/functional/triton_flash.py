"""Flash attention by Triton kernels. Importing this module imports Triton.

The formulas are those of `flash`, which gives the same results, including dropout.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from seq2seq.functional.dropout import divide, keep_threshold
from seq2seq.functional.flash import (
    FlashInputs,
    FlashKernels,
    FlashSlopes,
    flash_additive_attention,
    flash_attention,
)
from seq2seq.functional.online_softmax import Outputs
from seq2seq.functional.triton.backward import differentiate_blocks
from seq2seq.functional.triton.forward import attend_blocks
from seq2seq.functional.triton.launch import check_tensor, sizes_of
from seq2seq.functional.triton.tiles import dropout_arguments, tile_arguments


def attend_on_gpu(given: FlashInputs) -> tuple[Tensor, Tensor]:
    """Attention in one kernel.

    Raises: ConfigError if the tensors are not on a GPU and Triton's interpreter is not in use.
    """
    tiling, q, k, v, u, _, _ = given
    check_tensor(q)
    sizes, tiles = sizes_of(q, v, u is not None), tiles_in_kernels(given)
    with torch.cuda.device_of(q):
        return attend_blocks(tiling.scale, u, q, k, v, tiles, sizes)


def differentiate_on_gpu(given: FlashInputs, outputs: Outputs, bias_learns: bool) -> FlashSlopes:
    """The gradient of `attend_on_gpu` in two kernels, or three with a learnt bias."""
    tiling, q, k, v, u, bias, _ = given
    sizes, tiles = sizes_of(q, v, u is not None), tiles_in_kernels(given)
    with torch.cuda.device_of(q):
        return differentiate_blocks(
            tiling.scale, u, q, k, v, outputs, tiles, bias if bias_learns else None, sizes
        )


def tiles_in_kernels(given: FlashInputs) -> tuple[Any, ...]:
    """The arguments tiles, mask, bias and dropout, by which a kernel finds and hides its tiles."""
    tiling, q, k, _, _, bias, mask = given
    p = tiling.dropout
    dropout = dropout_arguments(p, keep_threshold(p), divide(tiling.seed)) if p > 0 else None
    return *tile_arguments((*q.shape[:3], k.shape[2]), tiling.causal, mask, bias), dropout


KERNELS = FlashKernels(attend_on_gpu, differentiate_on_gpu)
# The functions of `flash` by Triton kernels, which keep a hidden layer in registers and ignore the
# given sizes of tiles.
triton_attention = partial(flash_attention, kernels=KERNELS)
triton_additive_attention = partial(flash_additive_attention, kernels=KERNELS)
