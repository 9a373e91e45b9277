"""Translations of the same sentences in batches of other sizes."""

from collections.abc import Iterator

import torch

from gpu_bench.models import SMALL, TINY, decided_model, random_rows, translate_rows
from gpu_bench.rows import Row, judge
from seq2seq.base.symbols import EOS
from seq2seq.decoding.precision import with_precision

BEAMS = 5


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    size, vocabulary, count = (TINY, 50, 20) if tiny else (SMALL, 8000, 1000)
    rows = [[*row, EOS] for row in random_rows(count, 2, 15, vocabulary)]
    model = decided_model(size, vocabulary).to(device)
    for precision in ("float32", "bfloat16"):
        converted = with_precision(model, precision)
        found = {
            sentences: translate_rows(converted, BEAMS, 16, rows, sentences, "auto")
            for sentences in ((2, 5, 20) if tiny else (256, 64, 16))
        }
        first, *others = found.values()
        distinct = len(set(map(tuple, first)))
        same = sum(all(each[i] == first[i] for each in others) for i in range(count))
        what = f"{precision}, {BEAMS} beams, at most {', '.join(map(str, found))} sentences at once"
        told = f"{same:,} of {count:,} sentences have one translation; {distinct:,} distinct ones"
        # Sums of products in bfloat16 differ by the size of a batch: a figure, not a promise.
        yield judge(what, told, same == count) if precision == "float32" else Row(what, told)
