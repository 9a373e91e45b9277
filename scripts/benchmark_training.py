"""Measure training side by side: this toolkit and a plain loop over torch.nn.Transformer.

    python scripts/benchmark_training.py speed   --train ../shared/data/multi30k/train
    python scripts/benchmark_training.py memory  --train ...
    python scripts/benchmark_training.py quality --train ... --valid ...

There are five candidates, each in a separate process: the plain loop as in a tutorial, the same
with fused Adam, and with fused Adam and bfloat16 (autocast); ours in float32 and in bfloat16.

`speed`: target tokens per second. The candidates take turns, update by update, with the same
batches.
`memory`: peak resident memory, minus that of the imports. The candidates run one after the other,
with MALLOC_MMAP_THRESHOLD_=65536 so that freed memory is returned to the system.
`quality`: validation loss in float32 and in bfloat16, after the same updates from the same seed.

Both loops consist only of model, loss and optimizer, without logging, schedule or validation, so
the figures compare the updates themselves. Without --train, the built-in corpus is used. The
machine must be idle; --anyway measures on a busy machine, and the report gives its load.
"""

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

from seq2seq.base.environment import limit_kernel_cache, limit_thread_spinning

limit_thread_spinning()  # before torch, as in training
limit_kernel_cache()

import torch  # noqa: E402
from benchmarking import cpu_seconds, resident, spread  # noqa: E402
from plain_transformer import ModelSize, Plain, our_model  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.optim.lr_scheduler import LinearLR  # noqa: E402

from seq2seq.base.symbols import PAD  # noqa: E402
from seq2seq.comparison.conditions import (  # noqa: E402
    await_idle,
    conditions,
    foreign_load,
    interleave,
)
from seq2seq.data.batches.batch import Batch  # noqa: E402
from seq2seq.data.batches.batch_loader import BatchLoader, EvalBatches  # noqa: E402
from seq2seq.data.corpus.corpus import Corpus  # noqa: E402
from seq2seq.data.options import DataOptions  # noqa: E402
from seq2seq.data.prepare import prepare  # noqa: E402
from seq2seq.models import Seq2Seq  # noqa: E402
from seq2seq.training.loss import batch_loss  # noqa: E402

SIZE, SMOOTHING, LR = ModelSize(256, 1024, 3, 4), 0.1, 1e-3
# Our candidates, with the baselines that each is compared with.
RIVALS = {"ours": ("plain", "plain-fused"), "ours-bf16": ("plain", "plain-bf16")}
CANDIDATES = ("plain", "plain-fused", "plain-bf16", "ours", "ours-bf16")


@dataclass
class Trainer:
    """One candidate: its model, its optimizer and its loss."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[Batch], Tensor]

    def update(self, batch: Batch) -> float:
        """Do one update. Returns: the seconds it took."""
        start = time.perf_counter()
        self.optimizer.zero_grad()
        torch.autograd.backward(self.loss(batch))
        self.optimizer.step()
        return time.perf_counter() - start


def build_trainer(name: str, vocabulary: int, seed: int) -> Trainer:
    torch.manual_seed(seed)
    bf16 = name.endswith("bf16")
    if name.startswith("plain"):
        plain = Plain(SIZE, vocabulary)
        criterion = nn.CrossEntropyLoss(label_smoothing=SMOOTHING, ignore_index=PAD)

        def plain_loss(batch: Batch) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                logits = plain(batch.source, batch.target[:, :-1])
                loss: Tensor = criterion(logits.flatten(0, 1), batch.target[:, 1:].flatten().long())
            return loss

        fused = None if name == "plain" else True
        return Trainer(plain, torch.optim.Adam(plain.parameters(), lr=LR, fused=fused), plain_loss)
    model = our_model(SIZE, vocabulary)

    def our_loss(batch: Batch) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            return batch_loss(model, batch, SMOOTHING).smoothed / batch.total

    return Trainer(model, torch.optim.Adam(model.parameters(), lr=LR, fused=True), our_loss)


def speed(options: argparse.Namespace) -> None:
    corpora(options)  # fills the cache, so that no process learns a tokenizer
    if not options.anyway:
        await_idle()
    crew = {name: Candidate(name, options) for name in CANDIDATES}
    with foreign_load(lambda: sum(each.cpu_seconds() for each in crew.values())) as load:
        measured = interleave(
            {name: each.update for name, each in crew.items()}, options.rounds, options.warmup
        )
    for each in crew.values():
        each.end()
    print(conditions())
    print(f"other processes used {load.cores:.2f} cores meanwhile")
    print("\n| candidate | target tokens/s, median (lowest - highest) | CPU seconds for 1,000 |")
    print("|---|---|---|")
    for name, updates in measured.items():
        seconds = 1000 * statistics.median(each.cpu / each.tokens for each in updates)
        print(f"| {name} | {spread([u.tokens / u.wall for u in updates])} | {seconds:.3f} |")
    print("\n| ours | against | by wall time, median (lowest - highest) | by CPU time, likewise |")
    print("|---|---|---|---|")
    for ours, rivals in RIVALS.items():
        for rival in rivals:
            pairs = list(zip(measured[rival], measured[ours], strict=True))
            wall = ratios([theirs.wall / mine.wall for theirs, mine in pairs])
            cpu = ratios([theirs.cpu / mine.cpu for theirs, mine in pairs])
            print(f"| {ours} | {rival} | {wall} | {cpu} |")


def ratios(values: list[float]) -> str:
    return f"**{statistics.median(values):.2f}** ({min(values):.2f} - {max(values):.2f})"


class Update(NamedTuple):
    """The cost of an update: tokens, wall-clock seconds, and CPU seconds of all cores."""

    tokens: int
    wall: float
    cpu: float


class Candidate:
    """A process that trains one candidate: one update per request, sleeping in between."""

    def __init__(self, name: str, options: argparse.Namespace):
        processes = get_context("spawn")
        self._pipe, there = processes.Pipe()
        self._process = processes.Process(target=train, args=(there, name, options))
        self._process.start()
        there.close()
        self._pipe.recv()  # wait until the process is ready

    def update(self, index: int) -> Update:
        """Do one update with the batch at `index`."""
        self._pipe.send(index)
        result: Update = self._pipe.recv()
        return result

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid or 0)

    def end(self) -> int:
        """End the process. Returns: its peak memory in bytes, minus that after the imports."""
        self._pipe.send(None)
        peak: int = self._pipe.recv()
        self._process.join()
        return peak


def train(pipe: Connection, name: str, options: argparse.Namespace) -> None:
    """Run the process of a candidate: do one update for each index received, until None."""
    torch.set_num_threads(options.threads)
    imported = resident()
    corpus, _, vocabulary = corpora(options)
    batches = list(some_batches(corpus, options, options.rounds + options.warmup))
    trainer = build_trainer(name, vocabulary, options.seed)
    pipe.send("ready")
    while (index := pipe.recv()) is not None:
        cpu = time.process_time()
        wall = trainer.update(batches[index])
        spent = Update(batches[index].total, wall, time.process_time() - cpu)
        pipe.send(spent)
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - imported)


def memory(options: argparse.Namespace) -> None:
    """Measure and print the memory of each candidate, running alone."""
    corpora(options)
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    peaks = {}
    for name in CANDIDATES:
        candidate = Candidate(name, options)
        for index in range(options.rounds):
            candidate.update(index)
        peaks[name] = candidate.end()
    print(conditions())
    print("\n| candidate | peak less imports, MB | ratio |\n|---|---|---|")
    for name, bytes_ in peaks.items():
        print(f"| {name} | {bytes_ / 2**20:,.0f} | {bytes_ / peaks['plain']:.2f} |")


def quality(options: argparse.Namespace) -> None:
    train, valid, vocabulary = corpora(options)
    print(conditions())
    print(f"\n| candidate | validation loss after {options.updates} updates |\n|---|---|")
    for name in RIVALS:
        trainer = build_trainer(name, vocabulary, options.seed)
        schedule = LinearLR(trainer.optimizer, 0.01, total_iters=options.updates // 5)
        for batch in some_batches(train, options, options.updates):
            trainer.update(batch)
            schedule.step()
        print(f"| {name} | {validation_loss(trainer.model, valid, options):.4f} |", flush=True)


def validation_loss(model: nn.Module, valid: Corpus, options: argparse.Namespace) -> float:
    """The validation loss in nats per token, always computed in float32."""
    assert isinstance(model, Seq2Seq)
    model.eval()
    nll = tokens = 0.0
    with torch.no_grad():
        for batch in EvalBatches(valid, max_tokens=options.max_tokens):
            nll += batch_loss(model, batch, 0.0).nll.item()
            tokens += batch.tokens
    return nll / tokens


def corpora(options: argparse.Namespace) -> tuple[Corpus, Corpus, int]:
    """The encoded training and validation pairs, and the size of their vocabulary."""
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
    """The first `count` batches of training, over as many epochs as needed."""
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
    parser.add_argument("--rounds", type=int, default=20, help="measured updates")
    parser.add_argument("--warmup", type=int, default=3, help="updates before the measured ones")
    parser.add_argument("--updates", type=int, default=500, help="number of updates of `quality`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anyway", action="store_true", help="measure even on a busy machine")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    {"speed": speed, "memory": memory, "quality": quality}[options.what](options)


if __name__ == "__main__":
    main()
