"""Measure the training and decoding speeds of mechanisms that take turns on the same batches."""

from collections.abc import Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import NamedTuple

import torch

from seq2seq.checkpoint import Saved
from seq2seq.comparison.conditions import await_idle, conditions, foreign_load, interleave
from seq2seq.comparison.runs import Group
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import BatchLoader, EvalBatches
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.decoding import build_search, decode
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.training.config.options import FROM_CHECKPOINT
from seq2seq.training.loss import batch_loss

SMOOTHING = 0.1


class Speeds(NamedTuple):
    training: float  # target tokens per second
    decoding: float  # sentences per second


class Material(NamedTuple):
    """The inputs that all mechanisms process."""

    batches: Sequence[Batch]
    source: torch.Tensor  # (B, S), sentences to translate

    @classmethod
    def of(cls, saved: Saved, batches: int, sentences: int) -> "Material":
        """The first training batches of a run, and validation sentences of medium length.

        Raises: DataError or ConfigError if the data of the run have moved.
        """
        data = DataOptions(**saved.config["data"])
        given = Tokenizers(saved.source, saved.target)
        prepared: Prepared = prepare(data, {"name": FROM_CHECKPOINT}, given)
        loader = BatchLoader(prepared.train, max_tokens=data.max_tokens, seed=1)
        judged = list(EvalBatches(prepared.valid, max_tokens=data.max_tokens))
        middle = judged[len(judged) // 2].source[:sentences]
        return cls(list(islice(loader, batches)), middle)


class TimedModel:
    """A model that trains and translates."""

    def __init__(self, saved: Saved, material: Material):
        self.material = material
        self.model = saved.build()
        self.search = build_search(saved.config["decode"])
        # The learning rate is 0, because the same weights also translate and must not change.
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, fused=True)

    def train(self, _: int) -> float:
        """Do one update on each batch. Returns: the seconds it took."""
        self.model.train()
        start = perf_counter()
        for batch in self.material.batches:
            self.optimizer.zero_grad()
            loss = batch_loss(self.model, batch, SMOOTHING).smoothed / batch.total
            torch.autograd.backward(loss)
            self.optimizer.step()
        return perf_counter() - start

    def translate(self, _: int) -> float:
        """Translate all sentences. Returns: the seconds it took."""
        self.model.eval()
        start = perf_counter()
        decode(self.model, self.material.source, self.search)
        return perf_counter() - start


def time_models(runs: Mapping[str, Saved], material: Material, rounds: int) -> dict[str, Speeds]:
    """The speeds of each run in its fastest round, by name."""
    candidates = {name: TimedModel(saved, material) for name, saved in runs.items()}
    training = interleave({name: c.train for name, c in candidates.items()}, rounds, 1)
    decoding = interleave({name: c.translate for name, c in candidates.items()}, rounds, 1)
    tokens = sum(batch.total for batch in material.batches)
    sentences = len(material.source)
    return {
        name: Speeds(tokens / min(training[name]), sentences / min(decoding[name]))
        for name in candidates
    }


def measure_speeds(
    groups: Sequence[Group], batches: int, sentences: int, rounds: int, *, wait: bool
) -> tuple[Mapping[str, Speeds], str]:
    """Measure the speeds of the first run of each mechanism.

    Args:
        batches, sentences: amounts to train on and to translate in each round.
        wait: True to wait until the machine is idle.

    Returns: the speeds by name, and the conditions in a line.
    Raises: BusyMachineError if the machine does not become idle.
    """
    material = Material.of(groups[0].runs[0].saved, batches, sentences)
    if wait:
        await_idle()
    with foreign_load() as load:
        measured = time_models({g.name: g.runs[0].saved for g in groups}, material, rounds)
    return measured, (
        f"Speeds: {conditions()}; minimum of {rounds} rounds, {len(material.batches)} batches, "
        f"{len(material.source)} sentences; other processes used {load.cores:.2f} cores."
    )
