"""Parts of a global batch, averaged as Lightning and DDP average them, have the gradients of the
mean over all of its tokens.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.builders import TARGET_SIZE, assert_equal, small_model, source_batch
from torch.nn import functional as F

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import Batch, pair_batch
from seq2seq.training.module import TrainingModule

LENGTHS = [1, 2, 3, 5, 8, 13]  # target tokens of each sentence: parts weigh differently
SMOOTHING = 0.1


def batch_of(source: torch.Tensor, target: torch.Tensor, rows: list[int]) -> Batch:
    return pair_batch(source[rows], target[rows], sum(LENGTHS), rows)


def make_target() -> torch.Tensor:
    target = torch.full((len(LENGTHS), 1 + max(LENGTHS)), PAD)
    for row, length in zip(target, LENGTHS, strict=True):
        row[0] = BOS
        row[1 : 1 + length] = torch.randint(4, TARGET_SIZE, (length,))
        row[length] = EOS
    return target


@pytest.mark.parametrize(("steps", "devices"), [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_parts_of_a_batch_have_the_gradients_of_the_whole(steps: int, devices: int) -> None:
    model = small_model("transformer")
    source, target = source_batch(4, 7, 2, 5, 3, 6), make_target()
    inputs = list(model.parameters())

    logits = model.logits(model(source, target[:, :-1]).hidden)
    mean = F.cross_entropy(
        logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
    )
    expected = torch.autograd.grad(mean, inputs)

    options = SimpleNamespace(label_smoothing=SMOOTHING, r_drop=0.0, simcut=0.0)
    trainer = SimpleNamespace(accumulate_grad_batches=steps, world_size=devices)
    plan = SimpleNamespace(loss=options, trainer=SimpleNamespace(compile=False))
    module: Any = SimpleNamespace(model=model, guide=None, plan=plan, trainer=trainer)
    module.loss_of = partial(TrainingModule.loss_of, module)
    parts = steps * devices
    found = [torch.zeros_like(p) for p in inputs]
    for part in range(parts):
        batch = batch_of(source, target, [*range(len(LENGTHS))][part::parts])
        loss = TrainingModule.training_step(module, batch, 0)["loss"]
        for total, slope in zip(found, torch.autograd.grad(loss, inputs), strict=True):
            total += slope / parts  # the mean of the parts
    assert_equal(found, list(expected))
