"""Random alignments and hostile texts, for the tests of pictures and pages."""

import pytest
import torch

from seq2seq.alignment.choice import Alignment, Choice
from seq2seq.alignment.links import words

# Two readings, two layers, three heads.
SHAPE = (2, 2, 3)


FIRST = Choice(1, 0, 2)


def random_alignment(source: str, target: str) -> Alignment:
    one, other = words(source), words(target)
    weights = (2.5 * torch.randn(*SHAPE, len(other), len(one) + 1)).softmax(-1)
    return Alignment(one, other, weights)


@pytest.fixture
def alignments() -> list[Alignment]:
    return [
        random_alignment("ein kleiner Hund läuft schnell", "a small dog runs"),
        random_alignment("كلب يجري في الحديقة", "一只 狗 在 跑"),
    ]


HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "<!--<script>",
    "<img/src=x:y/onerror=document.title='broken'>",
    "\"quoted\" 'so' & &amp; ${title} $title `",
    "👩\u200d👩\u200d👧 مرحبا 你好",
    "a\x00b \x07 \x1b[31m \u2028 \u202eright-to-left \ud800".encode("utf-8", "replace").decode(),
    "x" * 5000,
)
