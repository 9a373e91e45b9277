"""The self-test of the native code finds every compiler that changes one operation."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.native_code import needs_native, why_absent

from seq2seq.decoding import native
from seq2seq.decoding.native import build
from seq2seq.decoding.native.build import SOURCES, UnavailableError

pytestmark = needs_native


class Lie(NamedTuple):
    """A replacement for a part of a file."""

    file: str
    old: str
    new: str


ATTENTION, LINEAR, EPILOGUE, TOPK = "attention.c", "linear.c", "epilogue.c", "topk.c"
STEP = "transformer.c"
SUM = "load(sums)"
SCALED = "sum = sum * load_partial(map->scales + c, n) * row_scale;"
TILE = "store_tile(map, epilogue, row, rows,"
RELU = "case RELU: return maximum("
PARTS = "memcpy(&v, p, (size_t)n * sizeof *p)"
WIDE = "store(y, finish_vector(&map, &epilogue, row, c, LANES, row_scale, load(sums)))"
PART = "finish_vector(&map, &epilogue, row, c, end - c, row_scale, load(sums))"
LIES = {
    "softmax weights doubled": Lie(ATTENTION, "share = 1 /", "share = 2 /"),
    "rows beyond 13": Lie(EPILOGUE, WIDE, WIDE.replace(SUM, f"{SUM} * (row > 13 ? 1.01f : 1)")),
    "beams of another sentence": Lie(ATTENTION, "r / (rows / index->rows)", "r % index->rows"),
    "no largest score subtracted": Lie(ATTENTION, "load(scores + i) - max", "load(scores + i)"),
    "scores not scaled": Lie(ATTENTION, "scores[k] = scale *", "scores[k] ="),
    "scores scaled": Lie(ATTENTION, "scores[k] = scale *", "scores[k] = 1.01f * scale *"),
    "masks ignored": Lie(ATTENTION, "if (!mask || mask[i])", "if (1)"),
    "pages ignored": Lie(ATTENTION, "given ? given[i] : i", "given ? given[0] : i"),
    "rotation turned": Lie(ATTENTION, "first * cosines[i] -", "first * cosines[i] +"),
    "bias by distance turned": Lie(ATTENTION, "+= relative->bias", "-= relative->bias"),
    "products with distances turned": Lie(ATTENTION, "+= products[i]", "-= products[i]"),
    "another group": Lie(ATTENTION, "h / heads_per_kv *", "h % a->n_kv_heads *"),
    "another head": Lie(ATTENTION, "queries_stride + h * D", "queries_stride + (h & ~1) * D"),
    "the last value left out": Lie(
        ATTENTION, "t < count; t++)\n        for", "t + 1 < count; t++)\n        for"
    ),
    "columns at the end": Lie(EPILOGUE, PART, PART.replace(SUM, f"{SUM} * 1.01f")),
    "bias twice": Lie(EPILOGUE, "if (map->bias) sum +=", "if (map->bias) sum += 2 *"),
    "no residual": Lie(EPILOGUE, "if (epilogue->residual)", "if (epilogue->residual && row < 0)"),
    "no gate": Lie(EPILOGUE, "if (epilogue->gate)", "if (epilogue->gate && row < 0)"),
    "blocks forgotten": Lie(LINEAR, "units, u == 0,", "units, 1,"),
    "rows of a second chunk": Lie(LINEAR, TILE, TILE.replace("row,", "0,")),
    "inputs that fill no unit": Lie(LINEAR, "(in_features + 3) / 4 :", "(in_features + 2) / 4 :"),
    "integers of odd columns": Lie(EPILOGUE, SCALED, f"{SCALED} sum[1] *= 1.01f;"),
    "another relu": Lie(EPILOGUE, f"{RELU}broadcast(0), x)", f"{RELU}0.01f * x, x)"),
    "another silu": Lie(EPILOGUE, "return x * sigmoid(x)", "return x * sigmoid(1.02f * x)"),
    "another gelu": Lie(EPILOGUE, "0.254829592f", "0.2548f"),
    "symbols that no text has": Lie(TOPK, "i < topk->banned_count", "i + 1 < topk->banned_count"),
    "ends too early": Lie(TOPK, "&& topk->no_eos[row]", "&& topk->no_eos[0]"),
    "another order": Lie(TOPK, "place > 0 && value", "place > 1 && value"),
    "sums of probabilities": Lie(TOPK, "expf(before - now)", "expf(0.99f * (before - now))"),
    "no mean subtracted": Lie(
        STEP, "mean = reduce_sum(sum) / (float)dim", "mean = 0 * reduce_sum(sum)"
    ),
    "another norm": Lie(STEP, "if (norm->kind == LAYER_NORM)", "if (norm->kind)"),
    "no epsilon": Lie(STEP, "+ norm->epsilon", ""),
    "no bias of a norm": Lie(STEP, "if (norm->bias)", "if (norm->bias && r < 0)"),
    "no position": Lie(STEP, "(place ? place[i] : 0)", "(place && r ? place[i] : 0)"),
    "embeddings not scaled": Lie(STEP, "* s->embedding_scale", ""),
    "no last norm": Lie(
        STEP,
        "apply_norm(&s->final_norm, hidden, live.live.count,",
        "apply_norm(&s->final_norm, hidden, live.live.count - 1,",
    ),
    "keys in another slot": Lie(STEP, "index->lengths[r] - 1]", "index->lengths[r] / 2]"),
    "norms after, not before": Lie(STEP, "if (!s->is_pre_norm) apply_norm(", "if (0) apply_norm("),
    "gates of a cell exchanged": Lie(
        "cells.c", "* load_partial(cell + i, n) + input", "* input + load_partial(cell + i, n)"
    ),
    "another gate of the unit": Lie(
        "ssru.c", "sigmoid(-g) * load_partial(x", "sigmoid(-1.01f * g) * load_partial(x"
    ),
    "ids not compared": Lie(STEP, "token >= s->vocab_size", "token > s->vocab_size"),
    "positions not compared": Lie(STEP, "if (position < 0 ||", "if ("),
    "another exponential": Lie("vectors.h", "0.0416682288f", "0.0434782609f"),
    "lanes lost in sums": Lie("vectors.h", "(sum[2] + sum[3])", "(sum[2] + sum[2])"),
    "numbers lost at the end": Lie("vectors.h", PARTS, PARTS.replace("n *", "(n - (n > 1)) *")),
}


def changed_sources(lie: Lie, folder: Path) -> None:
    """Write the sources with that part changed."""
    shutil.copytree(SOURCES, folder)
    text = (folder / lie.file).read_text(encoding="utf-8")
    assert lie.old in text
    (folder / lie.file).write_text(text.replace(lie.old, lie.new), encoding="utf-8")


@pytest.fixture
def liar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A function that puts a compiler first in PATH, which compiles the sources with a change.

    It returns an empty folder for the library.
    """

    def lie(name: str) -> Path:
        changed_sources(LIES[name], tmp_path / "changed")
        (tmp_path / "bin").mkdir()
        script = tmp_path / "bin" / "cc"
        ours, changed = (str(path).replace("/", "\\/") for path in (SOURCES, tmp_path / "changed"))
        words = f"${{@//{ours}/{changed}}}"
        script.write_text(f'#!/bin/bash\nexec {shutil.which("cc")} "{words}" -O1\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        return tmp_path / "cache"

    return lie


@pytest.mark.slow
@pytest.mark.parametrize("name", LIES)
def test_the_self_test_finds_every_changed_operation(
    name: str, liar: Callable[[str], Path]
) -> None:
    folder = liar(name)
    with pytest.raises(UnavailableError, match="the test of the native code failed with code 1"):
        build.build_library(folder)


@pytest.mark.slow
def test_wrong_native_code_is_no_reason_to_skip_its_tests(
    liar: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(liar("gates of a cell exchanged")))
    found = native.load_once.__wrapped__()
    assert isinstance(found, str) and "the test of the native code failed" in found
    assert why_absent() is None


def test_the_native_code_compiles_and_passes_its_self_test() -> None:
    assert native.unavailable_reason() is None
