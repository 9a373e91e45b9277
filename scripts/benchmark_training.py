"""Measure training side by side: this toolkit and a plain loop over torch.nn.Transformer.

    python scripts/benchmark_training.py speed   --train ../shared/data/multi30k/train
    python scripts/benchmark_training.py memory  --train ...
    python scripts/benchmark_training.py quality --train ... --valid ...

`speed`: the same batches in turn through every candidate; target tokens a second, median of steps.
`memory`: each candidate in a process of its own; the peak of resident memory over what the imports
took, with MALLOC_MMAP_THRESHOLD_=65536 so that freed memory goes back to the system.
`quality`: float32 and bfloat16 from the same seed over the same updates; the validation loss.

Both loops are bare: model, loss, optimizer, without logging, schedule or validation, so the figures
compare what is inside an update. Without --train it reads the embedded corpus. The machine must be
idle; --anyway measures all the same, and the report says how busy it was.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2seq.environment import keep_few_kernels, wait_briefly

wait_briefly()  # before torch, as in training
keep_few_kernels()

import torch  # noqa: E402
from benchmarking import await_idle, conditions, foreign_load, interleave, spread  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.optim.lr_scheduler import LinearLR  # noqa: E402

from seq2seq.data.batch import Batch  # noqa: E402
from seq2seq.data.batching import BatchLoader, eval_batches  # noqa: E402
from seq2seq.data.corpus import Corpus  # noqa: E402
from seq2seq.data.prepare import DataOptions, prepare  # noqa: E402
from seq2seq.functional import sinusoid  # noqa: E402
from seq2seq.models import Seq2Seq, build_model  # noqa: E402
from seq2seq.symbols import PAD  # noqa: E402
from seq2seq.training.loss import batch_loss  # noqa: E402

DIM, FFN, LAYERS, HEADS, DROPOUT, SMOOTHING, LR = 256, 1024, 3, 4, 0.1, 0.1, 1e-3
CANDIDATES = ("plain", "ours", "ours-bf16")


class Plain(nn.Module):
    """What a tutorial writes: embeddings, sinusoids, torch.nn.Transformer, a projection."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, DIM), nn.Embedding(vocabulary, DIM)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            DIM, HEADS, LAYERS, LAYERS, FFN, DROPOUT, batch_first=True, norm_first=True
        )
        self.output = nn.Linear(DIM, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self._embed(self.source, source),
            self._embed(self.target, target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.output(hidden)

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        positions = sinusoid(torch.arange(ids.shape[1]), DIM)
        return self.dropout(embedding(ids) * math.sqrt(DIM) + positions)


@dataclass
class Trainer:
    """One candidate: its model, its optimizer, and what an update of it is."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[Batch], Tensor]

    def update(self, batch: Batch) -> float:
        """One update. Returns: seconds."""
        start = time.perf_counter()
        self.optimizer.zero_grad()
        self.loss(batch).backward()
        self.optimizer.step()
        return time.perf_counter() - start


def build_trainer(name: str, vocabulary: int, seed: int) -> Trainer:
    torch.manual_seed(seed)
    if name == "plain":
        plain = Plain(vocabulary)
        criterion = nn.CrossEntropyLoss(label_smoothing=SMOOTHING, ignore_index=PAD)

        def plain_loss(batch: Batch) -> Tensor:
            logits = plain(batch.source, batch.target[:, :-1])
            return criterion(logits.flatten(0, 1), batch.target[:, 1:].flatten())

        return Trainer(plain, torch.optim.Adam(plain.parameters(), lr=LR), plain_loss)
    model = our_model(vocabulary)

    def our_loss(batch: Batch) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=name == "ours-bf16"):
            return batch_loss(model, batch, SMOOTHING)[0].smoothed / batch.total

    return Trainer(model, torch.optim.Adam(model.parameters(), lr=LR, fused=True), our_loss)


def our_model(vocabulary: int) -> Seq2Seq:
    """The same sizes, dropout in the same places, and no matrix shared, as in the plain loop."""
    attention = {
        "name": "multihead",
        "num_heads": HEADS,
        "num_kv_heads": HEADS,
        "score": "scaled_dot",
        "kernel": "auto",
        "project": True,
        "bias": True,
        "dropout": DROPOUT,
    }
    config = {
        "model": {
            "name": "transformer",
            "dim": DIM,
            "encoder_layers": LAYERS,
            "decoder_layers": LAYERS,
            "ffn_dim": FFN,
            "tie": "none",
            "dropout": DROPOUT,
        },
        "position": {"name": "sinusoidal"},
        "attention": dict.fromkeys(("encoder", "decoder", "cross"), attention),
    }
    return build_model(config, vocabulary, vocabulary).train()


def speed(options: argparse.Namespace) -> None:
    train, _, vocabulary = corpora(options)
    batches = list(some_batches(train, options, options.rounds + options.warmup))
    trainers = {name: build_trainer(name, vocabulary, options.seed) for name in CANDIDATES}
    runs = {
        name: lambda number, trainer=trainer: trainer.update(batches[number])
        for name, trainer in trainers.items()
    }
    if not options.anyway:
        await_idle()
    with foreign_load() as load:
        seconds = interleave(runs, options.rounds, options.warmup)
    totals = [batch.total for batch in batches[options.warmup :]]
    print(conditions())
    print(f"other processes used {load.cores:.2f} cores meanwhile")
    rates = {
        name: [total / each for total, each in zip(totals, spent, strict=True)]
        for name, spent in seconds.items()
    }
    base = statistics.median(rates["plain"])
    print("\n| candidate | target tokens/s, median (lowest - highest) | ratio |\n|---|---|---|")
    for name, values in rates.items():
        print(f"| {name} | {spread(values)} | {statistics.median(values) / base:.2f} |")


def memory(options: argparse.Namespace) -> None:
    """Each candidate in a process of its own."""
    corpora(options)  # what is cached now is learnt in none of them
    found = {}
    for name in CANDIDATES:
        command = [sys.executable, *sys.argv, "--candidate", name]
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found[name] = json.loads(done.stdout)
    print(conditions())
    print("\n| candidate | peak less imports, MB | ratio |\n|---|---|---|")
    for name, bytes_ in found.items():
        print(f"| {name} | {bytes_ / 2**20:,.0f} | {bytes_ / found['plain']:.2f} |")


def memory_of(options: argparse.Namespace) -> None:
    """Peak resident bytes of some updates, less what stood after the imports."""
    imported = resident()
    train, _, vocabulary = corpora(options)
    trainer = build_trainer(options.candidate, vocabulary, options.seed)
    for batch in some_batches(train, options, options.rounds):
        trainer.update(batch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(peak - imported))


def resident() -> int:
    """Bytes of memory this process holds now (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").split("\n"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not say how much memory a process holds")


def quality(options: argparse.Namespace) -> None:
    train, valid, vocabulary = corpora(options)
    print(conditions())
    print(f"\n| candidate | validation loss after {options.updates} updates |\n|---|---|")
    for name in CANDIDATES[1:]:
        trainer = build_trainer(name, vocabulary, options.seed)
        schedule = LinearLR(trainer.optimizer, 0.01, total_iters=options.updates // 5)
        for batch in some_batches(train, options, options.updates):
            trainer.update(batch)
            schedule.step()
        print(f"| {name} | {validation_loss(trainer.model, valid, options):.4f} |", flush=True)


def validation_loss(model: nn.Module, valid: Corpus, options: argparse.Namespace) -> float:
    """Nats a token, in float32, whatever the model was trained in."""
    assert isinstance(model, Seq2Seq)
    model.eval()
    nll = tokens = 0.0
    with torch.no_grad():
        for batch in eval_batches(valid, max_tokens=options.max_tokens):
            loss, count = batch_loss(model, batch, 0.0)
            nll, tokens = nll + loss.nll.item(), tokens + count
    return nll / tokens


def corpora(options: argparse.Namespace) -> tuple[Corpus, Corpus, int]:
    """Training and validation pairs, encoded, and the size of their vocabulary."""
    data = DataOptions(
        "benchmark",
        options.source,
        options.target,
        options.train,
        options.valid,
        max_tokens=options.max_tokens,
    )
    recipe = {"name": "bpe", "vocab_size": options.vocabulary, "joint": True}
    prepared = prepare(data, recipe)
    return prepared.train, prepared.valid, prepared.tokenizers.target.size


def some_batches(train: Corpus, options: argparse.Namespace, count: int) -> Iterator[Batch]:
    """The first batches of training, over as many epochs as it takes."""
    loader = BatchLoader(train, max_tokens=options.max_tokens, seed=options.seed)
    while True:
        for batch in loader:
            if count == 0:
                return
            count -= 1
            yield batch


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("speed", "memory", "quality"))
    parser.add_argument("--train", default="data/demo/train", help="prefix of the training files")
    parser.add_argument("--valid", default="data/demo/valid", help="prefix, for `quality`")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--max-tokens", type=int, default=4096, help="padded pieces of a batch")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=20, help="updates that count")
    parser.add_argument("--warmup", type=int, default=3, help="updates before them")
    parser.add_argument("--updates", type=int, default=500, help="of `quality`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    parser.add_argument("--candidate", choices=CANDIDATES, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    if options.candidate is not None:
        memory_of(options)
    else:
        {"speed": speed, "memory": memory, "quality": quality}[options.what](options)


if __name__ == "__main__":
    main()
