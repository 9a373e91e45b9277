"""Models, batches and times of several parts. All texts are made of random pieces."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from decoding_bench.engines import search_of
from plain_transformer import ModelSize, our_model
from torch import Tensor

from seq2seq.base.symbols import BOS
from seq2seq.data.batches.batch import Batch, pair_batch, with_end
from seq2seq.data.batches.transfer import map_tensors
from seq2seq.decoding.engine import Engine
from seq2seq.decoding.options import Cache
from seq2seq.decoding.request import SentenceRequest
from seq2seq.models import Seq2Seq, build_model

BASE, BIG = ModelSize(512, 2048, 6, 8), ModelSize(1024, 4096, 6, 16)
SMALL, TINY = ModelSize(256, 1024, 3, 4), ModelSize(32, 64, 1, 4)
FIRST = 4  # of the pieces that are no symbols


def rnn(dim: int, vocabulary: int) -> Seq2Seq:
    """Bahdanau's RNN."""
    cross = {"name": "multihead", "num_heads": 1, "score": "additive", "project": False}
    config = {
        "model": {"name": "rnn", "dim": dim, "cell": "gru", "tie": "target", "dropout": 0.0},
        "position": {"name": "none"},
        "attention": {"cross": cross},
    }
    return build_model(config, vocabulary, vocabulary).train()


def decided_model(size: ModelSize, vocabulary: int, **attention: Any) -> Seq2Seq:
    """A model in evaluation mode with weights so large that its translations depend on their
    sources.
    """
    model = our_model(size, vocabulary, **attention).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=3 * size.dim**-0.5)
    return model


def translate_rows(
    model: Seq2Seq, beams: int, limit: int, rows: list[list[int]], at_once: int, cache: Cache
) -> list[list[int]]:
    """The best hypothesis of each row of pieces, with at most that many sentences in a batch."""
    search = search_of(beams, limit)
    engine = Engine(model, search, cache=cache, rows=at_once * beams)
    requests = engine.translate(SentenceRequest(row) for row in rows)
    return [(request.hypotheses or [])[0].ids for request in requests]


def random_rows(count: int, shortest: int, longest: int, vocabulary: int) -> list[list[int]]:
    """`count` rows of pieces, of random lengths, without an end."""
    lengths = torch.randint(shortest, longest + 1, (count,)).tolist()
    return [torch.randint(FIRST, vocabulary, (length,)).tolist() for length in lengths]


def random_batch(
    count: int, shortest: int, longest: int, vocabulary: int, device: torch.device
) -> Batch:
    """A batch of `count` pairs of random lengths."""
    source, target = (random_rows(count, shortest, longest, vocabulary) for _ in range(2))
    batch = pair_batch(with_end(source), with_end(target, BOS), 0, range(count))
    return map_tensors(batch._replace(total=batch.tokens), lambda x: x.to(device))


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """The time of a run, and of all work that it leaves to the device."""
    start = now(device)
    run()
    return now(device) - start


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def products_a_second(
    device: torch.device, tiny: bool, shape: tuple[int, int, int] | None = None
) -> float:
    """FLOP/s of a product in bfloat16, the best of ten.

    Args:
        shape: rows, inner width and columns; None for a large square.
    """
    rows, inner, columns = shape or (64 if tiny else 8192,) * 3
    one = torch.randn(rows, inner, device=device, dtype=torch.bfloat16)
    other = torch.randn(inner, columns, device=device, dtype=torch.bfloat16)

    def multiply() -> Tensor:
        return one @ other

    multiply()
    return 2 * rows * inner * columns / min(seconds(multiply, device) for _ in range(10))


def middle(values: list[float]) -> str:
    """`median (lowest - highest)`."""
    return f"{statistics.median(values):,.3g} ({min(values):,.3g} - {max(values):,.3g})"
