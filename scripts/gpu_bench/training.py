"""Target tokens per second of training, each step on and off, beside a plain loop and the floor."""

import itertools
from collections.abc import Iterator
from importlib.util import find_spec

import torch
from decoding_bench.floor import Floor, Step
from plain_transformer import ModelSize, Plain, our_model

from gpu_bench.models import BASE, BIG, TINY, middle, products_a_second, random_batch, seconds
from gpu_bench.rows import Row
from gpu_bench.updates import make_all, our_update, packed_update, plain_update
from seq2seq.base.symbols import PAD
from seq2seq.comparison.conditions import interleave
from seq2seq.data.batches.batch import Batch

UPDATES, ROUNDS = 5, 4


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    rate = products_a_second(device, tiny)
    sizes = {"tiny": TINY} if tiny else {"transformer_base": BASE, "transformer_big": BIG}
    vocabulary, sentences = (100, 4) if tiny else (32_000, 512)
    for name, size in sizes.items():
        batch = random_batch(sentences, 24, 31, vocabulary, device)
        yield from compare(name, size, vocabulary, batch, rate, compiled=not tiny)


def compare(
    name: str, size: ModelSize, vocabulary: int, batch: Batch, rate: float, compiled: bool
) -> Iterator[Row]:
    """All ways with the same batch, in turn.

    Args:
        compiled: False to leave out what takes a compiler seconds.
    """
    device = batch.source.device
    ours, plain = our_model(size, vocabulary).to(device), Plain(size, vocabulary).to(device)
    whole = our_model(size, vocabulary, dropout=0.0).to(device)
    updates = {
        "ours, eager": our_update(ours, False, "force_eager"),
        "ours, loss compiled": our_update(ours, False),
        "plain loop, eager": plain_update(plain, False),
    }
    if find_spec("lightning") is not None:
        updates["ours, packed, without dropout of attention"] = packed_update(whole, batch)
    if compiled:
        updates["ours, layers compiled"] = our_update(ours, True)
        updates["plain loop, compiled"] = plain_update(plain, True)
    many = [*itertools.repeat(batch, UPDATES)]
    timed = {
        who: lambda _, update=update: seconds(lambda: make_all(update, many), device)
        for who, update in updates.items()
    }
    of_source = int((batch.source != PAD).sum())
    # A multiply-add is two operations, and its two gradients are two more each.
    work = 6 * Floor(ours).multiplications([Step(True, of_source), Step(False, batch.tokens)])
    floor = batch.tokens * rate / work
    for who, times in interleave(timed, ROUNDS, 1).items():
        speeds = [batch.tokens * UPDATES / each for each in times]
        told = f"{middle(speeds)} target tokens/s, {max(speeds) / floor:.0%} of the floor"
        yield Row(f"{name}, {batch.tokens:,} tokens an update, bf16: {who}", told)
    yield Row(f"{name}: floor, products alone at that rate", f"{floor:,.0f} target tokens/s")
