"""All engines with one interface: ids in, ids out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from decoding_bench import marian
from decoding_bench.candidates import BatchSize, Candidate
from decoding_bench.floor import Floor, Record
from seq2seq import checkpoint, decoding
from seq2seq.base.symbols import EOS, PAD
from seq2seq.data.batches.padding import pad_rows
from seq2seq.decoding import Search, SentenceRequest, build_search
from seq2seq.decoding.precision import with_precision
from seq2seq.models import Seq2Seq


class Files(NamedTuple):
    """A model in the formats that the engines read."""

    checkpoint: str
    ctranslate2: str


class Work(NamedTuple):
    """The sentences to translate, and how."""

    regime: str  # which of the models
    rows: list[list[int]]  # sources, EOS last
    beams: int
    limit: int  # maximum pieces of a translation
    batch_size: BatchSize | None  # None if the engine chooses it


class Engine(ABC):
    """An engine with its models loaded, one per regime.

    Only `run` is timed.
    """

    def __init__(self, candidate: Candidate, files: Mapping[str, Files]):
        self.candidate = candidate
        self.files = files
        self.raw: Any = None  # output of the last run

    @abstractmethod
    def prepare(self, work: Work) -> None:
        """Prepare for these sentences."""

    @abstractmethod
    def run(self) -> None:
        """Translate them all."""

    @abstractmethod
    def hypotheses(self) -> list[list[int]]:
        """The best hypothesis of each sentence, without EOS."""


class Ours(Engine):
    """This toolkit."""

    def __init__(self, candidate: Candidate, files: Mapping[str, Files]):
        super().__init__(candidate, files)
        self.models = {
            regime: with_precision(checkpoint.read(each.checkpoint).build(), candidate.precision)
            for regime, each in files.items()
        }

    def prepare(self, work: Work) -> None:
        self.work, self.search = work, search_of(work.beams, work.limit)

    def run(self) -> None:
        model = self.models[self.work.regime]
        self.raw = translated(model, self.search, self.work.rows, cache=self.candidate.cache)

    def hypotheses(self) -> list[list[int]]:
        raw: list[list[int]] = self.raw
        return raw


def search_of(beams: int, limit: int) -> Search:
    """The search of all engines: score = log-probability / length."""
    options: dict[str, Any] = {"length_ratio": 0.0, "length_extra": limit, "name": "greedy"}
    if beams > 1:
        options |= {"name": "beam", "beam_size": beams, "length_penalty": 1.0}
    return build_search(options)


def translated(
    model: Seq2Seq, search: Search, rows: list[list[int]], **options: Any
) -> list[list[int]]:
    """The best hypothesis of each row of ids, by our engine."""
    engine = decoding.Engine(model, search, **options)
    requests = (SentenceRequest(row) for row in rows)
    return [each.hypotheses[0].ids for each in engine.translate(requests) if each.hypotheses]


class Bare(Engine):
    """The matrix products of our float32 run: recorded once, replayed in every run."""

    def __init__(self, candidate: Candidate, files: Mapping[str, Files]):
        super().__init__(candidate, files)
        self.models, self.records, self.floors = {}, {}, {}
        for regime, each in files.items():
            model = checkpoint.read(each.checkpoint).build()
            self.floors[regime] = Floor(model)
            self.records[regime] = Record(model)
            self.models[regime] = model

    def prepare(self, work: Work) -> None:
        self.floor, record = self.floors[work.regime], self.records[work.regime]
        record.steps.clear()
        search = search_of(work.beams, work.limit)
        self.raw = translated(self.models[work.regime], search, work.rows, cache="dense")
        self.steps = list(record.steps)

    def run(self) -> None:
        self.floor.replay(self.steps)

    def hypotheses(self) -> list[list[int]]:
        raw: list[list[int]] = self.raw
        return raw


class CTranslate2(Engine):
    """The exported weights in CTranslate2, with one parallel translator per worker."""

    def __init__(self, candidate: Candidate, files: Mapping[str, Files]):
        super().__init__(candidate, files)
        import ctranslate2

        saved = checkpoint.read(next(iter(files.values())).checkpoint)
        self.source, self.target = saved.source.symbols(), saved.target.symbols()
        self.ids = {symbol: i for i, symbol in enumerate(self.target)}
        self.translators = {
            regime: ctranslate2.Translator(
                each.ctranslate2,
                device="cpu",
                compute_type=candidate.precision,
                inter_threads=candidate.workers,
                intra_threads=candidate.threads,
            )
            for regime, each in files.items()
        }

    def prepare(self, work: Work) -> None:
        self.translator = self.translators[work.regime]
        # CTranslate2 takes pieces and adds EOS itself.
        self.pieces = [[self.source[i] for i in row[:-1]] for row in work.rows]
        self.options: dict[str, Any] = {
            "beam_size": work.beams,
            "length_penalty": 1.0,
            "min_decoding_length": 0,
            "max_decoding_length": work.limit,
            "max_input_length": 0,
            "return_end_token": True,  # so that the length counts EOS, as ours does
        }
        if work.batch_size is not None:
            self.options["max_batch_size"] = work.batch_size.size
            by_tokens = work.batch_size.unit == "tokens"
            self.options["batch_type"] = "tokens" if by_tokens else "examples"

    def run(self) -> None:
        self.raw = self.translator.translate_batch(self.pieces, **self.options)

    def hypotheses(self) -> list[list[int]]:
        rows = [[self.ids[piece] for piece in each.hypotheses[0]] for each in self.raw]
        return [row[:-1] if row and row[-1] == EOS else row for row in rows]


class HuggingFace(Engine):
    """`generate` of the transformers library, in batches of similar lengths."""

    def __init__(self, candidate: Candidate, files: Mapping[str, Files]):
        super().__init__(candidate, files)
        self.models = {
            regime: marian.build(checkpoint.read(each.checkpoint).build())
            for regime, each in files.items()
        }

    def prepare(self, work: Work) -> None:
        self.model = self.models[work.regime]
        order = sorted(range(len(work.rows)), key=lambda i: -len(work.rows[i]))
        size = work.batch_size.size if work.batch_size else len(order)
        self.batches = [order[i : i + size] for i in range(0, len(order), size)]
        self.rows = work.rows
        self.options = {
            "num_beams": work.beams,
            "max_new_tokens": work.limit,
            "length_penalty": 1.0,
            "early_stopping": work.beams > 1,  # stops when num_beams hypotheses have finished
            "do_sample": False,
        }

    @torch.no_grad()
    def run(self) -> None:
        self.raw = []
        for batch in self.batches:
            source = pad_rows([self.rows[i] for i in batch])
            mask = source != PAD
            self.raw.append(self.model.generate(source, attention_mask=mask, **self.options))

    def hypotheses(self) -> list[list[int]]:
        results: list[list[int]] = [[] for _ in self.rows]
        for batch, rows in zip(self.batches, self.raw, strict=True):
            for i, row in zip(batch, rows[:, 1:].tolist(), strict=True):
                results[i] = row[: row.index(EOS)] if EOS in row else row
        return results


ENGINES: dict[str, type[Engine]] = {
    "floor": Bare,
    "ours": Ours,
    "torch": Ours,
    "ct2": CTranslate2,
    "hf": HuggingFace,
}
