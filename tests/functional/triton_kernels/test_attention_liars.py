"""The cases find every kernel of attention in which one operation is changed."""

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch
from attention_cases import CASES, check_case

pytest.importorskip(
    "triton", minversion="3.6", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

from triton.runtime.errors import InterpreterError

import seq2seq

pytestmark = pytest.mark.slow

PACKAGE = Path(seq2seq.__file__).parent
FORWARD, BACKWARD, SCORES, TILES = "forward.py", "backward.py", "scores.py", "tiles.py"
KEEP = "keep(tiles, dropout, b, h, i, j, sizes.WIDE)"
KEYS = "keys = load(k, b, h // (tiles.heads // k.heads), j, d, sizes.WIDE)"
VALUES = "values = load(v, b, h // (tiles.heads // v.heads), j, c, sizes.WIDE)"


class Lie(NamedTuple):
    """A replacement for a part of a file."""

    file: str
    old: str
    new: str
    additive: bool = False


class Kernel(NamedTuple):
    """A part of a file: from the name of a kernel to the next one."""

    file: str
    name: str

    def lie(self, old: str, new: str, additive: bool = False) -> Lie:
        text = (PACKAGE / "functional" / "triton" / self.file).read_text(encoding="utf-8")
        (body,) = re.findall(rf"def {self.name}\(.*?(?=\n\n\n)", text, re.DOTALL)
        assert body.count(old) == 1, (old, body)
        return Lie(self.file, body, body.replace(old, new), additive)


ATTEND, QUERIES = Kernel(FORWARD, "attend_kernel"), Kernel(BACKWARD, "queries_kernel")
KEYS_KERNEL, BIAS = Kernel(BACKWARD, "keys_kernel"), Kernel(BACKWARD, "bias_kernel")
SLOPES, HIDE, DROP = Kernel(BACKWARD, "slopes"), Kernel(TILES, "hide"), Kernel(TILES, "keep")
SOFTEN, WRITE = Kernel(FORWARD, "soften"), Kernel(FORWARD, "write_outputs")
COMPARE, DQ = Kernel(SCORES, "compare"), Kernel(SCORES, "query_slope")
DK = Kernel(SCORES, "key_slope")
LIES = {
    # all kernels
    "no mask": HIDE.lie("mask=visible, other=0) != 0", "mask=visible, other=0) >= 0"),
    "a query does not see itself": HIDE.lie("j[None, :] <= i", "j[None, :] < i"),
    "the queries are the first": HIDE.lie("i[:, None] + (tiles.S - tiles.T)", "i[:, None]"),
    "a key beyond the last": HIDE.lie("j[None, :] < tiles.S", "j[None, :] <= tiles.S"),
    "a bias that is taken away": HIDE.lie("e += tl.load", "e -= tl.load"),
    "the bias of another head": HIDE.lie("pointers(bias, b, h, i", "pointers(bias, b, 0, i"),
    "dropout of another row": DROP.lie("(b * tiles.heads + h)", "(b * tiles.heads)"),
    "dropout of another seed": DROP.lie(" + dropout.row_seed", ""),
    "dropout of another column": DROP.lie("j + dropout.column_seed", "j"),
    "dropped weights not made up for": DROP.lie(" * dropout.factor", ""),
    "another hash": DROP.lie("x >> 15", "x >> 16"),
    "no scale": COMPARE.lie(" * scale", ""),
    "no vector": COMPARE.lie(" * vector(u, h, d, q.dtype)", "", True),
    "the vector of another head": Kernel(SCORES, "vector").lie(", h + tl", ", 0 * h + tl", True),
    "no sign": Lie(SCORES, "tl.where(x < 0, -size, size)", "size", True),
    # forward
    "a sum that is not rescaled": SOFTEN.lie("l * fade +", "l +"),
    "values that are not rescaled": ATTEND.lie("acc * fade[:, None]", "acc"),
    "queries without a key": SOFTEN.lie("tl.maximum(m, tl.max(e, 1)), LOWEST", "m, tl.max(e, 1)"),
    "keys of another head": ATTEND.lie("h // (tiles.heads // k.heads)", "h % k.heads"),
    "values of another head": ATTEND.lie("h // (tiles.heads // v.heads)", "h % v.heads"),
    "keys of another sentence": ATTEND.lie("load(k, b,", "load(k, 0,"),
    "the last key left out": ATTEND.lie("* sizes.Q), sizes.K", "* sizes.Q) - 1, sizes.K"),
    "keys of the block before": ATTEND.lie("(tl.program_id(1) + 1)", "tl.program_id(1)"),
    "no dropout": ATTEND.lie(f"p * {KEEP}", "p"),
    "dropped weights leave the sum": ATTEND.lie(
        "        acc = acc", "        l -= tl.sum(p - kept, 1)\n        acc = acc"
    ),
    "lse without the sum": WRITE.lie("m + tl.log(some)", "m"),
    # the gradients of all
    "no mean of the slopes": SLOPES.lie("(dp - delta)", "dp"),
    "slopes without dropout": SLOPES.lie(", sizes.NARROW) * factors", ", sizes.NARROW)"),
    "slopes of queries without a key": Kernel(BACKWARD, "load_outputs").lie(
        'float("inf"), sums', "sums, sums"
    ),
    # of queries and of u
    "queries: the last block alone": QUERIES.lie("dq_block +=", "dq_block ="),
    "queries: no scale": DQ.lie(" * scale", ""),
    "queries: another slope of tanh": DQ.lie("(1 - x * x)", "(1 - x)", True),
    "queries: no vector": DQ.lie(" * vector(u, h, d, q.dtype)", "", True),
    "queries: another key head": QUERIES.lie(KEYS, KEYS.replace("h //", "0 * h //")),
    "queries: another value head": QUERIES.lie(VALUES, VALUES.replace("h //", "0 * h //")),
    "queries: keys of the block before": QUERIES.lie("(block + 1)", "block"),
    "queries: the last key left out": QUERIES.lie("* sizes.Q), sizes.K", "* sizes.Q) - 1, sizes.K"),
    "u: the last block alone": QUERIES.lie("du_block +=", "du_block =", True),
    "u: one query alone": QUERIES.lie("tl.sum(du_block, 0)", "tl.max(du_block, 0)", True),
    "u: nothing": QUERIES.lie("vector_slope(de,", "0 * vector_slope(de,", True),
    # of keys and values
    "keys: one head of the group": KEYS_KERNEL.lie("(g + 1) * group", "g * group + 1"),
    "keys: the last block alone": KEYS_KERNEL.lie("dk_block +=", "dk_block ="),
    "keys: no scale": DK.lie(" * scale", ""),
    "keys: another slope of tanh": DK.lie("(1 - x * x)", "(1 - x)", True),
    "keys: those of the head before too": KEYS_KERNEL.lie(
        "            dk_block = tl.zeros", "            dk_block += 0 * tl.zeros", True
    ),
    "keys: another key head": KEYS_KERNEL.lie(KEYS, KEYS.replace("h //", "0 * h //")),
    "keys: the last query left out": KEYS_KERNEL.lie("tiles.T, sizes.Q", "tiles.T - 1, sizes.Q"),
    "keys: queries before the first": Kernel(TILES, "first_query").lie(
        "start - (tiles.S - tiles.T)", "start"
    ),
    "values: the last block alone": KEYS_KERNEL.lie("dv_block +=", "dv_block ="),
    "values: another head": KEYS_KERNEL.lie("load(v, b, g,", "load(v, b, 0 * g,"),
    "values: no dropout": SLOPES.lie("return p * factors,", "return p,"),
    # of a bias
    "bias: nothing": BIAS.lie("block += de", "block += 0 * de"),
    "bias: the last block alone": BIAS.lie("block += de", "block = de"),
    "bias: one sentence": BIAS.lie("(b0 + 1) * sentences", "b0 * sentences + 1"),
    "bias: another sentence": BIAS.lie("queries = load(q, b,", "queries = load(q, 0 * b,"),
    "bias: one head": BIAS.lie("(h0 + 1) * group", "h0 * group + 1"),
    "bias: another key head": BIAS.lie(KEYS, KEYS.replace("h //", "0 * h //")),
    "bias: another value head": BIAS.lie(VALUES, VALUES.replace("h //", "0 * h //")),
    "bias: the first queries": BIAS.lie(
        "tl.where(dbias.rows == 1, tiles.T, i0 + sizes.Q)", "i0 + sizes.Q"
    ),
    "bias: the first keys": BIAS.lie(
        "tl.where(dbias.width == 1, tiles.S, j0 + sizes.K)", "j0 + sizes.K"
    ),
    "bias: one query": BIAS.lie("tl.sum(block, 0)[None, :]", "block"),
    "bias: one key": BIAS.lie("tl.sum(block, 1)[:, None]", "block"),
    "bias: keys of the block before": BIAS.lie("i_start + sizes.Q))", "i_start))"),
}


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the kernels, and of their functions, that can be changed and imported."""
    folder = tmp_path / "changed_kernels"
    shutil.copytree(
        PACKAGE / "functional" / "triton", folder, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(PACKAGE / "functional" / "triton_flash.py", folder)
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("seq2seq.functional.triton", folder.name), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def import_with(lie: Lie, folder: Path) -> ModuleType:
    """The functions on kernels with that part changed."""
    path = folder / lie.file
    text = path.read_text(encoding="utf-8")
    assert text.count(lie.old) == 1
    path.write_text(text.replace(lie.old, lie.new), encoding="utf-8")
    return importlib.import_module(f"{folder.name}.triton_flash")


@pytest.mark.parametrize("name", LIES)
def test_every_changed_kernel_is_found_out(name: str, changed: Path, device: torch.device) -> None:
    kernels = import_with(LIES[name], changed)
    with pytest.raises((AssertionError, InterpreterError)):
        for case in CASES:
            check_case(case, LIES[name].additive, torch.float32, device, kernels)


def test_unchanged_kernels_pass(changed: Path, device: torch.device) -> None:
    kernels = import_with(Lie(FORWARD, '"""A kernel', '"""A kernel'), changed)
    for case in CASES[:5]:
        for additive in (False, True):
            check_case(case, additive, torch.float32, device, kernels)
