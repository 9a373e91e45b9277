"""Milliseconds per step of beam search, beside Hugging Face's `generate`, with the same weights."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from decoding_bench import marian
from plain_transformer import our_model

from gpu_bench.models import BASE, TINY, middle, random_rows, seconds, translate_rows
from gpu_bench.rows import LEFT_OUT, Row
from seq2seq.base.symbols import EOS, PAD
from seq2seq.comparison.conditions import interleave
from seq2seq.data.batches.padding import pad_rows
from seq2seq.decoding.options import Cache
from seq2seq.decoding.precision import with_precision
from seq2seq.interchange.ctranslate2 import NEVER
from seq2seq.models import Seq2Seq

BEAMS, ROUNDS = 5, 3
Rows = list[list[int]]


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    size, vocabulary, sentences, steps = (TINY, 100, 4, 6) if tiny else (BASE, 32_000, 64, 30)
    model = our_model(size, vocabulary, tie="all").eval()
    with torch.no_grad():  # every translation has the same length, whatever the rounding
        model.embeddings.output.bias[EOS] = NEVER
    rows = [[*row, EOS] for row in random_rows(sentences, steps - 1, steps - 1, vocabulary)]
    candidates: dict[str, Callable[[], Rows]] = {}
    caches: tuple[Cache, ...] = ("dense", "paged")
    for precision in ("float32", "bfloat16"):
        moved = with_precision(model.to(device), precision)
        for cache in caches:
            candidates[f"ours, {precision}, cache={cache}"] = ours(moved, rows, cache, steps)
    if find_spec("transformers") is None:
        yield Row("Hugging Face", "is missing: pip install transformers", LEFT_OUT)
    else:
        for dtype in (torch.float32, torch.bfloat16):
            name = f"Hugging Face, {str(dtype).removeprefix('torch.')}"
            candidates[name] = theirs(model, rows, steps, device, dtype)
    yield from measure(candidates, steps, device, f"{sentences} sentences, {BEAMS} beams")


def measure(
    candidates: dict[str, Callable[[], Rows]], steps: int, device: torch.device, title: str
) -> Iterator[Row]:
    found: dict[str, Rows] = {}

    def timed(name: str) -> float:
        def keep() -> None:
            found[name] = candidates[name]()

        return seconds(keep, device)

    runs = {name: (lambda _, name=name: timed(name)) for name in candidates}
    first = next(iter(candidates))
    for name, times in interleave(runs, ROUNDS, 1).items():
        same = sum(a == b for a, b in zip(found[name], found[first], strict=True))
        told = f"{middle([1000 * each / steps for each in times])} ms a step"
        yield Row(f"{title}: {name}", f"{told}; {same} translations as in the first line")


def ours(model: Seq2Seq, rows: Rows, cache: Cache, steps: int) -> Callable[[], Rows]:
    return lambda: translate_rows(model, BEAMS, steps, rows, len(rows), cache)


def theirs(
    model: Seq2Seq, rows: Rows, steps: int, device: torch.device, dtype: torch.dtype
) -> Callable[[], Rows]:
    built = marian.build(model.cpu()).to(device, dtype)
    model.to(device)
    source = pad_rows(rows).to(device)

    @torch.no_grad()
    def generate() -> Rows:
        ids = built.generate(
            source,
            attention_mask=source != PAD,
            num_beams=BEAMS,
            max_new_tokens=steps,
            length_penalty=1.0,
            do_sample=False,
        )
        result: Rows = ids[:, 1:].tolist()
        return result

    return generate
