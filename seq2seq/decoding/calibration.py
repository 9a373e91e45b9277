"""Calibration: the input magnitudes of linear maps, which fix int8 scales before decoding."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from seq2seq.base.symbols import EOS
from seq2seq.decoding.decoding_batch import decode
from seq2seq.decoding.greedy import Greedy
from seq2seq.models import Seq2Seq


def input_maxima(model: Seq2Seq, rows: Sequence[list[int]]) -> dict[str, float]:
    """The largest input magnitude of each linear map of a model while it translates.

    Args:
        model: model in evaluation mode, computed by torch.
        rows: sources as ids, without eos. Each is translated alone, greedily, so that padding does
            not count.

    Returns: maxima by name of the map, such as `encoder.0.feed.up`; 0 for unused maps.
    """
    maps = {name: each for name, each in model.named_modules() if isinstance(each, nn.Linear)}
    largest = dict.fromkeys(maps, 0.0)

    def note(name: str, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        largest[name] = max(largest[name], float(inputs[0].abs().max()))

    hooks = [each.register_forward_pre_hook(partial(note, name)) for name, each in maps.items()]
    try:
        for row in rows:
            decode(model, torch.tensor([[*row, EOS]]), Greedy(length_ratio=2.0, length_extra=20))
    finally:
        for hook in hooks:
            hook.remove()
    return largest
