"""No compiler that changes one operation is believed."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from seq2seq.decoding import native
from seq2seq.decoding.native import build
from seq2seq.decoding.native.build import SOURCES, UnavailableError

pytestmark = pytest.mark.skipif(
    native.why_not() is not None, reason=f"no native code: {native.why_not()}"
)


class Lie(NamedTuple):
    """What is compiled instead of a part of a file."""

    file: str
    old: str
    new: str


ATTENTION, PRODUCT, STEP = "attention.c", "product.c", "transformer.c"
SUM = "load(sums)"
SCALED = "sum = sum * load_part(w->scales + c, n) * scale;"
FINISH = "finish(w, then, row + r, first, end, scale, sums, y"
RELU = "case RELU: return choose(x < spread(0), "
PARTS = "memcpy(&v, p, (size_t)n * sizeof *p)"
WIDE = "store(y, result(w, then, row, c, LANES, scale, load(sums)))"
PART = "store_part(y, result(w, then, row, c, end - c, scale, load(sums)), end - c)"
LIES = {
    "softmax weights doubled": Lie(ATTENTION, "share = 1 /", "share = 2 /"),
    "rows beyond 13": Lie(PRODUCT, WIDE, WIDE.replace(SUM, f"{SUM} * (row > 13 ? 1.01f : 1)")),
    "beams of another sentence": Lie(ATTENTION, "r / (rows / read->lines)", "r % read->lines"),
    "no largest score subtracted": Lie(ATTENTION, "load(scores + i) - largest", "load(scores + i)"),
    "scores scaled": Lie(ATTENTION, "scores[t] = a->scale *", "scores[t] = 1.01f * a->scale *"),
    "masks ignored": Lie(ATTENTION, "if (!mask || mask[i])", "if (1)"),
    "pages ignored": Lie(ATTENTION, "given ? given[i] : i", "given ? given[0] : i"),
    "rotation turned": Lie(ATTENTION, "first * cosines[i] -", "first * cosines[i] +"),
    "bias by distance turned": Lie(ATTENTION, "scores[t] += bias[t", "scores[t] -= bias[t"),
    "another group": Lie(ATTENTION, "h / sharing *", "h % a->groups *"),
    "another head": Lie(ATTENTION, "stride + h * D", "stride + (h & ~1) * D"),
    "the last value left out": Lie(
        ATTENTION, "t < count; t++)\n        for", "t + 1 < count; t++)\n        for"
    ),
    "columns at the end": Lie(PRODUCT, PART, PART.replace(SUM, f"{SUM} * 1.01f")),
    "bias twice": Lie(PRODUCT, "if (w->bias) sum +=", "if (w->bias) sum += 2 *"),
    "no residual": Lie(PRODUCT, "if (then->added)", "if (then->added && row < 0)"),
    "no gate": Lie(PRODUCT, "if (then->gate)", "if (then->gate && row < 0)"),
    "blocks forgotten": Lie(PRODUCT, "block, u == 0,", "block, 1,"),
    "rows of a second chunk": Lie(PRODUCT, FINISH, FINISH.replace("row + r", "row ? r : row + r")),
    "inputs that fill no unit": Lie(PRODUCT, "(inputs + 3) / 4 :", "(inputs + 2) / 4 :"),
    "integers of odd columns": Lie(PRODUCT, SCALED, f"{SCALED} sum[1] *= 1.01f;"),
    "another relu": Lie(PRODUCT, f"{RELU}spread(0), x)", f"{RELU}0.01f * x, x)"),
    "another silu": Lie(PRODUCT, "return x * sigmoid(x)", "return x * sigmoid(1.02f * x)"),
    "another gelu": Lie(PRODUCT, "0.254829592f", "0.2548f"),
    "symbols that no text has": Lie(PRODUCT, "i < found->nevers", "i + 1 < found->nevers"),
    "ends too early": Lie(PRODUCT, "found->unending[row] &&", "found->unending[0] &&"),
    "another order": Lie(PRODUCT, "place > 0 && value", "place > 1 && value"),
    "sums of probabilities": Lie(PRODUCT, "expf(before - now)", "expf(0.99f * (before - now))"),
    "no mean subtracted": Lie(STEP, "mean = sum_of(sum) / (float)dim", "mean = 0 * sum_of(sum)"),
    "another norm": Lie(STEP, "if (n->kind == LAYER_NORM)", "if (n->kind)"),
    "no epsilon": Lie(STEP, "+ n->epsilon", ""),
    "no bias of a norm": Lie(STEP, "if (n->bias)", "if (n->bias && r < 0)"),
    "no position": Lie(STEP, "(place ? place[i] : 0)", "(place && r ? place[i] : 0)"),
    "embeddings not scaled": Lie(STEP, "* s->words_scale", ""),
    "no last norm": Lie(
        STEP, "normalise(&s->last, hidden, N,", "normalise(&s->last, hidden, N - 1,"
    ),
    "keys in another slot": Lie(STEP, "read->lengths[r] - 1]", "read->lengths[r] / 2]"),
    "norms after, not before": Lie(STEP, "if (!s->is_pre) normalise(n, x", "if (0) normalise(n, x"),
    "another gate of the unit": Lie(
        "recurrence.c", "sigmoid(-g) * load_part(x", "sigmoid(-1.01f * g) * load_part(x"
    ),
    "another exponential": Lie("vectors.h", "1.0f / 24;", "1.0f / 23;"),
    "lanes lost in sums": Lie("vectors.h", "(sum[2] + sum[3])", "(sum[2] + sum[2])"),
    "numbers lost at the end": Lie("vectors.h", PARTS, PARTS.replace("n *", "(n - (n > 1)) *")),
}
OFTEN = 2  # in every run of the tests


def changed_sources(lie: Lie, folder: Path) -> None:
    """Write the C with that part changed."""
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("*.py*", "__pycache__"))
    text = (folder / lie.file).read_text(encoding="utf-8")
    assert lie.old in text
    (folder / lie.file).write_text(text.replace(lie.old, lie.new), encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (i >= OFTEN)) for i, name in enumerate(LIES)],
)
def test_a_compiler_that_lies_is_not_believed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_sources(LIES[name], tmp_path / "changed")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "cc"
    script.write_text(
        f'#!/bin/bash\nexec {shutil.which("cc")} "${{@//{str(SOURCES).replace("/", chr(92) + "/")}/'
        f'{str(tmp_path / "changed").replace("/", chr(92) + "/")}}}" -O1\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(UnavailableError, match="the test of the native code failed with code 1"):
        build.build(tmp_path / "cache")
