"""Updates of our Transformer in each way to compute them, and of a plain loop."""

import copy
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import torch
from plain_transformer import Plain
from torch import Tensor, nn

from seq2seq.base.symbols import PAD
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.packed import Capacity, pack_batch
from seq2seq.data.batches.transfer import map_tensors
from seq2seq.models import Seq2Seq
from seq2seq.training.compilation import compile_layers
from seq2seq.training.loss import batch_loss
from seq2seq.training.optimizer import clip_gradients

SMOOTHING, LIMIT = 0.1, 1.0
Update = Callable[[Batch], Any]


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)


def updater(model: nn.Module, loss_of: Callable[[Batch], Tensor], stance: str) -> Update:
    """A function that makes one update in bfloat16.

    Args:
        stance: `default` to compute compiled functions compiled, `force_eager` to compute them all
            as they are written.
    """
    optimizer = adam(model)

    def update(batch: Batch) -> None:
        device = batch.source.device.type
        optimizer.zero_grad()
        with torch.compiler.set_stance(stance), torch.autocast(device, torch.bfloat16):
            loss = loss_of(batch)
        torch.autograd.backward(loss)
        clip_gradients(model.parameters(), LIMIT)
        optimizer.step()

    return update


def our_update(model: Seq2Seq, compiled: bool, stance: str = "default") -> Update:
    """An update of ours, with compiled layers or without; the loss is compiled on a GPU unless the
    stance is `force_eager`.
    """
    ours = copy.deepcopy(model)
    if compiled:
        compile_layers(ours)
    return updater(ours, lambda b: batch_loss(ours, b, SMOOTHING).smoothed / b.total, stance)


def packed_update(model: Seq2Seq, largest: Batch) -> Update:
    """An update over packed tokens, on a GPU one graph.

    Args:
        model: a model without dropout of attention weights.
        largest: a batch that no other exceeds.
    """
    from seq2seq.training.packed import PackedUpdate  # needs Lightning

    ours = copy.deepcopy(model)
    rows, length = largest.source.shape
    capacity = Capacity.of(rows * length, length, 1)
    plan: Any = SimpleNamespace(
        loss=SimpleNamespace(label_smoothing=SMOOTHING),
        trainer=SimpleNamespace(gradient_clip_val=LIMIT),
    )
    step = PackedUpdate(ours, adam(ours), plan)

    made: dict[int, Batch] = {}

    def pack(batch: Batch) -> Batch:
        source, target, places = (x.cpu() for x in (batch.source, batch.target, batch.places))
        packed = pack_batch(source, target, places, capacity)
        return batch._replace(packed=map_tensors(packed, lambda x: x.to(batch.source.device)))

    def update(batch: Batch) -> None:
        if id(batch) not in made:
            made[id(batch)] = pack(batch)
        with torch.autocast(batch.source.device.type, torch.bfloat16):
            step(made[id(batch)], True)

    return update


def plain_update(model: Plain, compiled: bool) -> Update:
    plain = copy.deepcopy(model)
    network = torch.compile(plain, dynamic=True) if compiled else plain
    criterion = nn.CrossEntropyLoss(label_smoothing=SMOOTHING, ignore_index=PAD)

    def loss_of(batch: Batch) -> Tensor:
        scores = network(batch.source, batch.target[:, :-1])
        loss: Tensor = criterion(scores.flatten(0, 1), batch.target[:, 1:].flatten().long())
        return loss

    return updater(plain, loss_of, "default")


def make_all(update: Update, batches: Iterable[Batch]) -> None:
    for batch in batches:
        update(batch)
