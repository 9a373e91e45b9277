"""Compare an exported model, run by another program, with the original in float32."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from seq2seq.base.symbols import BOS, EOS, NAMES, NEVER_GENERATED
from seq2seq.checkpoint import Saved
from seq2seq.data.batches.padding import pad_rows
from seq2seq.decoding import build_search, decode
from seq2seq.models import Seq2Seq

BATCH = 32  # sentences
ALIKE = 0.9  # minimum share of equal hypotheses if all scores are equal
CLOSE = 1e-3  # maximum difference of scores, per token, that rounding can explain
TIE = 1e-4  # score difference below which rounding may decide between two hypotheses


Rows = Sequence[list[int]]  # sources or targets as ids
# The best hypothesis of each source, with eos if it has one, and its score: the mean
# log-probability of its pieces, where pad, bos and unk have no probability.
Scored = list[tuple[list[int], float]]
# Calls another program: takes sources, a number of beams, and the maximum number of pieces.
Translate = Callable[[Rows, int, int], Scored]


class Agreement(NamedTuple):
    """The agreement of two programs that translated the same sentences with the same search."""

    beams: int
    sentences: int
    equal: int  # number of hypotheses that are equally good in both programs
    difference: float  # largest difference between the programs' scores of the same hypothesis

    @property
    def holds(self) -> bool:
        """True if all scores are equal up to rounding, as if both programs computed the same
        function, and so are the hypotheses, apart from a few that rounding may have changed.
        """
        return self.difference <= CLOSE and self.equal >= ALIKE * self.sentences

    def __str__(self) -> str:
        search = "greedy" if self.beams == 1 else f"beam {self.beams}"
        return (
            f"{search}: {self.equal} of {self.sentences} hypotheses are equal, scores of the same "
            f"hypothesis differ by at most {self.difference:.1e}"
        )


def compare_translations(saved: Saved, translate: Translate, rows: Rows) -> list[Agreement]:
    """Compare a model with its export in another program: greedy search, then five beams.

    Args:
        translate: function that translates with the other program.
        rows: sources as ids, without eos.
    """
    model = saved.build()
    return [compare_searches(model, translate, rows, beams) for beams in (1, 5)]


def compare_searches(model: Seq2Seq, translate: Translate, rows: Rows, beams: int) -> Agreement:
    """Translate the same sources with a model and with another program, and compare the results."""
    limit = min(max(map(len, rows)) * 3 // 2 + 10, model.max_length or 256)
    equal, difference = 0, 0.0
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        theirs = translate(batch, beams, limit)
        forced = score_targets(model, batch, [ids for ids, _ in theirs])
        own = score_targets(model, batch, search_as_theirs(model, batch, beams, limit))
        for (_, score), true, mine in zip(theirs, forced, own, strict=True):
            equal += abs(mine - true) <= TIE
            difference = max(difference, abs(score - true))
    return Agreement(beams, len(rows), equal, difference)


def search_as_theirs(model: Seq2Seq, rows: Rows, beams: int, limit: int) -> list[list[int]]:
    """The best hypotheses of a search that works like other programs' searches, with eos if ended.

    The search stops after as many finished hypotheses as beams, and ranks hypotheses that the
    limit cut off by score alone.
    """
    lengths = {"length_ratio": 0.0, "length_extra": limit}
    beam = {"name": "beam", "beam_size": beams, "length_penalty": 1.0, "stopping": "count"}
    search = build_search({**({"name": "greedy"} if beams == 1 else beam), **lengths})
    decoded = decode(model, pad_rows([[*row, EOS] for row in rows]), search)
    best = [max(hypotheses, key=lambda h: h.score) for hypotheses in decoded]  # cut off or not
    return [hypothesis.ids + ([] if hypothesis.truncated else [EOS]) for hypothesis in best]


@torch.no_grad()
def score_targets(model: Seq2Seq, rows: Rows, targets: Rows) -> list[float]:
    """The mean log-probability of each target's pieces, where pad, bos and unk are impossible."""
    source, target = pad_rows([[*row, EOS] for row in rows]), pad_rows([[BOS, *t] for t in targets])
    logits = model.logits(model(source, target[:, :-1]).hidden)
    logits[..., NEVER_GENERATED] = -torch.inf
    logp = logits.log_softmax(-1).gather(2, target[:, 1:, None])[..., 0]
    return [float(logp[i, : len(t)].mean()) for i, t in enumerate(targets)]


def random_rows(saved: Saved, count: int) -> list[list[int]]:
    """Sources made of random pieces; every call returns the same ones."""
    generator = torch.Generator().manual_seed(1)
    longest = min(24, saved.config["data"]["max_length"] - 1)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    size, first = saved.source.size, len(NAMES)
    return [torch.randint(first, size, (n,), generator=generator).tolist() for n in lengths]
