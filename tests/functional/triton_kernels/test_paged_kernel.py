"""Attention to keys and values in their pages, compared with gathering them first."""

import copy
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.builders import assert_equal, small_model, source_batch

triton = pytest.importorskip(
    "triton", minversion="3.6", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

from paged_cases import TOLERANCES, Attend, make_case  # noqa: E402

from seq2seq.attention.multihead import MultiHead  # noqa: E402
from seq2seq.attention.page_pool import PagePool  # noqa: E402
from seq2seq.base.errors import ConfigError  # noqa: E402
from seq2seq.functional.triton import paged  # noqa: E402
from seq2seq.functional.triton.paged import paged_attention  # noqa: E402
from seq2seq.models import Seq2Seq  # noqa: E402

every_type = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


@every_type
@pytest.mark.parametrize("tens", range(6))
def test_paged_attention_equals_attention_to_gathered_pages(
    tens: int, dtype: torch.dtype, device: torch.device
) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        case = make_case(seed, dtype, device)
        actual = case.run(paged_attention)
        assert actual.dtype is dtype
        assert_equal(actual.double(), case.expected(), TOLERANCES[dtype])


@every_type
def test_a_row_has_the_same_bits_whatever_else_is_in_the_batch(
    dtype: torch.dtype, device: torch.device
) -> None:
    G, H, D, S, split = 2, 4, 8, 40, 16
    lengths = [3, 16, 17, 40]
    k, v = (torch.randn(G, 200, D).to(device, dtype) for _ in range(2))
    q, slots = torch.randn(4, H, 2, D).to(device, dtype), torch.randperm(200)[:160].view(4, S)
    mask = (torch.rand(4, 1, 2, S) < 0.7).to(device)

    def attend(rows: list[int]) -> torch.Tensor:
        longest = max(lengths[row] for row in rows)
        tables = slots[rows, :longest].to(device), torch.tensor([lengths[r] for r in rows])
        return paged_attention(
            *(q[rows], k, v, tables[0], tables[1].to(device)),
            mask=mask[rows, ..., :longest],
            split=split,
            block=16,
        )

    together = attend([0, 1, 2, 3])
    for rows in ([0], [1], [2], [3], [2, 0], [1, 0], [0, 0, 3]):
        assert torch.equal(attend(rows), together[rows])


def set_kernel(model: Seq2Seq, kernel: str) -> Seq2Seq:
    for module in model.modules():
        if isinstance(module, MultiHead):
            module.kernel = kernel  # type: ignore[assignment]
    return model


@pytest.mark.parametrize(
    ("attn", "position"),
    [
        ("gqa", "alibi"),
        pytest.param("mqa", "t5", marks=pytest.mark.slow),
        pytest.param("general", "rope", marks=pytest.mark.slow),
        pytest.param("gaussian", "none", marks=pytest.mark.slow),  # gathers: keys have a bias
    ],
)
@torch.no_grad()
def test_a_decoder_answers_from_pages_as_from_gathered_ones(
    attn: str, position: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_layer = ("model.encoder_layers=1", "model.decoder_layers=1")
    model = small_model("transformer", *one_layer, f"attn={attn}", f"position={position}")
    model = model.float().to(device)
    source = source_batch(5, 2).to(device)
    encoded, beams = model.encode(source), 2
    reading = set_kernel(copy.deepcopy(model), "triton")
    seen = []
    attend_pages = MultiHead.attend_pages
    monkeypatch.setattr(
        MultiHead,
        "attend_pages",
        lambda self, *given: seen.append(self.place.role) or attend_pages(self, *given),
    )
    states = [m.start(encoded, beams, PagePool(40, 2, device)) for m in (model, reading)]
    for n, parents in ((3, [0, 0, 3, 2]), (1, [1, 0, 2, 2]), (1, None)):
        tokens = torch.randint(4, 11, (4, n), device=device)
        gathered, read = (
            each.step(tokens, state).hidden
            for each, state in zip((model, reading), states, strict=True)
        )
        assert_equal(read, gathered, 1e-4)
        for state in states if parents else ():
            state.fork(torch.tensor(parents, device=device))
    assert len(seen) == (0 if attn == "gaussian" else 6)


def test_the_paged_kernel_is_refused_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "is_interpreted", lambda: False)
    case = make_case(0, torch.float32, torch.device("cpu"))
    with pytest.raises(ConfigError, match="torch.float32 on device cpu. Take kernel=auto"):
        case.run(paged_attention)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("capability", ["80", "90"])
def test_the_paged_kernel_compiles_without_a_gpu(
    capability: str, dtype: str, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("compile_paged.py")
    ended = subprocess.run(
        [sys.executable, str(script), capability, dtype, "64"],
        env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    sizes = dict.fromkeys(("attend_split", "add_splits"), 0)
    for line in ended.stdout.splitlines():
        name, size = line.split()
        sizes[name] += int(size) > 1000
    assert sizes == {"attend_split": 4, "add_splits": 2}


def test_shapes_that_do_not_fit_are_refused(device: torch.device) -> None:
    q, pool, slots = torch.zeros(2, 4, 1, 8), torch.zeros(2, 9, 8), torch.zeros(2, 3).long()
    lengths = torch.tensor([3, 1])
    with pytest.raises(ValueError, match="split=24 should be a multiple of block=16"):
        paged_attention(q, pool, pool, slots, lengths, split=24, block=16)
    for wrong in (
        (q, pool[..., :5], pool, slots, lengths),
        (q, pool, pool[:1], slots, lengths),
        (q[:, :3], pool, pool, slots, lengths),
        (q, pool, pool, slots[:1], lengths),
        (q, pool, pool, slots, lengths[:1]),
        (q, pool, pool, slots.repeat(1, 2)[:, ::2], lengths),
    ):
        with pytest.raises(ValueError, match=r"they should be \(N, H, T, D\)"):
            paged_attention(*wrong)


MISTAKES = {
    "one key too many": ("inside = j < length", "inside = j <= length"),
    "slots of another row": ("slots + n * slots_n + j", "slots + j"),
    "sums not rescaled": ("acc * fade[:, None] + product", "acc + product"),
    "a split that ends early": ("tl.minimum((part + 1) * SPLIT, length)", "part * SPLIT + 1"),
    "a split read twice": ("range(part * SPLIT,", "range(0,"),
    "keys of another group": ("load(k, 0, g,", "load(k, 0, 0,"),
    "values of another group": ("load(v, 0, g,", "load(v, 0, 0,"),
    "queries of another group": ("load(q, n, g,", "load(q, n, 0,"),
    "groups of heads in another order": (
        ".reshape(N, G, rows, D)",
        ".reshape(N, rows, G, D).transpose(1, 2)",
    ),
    "mask and bias of another row": ("hide(e, tiles, n, g", "hide(e, tiles, 0, g"),
    "mask and bias of another group": ("hide(e, tiles, n, g", "hide(e, tiles, n, 0"),
    "what is after the keys": (
        "tl.where(inside[None, :], hide(e, tiles, n, g, i, j)",
        "tl.where(True, e",
    ),
    "no scale": ("score_arguments(scale, None)", "score_arguments(1.0, None)"),
    "splits not scaled to each other": ("+ value * share", "+ value"),
    "splits not rescaled": ("fade[:, None] + value", "1.0 + value"),
    "the last split lost": (
        "tl.cdiv(tl.load(lengths + n), SPLIT)",
        "tl.load(lengths + n) // SPLIT",
    ),
    "sums of the first split": ("n, g * splits + part, i, c", "n, g * splits, i, c"),
    "highest scores of the first split": ("splits + part, i, tl.arange", "splits, i, tl.arange"),
}


def load_kernel(path: Path, changed: tuple[str, str]) -> Attend:
    """The kernel with a part of its source replaced."""
    text = Path(paged.__file__).read_text(encoding="utf-8")
    assert changed[0] in text
    path.write_text(text.replace(*changed), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    attend: Attend = module.paged_attention
    return attend


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU may stop at a wrong address")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter: NaN
@pytest.mark.parametrize("name", MISTAKES)
def test_the_cases_find_every_mistake(name: str, tmp_path: Path, device: torch.device) -> None:
    attend = load_kernel(tmp_path / "mistaken.py", MISTAKES[name])
    cases = (make_case(seed, torch.float32, device) for seed in range(60))
    assert not all(case.is_right(attend) for case in cases)


@pytest.mark.slow
def test_the_unchanged_kernel_passes_every_case(tmp_path: Path, device: torch.device) -> None:
    attend = load_kernel(tmp_path / "right.py", ("SPLIT = 512", "SPLIT = 512"))
    assert all(make_case(seed, torch.float32, device).is_right(attend) for seed in range(10))
