"""Does another program translate with an exported folder as the original model does?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from seq2seq.checkpoint import Saved
from seq2seq.data.windows import padded
from seq2seq.decoding import build_search, decode
from seq2seq.interchange.libraries import library
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, EOS, NAMES, NEVER_GENERATED, PAD

BATCH = 32  # sentences
ALIKE = 0.9  # share of the hypotheses that must be equal if all scores are
CLOSE = 1e-3  # differences of scores, per token, that are due to rounding alone
TIE = 1e-4  # differences between two hypotheses of which rounding may choose one or the other


class Agreement(NamedTuple):
    """How the same sentences are translated by two programs with the same search."""

    beams: int
    sentences: int
    equal: int  # hypotheses that are equal in every piece, or equally good
    difference: float  # the largest between the scores that both programs give one hypothesis
    symbols: float  # the largest probability of pad, bos and unk together, which are never chosen

    @property
    def same_function(self) -> bool:
        """One model in two programs: the scores are equal up to rounding."""
        return self.difference <= CLOSE

    @property
    def holds(self) -> bool:
        """The hypotheses are equal, too, but where rounding decided between equally good ones."""
        return self.same_function and self.equal >= ALIKE * self.sentences

    def __str__(self) -> str:
        search = "greedy" if self.beams == 1 else f"beam {self.beams}"
        return (
            f"{search}: {self.equal} of {self.sentences} hypotheses equal, scores of one "
            f"hypothesis differ by {self.difference:.1e} at most"
        )


class ExportedEngine(Protocol):
    """Another program, with an exported model."""

    def translate(
        self, batch: Sequence[list[int]], beams: int, limit: int
    ) -> list[tuple[list[int], float]]:
        """The best hypothesis of each row of ids, with eos if it has one, and its score: the mean
        log-probability of its pieces without pad, bos and unk.
        """


class Judge:
    """Compares an exported model with the original, in float32.

    Args:
        saved: the original.
        engine: the program with the exported model.
    """

    def __init__(self, saved: Saved, engine: ExportedEngine):
        self.model, self.engine = saved.build(), engine

    def compare(self, rows: Sequence[list[int]], beams: int) -> Agreement:
        """Translate sources, ids without eos, with both."""
        limit = min(max(map(len, rows)) * 3 // 2 + 10, self.model.max_length or 256)
        equal, difference, symbols = 0, 0.0, 0.0
        for first in range(0, len(rows), BATCH):
            batch = rows[first : first + BATCH]
            theirs = self.engine.translate(batch, beams, limit)
            forced, probable = scores(self.model, batch, [ids for ids, _ in theirs])
            symbols = max(symbols, probable)
            own, _ = scores(self.model, batch, ours(self.model, batch, beams, limit))
            for (_, score), true, mine in zip(theirs, forced, own, strict=True):
                equal += abs(mine - true) <= TIE
                difference = max(difference, abs(score - true))
        return Agreement(beams, len(rows), equal, difference, symbols)


class CTranslate2:
    """An exported folder in CTranslate2; `names` as in `ctranslate2.export`."""

    def __init__(self, saved: Saved, folder: Path, names: list[str] | None = None):
        self.source, self.target = names or saved.source.symbols(), names or saved.target.symbols()
        self.ids = {symbol: index for index, symbol in enumerate(self.target)}
        ct2 = library("ctranslate2")
        self.engine: Any = ct2.Translator(str(folder), device="cpu", compute_type="float32")

    def translate(
        self, batch: Sequence[list[int]], beams: int, limit: int
    ) -> list[tuple[list[int], float]]:
        results = self.engine.translate_batch(
            [[self.source[i] for i in row] for row in batch],
            beam_size=beams,
            length_penalty=1.0,
            min_decoding_length=0,
            max_decoding_length=limit,
            max_input_length=0,
            # Otherwise the length that divides a score does not count eos.
            return_end_token=True,
            return_scores=True,
        )
        return [([self.ids[s] for s in each.hypotheses[0]], each.scores[0]) for each in results]


def ours(model: Seq2Seq, rows: Sequence[list[int]], beams: int, limit: int) -> list[list[int]]:
    """The best hypothesis of our search, with eos if it has one. It stops as theirs does, and what
    was cut off is ranked by its score alone.
    """
    lengths = {"length_ratio": 0.0, "length_extra": limit}
    beam = {"name": "beam", "beam_size": beams, "length_penalty": 1.0, "stopping": "count"}
    search = build_search({**({"name": "greedy"} if beams == 1 else beam), **lengths})
    decoded = decode(model, padded([[*row, EOS] for row in rows]), search)
    best = [max(hypotheses, key=lambda h: h.score) for hypotheses in decoded]  # cut off or not
    return [hypothesis.ids + ([] if hypothesis.truncated else [EOS]) for hypothesis in best]


@torch.no_grad()
def scores(
    model: Seq2Seq, rows: Sequence[list[int]], targets: Sequence[list[int]]
) -> tuple[list[float], float]:
    """The mean log-probability of the pieces of given targets, without pad, bos and unk; and the
    largest probability that these three have together.
    """
    source, target = padded([[*row, EOS] for row in rows]), padded([[BOS, *t] for t in targets])
    logits = model.logits(model(source, target[:, :-1]).hidden)
    symbols = logits.softmax(-1)[..., NEVER_GENERATED].sum(-1)[target[:, 1:] != PAD]
    logits[..., NEVER_GENERATED] = -torch.inf
    logp = logits.log_softmax(-1).gather(2, target[:, 1:, None])[..., 0]
    means = [float(logp[i, : len(t)].mean()) for i, t in enumerate(targets)]
    return means, float(symbols.max())


def random_rows(saved: Saved, count: int) -> list[list[int]]:
    """Sources of random pieces, the same in every call."""
    generator = torch.Generator().manual_seed(1)
    longest = min(24, saved.config["data"]["max_length"] - 1)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    size, first = saved.source.size, len(NAMES)
    return [torch.randint(first, size, (n,), generator=generator).tolist() for n in lengths]
