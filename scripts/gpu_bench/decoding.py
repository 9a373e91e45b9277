"""Decoding: steps of a few shapes, and 3,000 sentences, with graphs and without; beside Hugging
Face's `generate` and CTranslate2, with the same weights.
"""

import copy
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from decoding_bench import marian
from decoding_bench.engines import search_of
from plain_transformer import our_model

from gpu_bench.models import BASE, TINY, middle, random_rows, seconds
from gpu_bench.rows import LEFT_OUT, Row, judge
from seq2seq.base.symbols import EOS, NAMES, PAD
from seq2seq.comparison.conditions import interleave
from seq2seq.data.batches.padding import pad_rows
from seq2seq.decoding import Engine, SentenceRequest, build_search
from seq2seq.decoding.options import Cache
from seq2seq.decoding.precision import with_precision
from seq2seq.decoding.search import Search
from seq2seq.interchange.ctranslate2 import model_spec
from seq2seq.interchange.imported import NEVER
from seq2seq.models import Seq2Seq

CACHES: dict[Cache, str] = {"static": "a graph a step", "paged": "many launches a step"}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Rows = list[list[int]]
Run = Callable[[], Rows]


class Shape(NamedTuple):
    """Sentences of one length that are decoded at once."""

    sentences: int
    beams: int
    steps: int
    rounds: int = 3

    def __str__(self) -> str:
        return f"{self.sentences} x {self.beams}"


SHAPES = (Shape(64, 5, 30), Shape(1, 1, 30, 10), Shape(1, 5, 30, 10))


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    size, vocabulary = (TINY, 100) if tiny else (BASE, 32_000)
    model = our_model(size, vocabulary, tie="all").eval()
    with torch.no_grad():  # every translation has the same length, whatever the rounding
        model.embeddings.output.bias[EOS] = NEVER
    # Copies, since graphs need weights that stay where they are.
    models = {name: with_precision(copy.deepcopy(model).to(device), name) for name in DTYPES}
    for shape in (Shape(4, 2, 6, 1), Shape(1, 1, 6, 1)) if tiny else SHAPES:
        rows = sources(shape.sentences, shape.steps, shape.steps, vocabulary)
        yield from measure_steps(model, models, rows, shape, device)
    count, at_once = (12, 4) if tiny else (3000, 512)
    rows = sources(count, 5, 12 if tiny else 60, vocabulary)
    yield from measure_text(models, rows, at_once, device)


def sources(count: int, shortest: int, longest: int, vocabulary: int) -> Rows:
    return [[*row, EOS] for row in random_rows(count, shortest - 1, longest - 1, vocabulary)]


def measure_steps(
    model: Seq2Seq, models: dict[str, Seq2Seq], rows: Rows, shape: Shape, device: torch.device
) -> Iterator[Row]:
    """Milliseconds per step of a batch that starts and ends as a whole."""
    search = search_of(shape.beams, shape.steps)
    candidates: dict[str, Run] = {}
    for precision, converted in models.items():
        for cache, told in CACHES.items():
            name = f"ours, {precision}, cache={cache}, {told}"
            candidates[name] = ours(converted, search, rows, cache)
    yield from add_hugging_face(candidates, model, rows, shape, device)
    if device.type == "cuda":
        yield from add_ctranslate2(candidates, model, rows, shape)
    found: dict[str, Rows] = {}
    for name, times in timed(candidates, found, shape.rounds, device).items():
        same = sum(a == b for a, b in zip(found[name], next(iter(found.values())), strict=True))
        told = f"{middle([1000 * each / shape.steps for each in times])} ms a step"
        yield Row(f"{shape}: {name}", f"{told}; {same} translations as in the first line")
    graphs, launches = (found[name] for name in candidates if name.startswith("ours, float32"))
    same = sum(a == b for a, b in zip(graphs, launches, strict=True))
    told = f"{same} of {len(rows)} translations are equal"
    yield judge(f"{shape}: with graphs and without, float32", told, same == len(rows))


def measure_text(
    models: dict[str, Seq2Seq], rows: Rows, at_once: int, device: torch.device
) -> Iterator[Row]:
    """Target tokens per second of sentences of many lengths, which join as others end."""
    options = {"length_ratio": 1.1, "length_extra": 1, "name": "beam", "beam_size": 5}
    search = build_search(options)
    candidates = {
        f"ours, {precision}, cache={cache}": ours(model, search, rows, cache, 5 * at_once)
        for precision, model in models.items()
        for cache in CACHES
    }
    found: dict[str, Rows] = {}
    for name, times in timed(candidates, found, 1, device).items():
        tokens = sum(len(row) + 1 for row in found[name])
        told = f"{tokens / min(times):,.0f} target tokens/s, {tokens:,} tokens"
        yield Row(f"{len(rows):,} sentences, 5 beams: {name}", told)


def timed(
    candidates: dict[str, Run], found: dict[str, Rows], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """The seconds of each round; the first, in which graphs are captured, does not count."""

    def measure(name: str) -> float:
        def keep() -> None:
            found[name] = candidates[name]()

        return seconds(keep, device)

    runs = {name: (lambda _, name=name: measure(name)) for name in candidates}
    return interleave(runs, rounds, 1)


def ours(
    model: Seq2Seq, search: Search, rows: Rows, cache: Cache, at_once: int | None = None
) -> Run:
    engine = Engine(model, search, cache=cache, rows=at_once or len(rows) * search.beams)

    def translate() -> Rows:
        requests = engine.translate(SentenceRequest(row) for row in rows)
        return [(request.hypotheses or [])[0].ids for request in requests]

    return translate


def add_hugging_face(
    candidates: dict[str, Run], model: Seq2Seq, rows: Rows, shape: Shape, device: torch.device
) -> Iterator[Row]:
    if find_spec("transformers") is None:
        yield Row("Hugging Face", "is missing: pip install transformers", LEFT_OUT)
        return
    for precision, dtype in DTYPES.items():
        built = marian.build(model).to(device, dtype)
        for cache in ("dynamic", "static"):
            run = theirs(built, rows, shape, device, cache)
            try:
                run()
            except Exception as error:  # whatever it is: their static cache may not fit their beams
                told = f"{type(error).__name__}: {str(error)[:200]}"
                yield Row(f"{shape}: Hugging Face, {cache} cache", told, LEFT_OUT)
                continue
            candidates[f"Hugging Face, {precision}, {cache} cache"] = run


def theirs(built: Any, rows: Rows, shape: Shape, device: torch.device, cache: str) -> Run:
    source = pad_rows(rows).to(device)

    @torch.no_grad()
    def generate() -> Rows:
        ids = built.generate(
            source,
            attention_mask=source != PAD,
            num_beams=shape.beams,
            max_new_tokens=shape.steps,
            length_penalty=1.0,
            do_sample=False,
            cache_implementation=cache,
        )
        result: Rows = ids[:, 1:].tolist()
        return result

    return generate


def add_ctranslate2(
    candidates: dict[str, Run], model: Any, rows: Rows, shape: Shape
) -> Iterator[Row]:
    try:
        import ctranslate2

        devices = ctranslate2.get_cuda_device_count()
    except ImportError:
        devices = 0
    if not devices:
        yield Row("CTranslate2", "is missing, or sees no GPU: pip install ctranslate2", LEFT_OUT)
        return
    names = [f"piece{i}" for i in range(model.embeddings.target.num_embeddings)]
    names[: len(NAMES)] = NAMES
    spec = model_spec(ctranslate2.specs, model)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.validate()
    ids = {name: i for i, name in enumerate(names)}
    texts = [[names[i] for i in row[:-1]] for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        for precision in DTYPES:
            engine = ctranslate2.Translator(folder, device="cuda", compute_type=precision)

            def translate(engine: Any = engine) -> Rows:
                results = engine.translate_batch(
                    texts,
                    beam_size=shape.beams,
                    length_penalty=1.0,
                    min_decoding_length=0,
                    max_decoding_length=shape.steps,
                    max_input_length=0,
                )
                return [[ids[name] for name in each.hypotheses[0]] for each in results]

            candidates[f"CTranslate2, {precision}"] = translate
