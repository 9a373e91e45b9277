"""Target tokens per second of training, beside the plain loop, and as a share of the floor."""

from collections.abc import Callable, Iterator

import torch
from benchmarking import interleave
from decoding_bench.floor import Floor, Step
from plain_transformer import ModelSize, Plain, our_model
from torch import Tensor, nn

from gpu_bench.models import BASE, BIG, TINY, middle, products_a_second, random_batch, seconds
from gpu_bench.rows import Row
from seq2seq.base.symbols import PAD
from seq2seq.data.batches.batch import Batch
from seq2seq.training.loss import batch_loss

UPDATES, ROUNDS, SMOOTHING = 5, 4, 0.1
Loss = Callable[[Batch], Tensor]


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    rate = products_a_second(device, tiny)
    yield Row("product of 8192 x 8192 in bfloat16", f"{rate / 1e12:,.3g} TFLOP/s")
    sizes = {"tiny": TINY} if tiny else {"transformer_base": BASE, "transformer_big": BIG}
    vocabulary, sentences = (100, 4) if tiny else (32_000, 512)
    for name, size in sizes.items():
        batch = random_batch(sentences, 24, 31, vocabulary, device)
        yield from compare(name, size, vocabulary, batch, rate)


def compare(
    name: str, size: ModelSize, vocabulary: int, batch: Batch, rate: float
) -> Iterator[Row]:
    """Ours and the plain loop with the same batch, in turn."""
    device = batch.source.device
    ours, plain = our_model(size, vocabulary).to(device), Plain(size, vocabulary).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=SMOOTHING, ignore_index=PAD)

    def our_loss(batch: Batch) -> Tensor:
        return batch_loss(ours, batch, SMOOTHING).smoothed / batch.total

    def plain_loss(batch: Batch) -> Tensor:
        logits = plain(batch.source, batch.target[:, :-1])
        loss: Tensor = criterion(logits.flatten(0, 1), batch.target[:, 1:].flatten().long())
        return loss

    updates = {
        "ours": updater(ours, our_loss, batch),
        "plain loop": updater(plain, plain_loss, batch),
    }
    measured = interleave(updates, ROUNDS, 1)
    of_source = int((batch.source != PAD).sum())
    # A multiply-add is two operations, and its two gradients are two more each.
    work = 6 * Floor(ours).multiplications([Step(True, of_source), Step(False, batch.tokens)])
    floor = batch.tokens * rate / work
    for who, times in measured.items():
        speeds = [batch.tokens * UPDATES / each for each in times]
        told = f"{middle(speeds)} target tokens/s, {max(speeds) / floor:.0%} of the floor"
        yield Row(f"{name}, {batch.tokens:,} tokens an update, bf16: {who}", told)
    yield Row(f"{name}: floor, products alone at that rate", f"{floor:,.0f} target tokens/s")


def updater(model: nn.Module, loss: Loss, batch: Batch) -> Callable[[int], float]:
    """A function that makes some updates and returns their seconds."""
    device = batch.source.device
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def update() -> None:
        for _ in range(UPDATES):
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16):
                value = loss(batch)
            torch.autograd.backward(value)
            optimizer.step()

    return lambda _: seconds(update, device)
