"""A Transformer on packed tokens has the loss and the gradients of one on padded tokens."""

import pytest
import torch
from helpers.builders import TARGET_SIZE, every_other, small_model, source_batch
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.batch import Batch, pair_batch
from seq2seq.data.batches.packed import Capacity, pack_batch
from seq2seq.models.packed import read_packed
from seq2seq.models.transformer import Transformer
from seq2seq.training.loss import Loss, batch_loss, cross_entropy

SOURCES, TARGETS = (4, 7, 2, 5, 1), (3, 1, 6, 4, 2)
SMOOTHING = 0.1
CAPACITY = Capacity.of(48, 8, 1)


def batch_of_pairs() -> Batch:
    target = torch.full((len(TARGETS), 1 + max(TARGETS)), PAD)
    for row, length in zip(target, TARGETS, strict=True):
        row[0] = BOS
        row[1 : 1 + length] = torch.randint(4, TARGET_SIZE, (length,))
        row[length] = EOS
    return pair_batch(source_batch(*SOURCES), target, sum(TARGETS), range(len(TARGETS)))


def packed_loss(model: Transformer, batch: Batch, chunk: int | None = None) -> Loss:
    packed = pack_batch(batch.source, batch.target, batch.places, CAPACITY)
    hidden = read_packed(model, packed)
    output, labels = model.embeddings.output, packed.tokens[4].long()
    return cross_entropy(hidden, output, labels, smoothing=SMOOTHING, chunk=chunk, padded=True)


def slopes(loss: Loss, model: Transformer) -> list[Tensor]:
    return list(torch.autograd.grad(loss.smoothed, list(model.parameters())))


@pytest.mark.parametrize("attention", ["mha", "gqa", "mqa", "dot", "general"])
@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rope"])
@pytest.mark.parametrize("order", every_other(["pre", "post"]))
def test_packed_equals_padded(attention: str, position: str, order: str) -> None:
    model = small_model(
        "transformer", f"attn={attention}", f"position={position}", f"model.norm_order={order}"
    )
    assert isinstance(model, Transformer)
    batch = batch_of_pairs()
    expected, found = batch_loss(model, batch, SMOOTHING), packed_loss(model, batch, chunk=7)
    close = {"atol": 1e-10, "rtol": 1e-10}
    torch.testing.assert_close(found.smoothed, expected.smoothed, **close)
    torch.testing.assert_close(found.nll, expected.nll, **close)
    torch.testing.assert_close(slopes(found, model), slopes(expected, model), **close)


def test_padding_adds_exactly_nothing() -> None:
    """The vectors of padding change neither the loss nor a gradient, to the last bit."""
    model = small_model("transformer", "model.zero_start=true")
    assert isinstance(model, Transformer)
    batch = batch_of_pairs()
    packed = pack_batch(batch.source, batch.target, batch.places, CAPACITY)
    labels, output = packed.tokens[4].long(), model.embeddings.output
    hidden = read_packed(model, packed).detach()
    results = []
    for values in (hidden, hidden.masked_fill((labels == PAD)[:, None], 17.0)):
        values.requires_grad_()
        loss = cross_entropy(values, output, labels, smoothing=SMOOTHING, padded=True)
        inputs = [values, output.weight, output.bias]
        results.append([loss.smoothed, loss.nll, *torch.autograd.grad(loss.smoothed, inputs)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert not results[0][2][labels == PAD].any()
