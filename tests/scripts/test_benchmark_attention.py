"""The benchmark of attention over lengths: measurements, fits, limits and reports."""

import json
import sys
from pathlib import Path

import benchmark_attention
import pytest
import torch
from attention_bench.curves import apart
from attention_bench.measure import Decoding, Setting, Training
from attention_bench.points import Limits, Point, exponent
from attention_bench.report import BOTH, BOTH_PEAK, Growth, power
from zoo import Preset, presets

from seq2seq.attention import Role
from seq2seq.comparison.live_memory import live_memory
from seq2seq.functional import flash_additive_attention

CPU = torch.device("cpu")
MB = 2**20  # elements of a block
BLOCK = 4 * MB  # its bytes


def setting(role: Role, dim: int = 64) -> Setting:
    return Setting(role, dim, CPU, torch.float32)


def made(name: str, *overrides: str) -> Preset:
    return presets([name], "model.dim=64", *overrides)[0]


def test_live_memory_counts_what_is_alive_at_once_and_what_is_left() -> None:
    def three_of_which_two_live_together() -> torch.Tensor:
        first = torch.ones(MB)
        second = torch.ones(MB)
        del first
        third = torch.ones(2 * MB)
        del second
        return third

    live = live_memory(three_of_which_two_live_together, CPU)
    assert live == (3 * BLOCK, 2 * BLOCK)


def test_live_memory_includes_what_an_operation_holds_inside() -> None:
    x = torch.randn(256, 256)
    live = live_memory(lambda: torch.nn.functional.scaled_dot_product_attention(x, x, x), CPU)
    assert live.held == x.nbytes
    two_sums = live_memory(lambda: torch.logsumexp(x, 0), CPU)
    assert two_sums.peak >= x.nbytes > two_sums.held


def test_live_memory_of_explicit_attention_includes_its_weights() -> None:
    length, heads = 256, 4
    weights = heads * length * length * 4  # bytes
    training = {
        kernel: Training(made("mha", f"attn.kernel={kernel}"), length, setting(Role.ENCODER))
        for kernel in ("explicit", "fused")
    }
    forward, both = training["explicit"].memory()
    assert forward.held >= weights and both.peak >= 2 * weights
    forward, both = training["fused"].memory()
    assert both.peak < weights


@pytest.mark.slow
def test_attention_in_tiles_needs_memory_linear_in_the_length() -> None:
    def peak(length: int, width: int) -> int:
        wq, wk, v = (torch.randn(1, 1, length, width, requires_grad=True) for _ in range(3))
        u = torch.randn(1, width, requires_grad=True)

        def train() -> None:
            flash_additive_attention(wq, wk, u, v).sum().backward()

        return live_memory(train, CPU).peak

    # The hidden layer alone would take 1 GB.
    assert peak(1024, 256) < 20e6
    # Written out, 16 times.
    assert peak(2048, 16) < 4.5 * peak(512, 16)


def test_every_round_allocates_the_same() -> None:
    training = Training(made("mha"), 32, setting(Role.ENCODER))
    first = training.memory()
    training.round(0)
    assert training.memory() == first


@pytest.mark.parametrize("role", [Role.DECODER, Role.CROSS])
def test_a_decoding_step_comes_after_the_given_number_of_tokens(role: Role) -> None:
    decoding = Decoding(made("mha"), 300, setting(role))
    already = 1 if role is Role.DECODER else 0  # the step that warms up
    assert decoding.memory.nbytes == (300 + already) * 2 * 64 * 4
    assert decoding.bytes() >= decoding.memory.nbytes - 2 * 64 * 4
    assert decoding.round(0) > 0


def test_exponents_are_those_of_a_known_law() -> None:
    lengths = (512, 1024, 2048, 4096)
    assert exponent([(n, 3.0 * n**1.5) for n in lengths]) == pytest.approx(1.5)
    assert exponent([(n, 7.0) for n in lengths]) == pytest.approx(0.0)
    # One point off the line by a factor of 2 at an end: the slope of least squares by hand, with
    # x = -1.5, -0.5, 0.5, 1.5 and y = x, the last one higher by 1: (5 + 1.5) / 5.
    assert exponent([(512, 1), (1024, 2), (2048, 4), (4096, 16)]) == pytest.approx(1.3)


def point(length: int, seconds: float, peak: int, preparing: float = 0.0) -> Point:
    return Point("x", length, 0, 0, seconds, 0, 0, peak, preparing=preparing)


def test_a_point_that_would_take_too_much_is_foreseen() -> None:
    limits = Limits(seconds=10, bytes=1e9)
    assert limits.excess([], 10**6) is None
    quadratic = [point(1024, 1.0, 10**8), point(2048, 4.0, 2 * 10**8)]
    assert limits.excess(quadratic, 4096) == "about 16 s"
    linear = [point(1024, 1.0, 10**8), point(2048, 2.0, 4 * 10**8)]
    assert limits.excess(linear, 4096) == "about 1.6 GB"
    assert limits.excess(linear[:1], 2048) is None
    slow_to_remember = [point(1024, 1.0, 1, 3.0), point(2048, 2.0, 1, 6.0)]
    assert limits.excess(slow_to_remember, 4096) == "about 12 s"


def test_a_mechanism_that_grows_faster_than_it_claims_is_marked() -> None:
    full, less = presets(["mha", "fixed"])  # `fixed` stands for one that claims less than T S
    lengths = [512, 1024, 2048]
    curves = {
        name: [point(n, (n / 512) ** 1.5, n) for n in lengths] for name in (full.name, less.name)
    }
    growth = Growth(curves, {full.name: full, less.name: less}, lengths)
    assert power(growth, full.name, BOTH) == "1.50"
    assert power(growth, less.name, BOTH) == "1.50 > 1.25"
    assert power(growth, less.name, BOTH_PEAK) == "1.00"


def test_labels_are_moved_apart_and_stay_inside() -> None:
    assert apart([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert apart([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert apart([0.99, 1.0], 0.1) == pytest.approx([0.9, 1.0])
    crowd = apart([0.01 * i for i in range(25)], 0.04)
    assert crowd == pytest.approx([0.04 * i for i in range(25)])


def test_the_script_writes_tables_points_and_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--presets", "mha,mqa,fixed", "--role", "decoder", "--lengths", "32,64,128"]
    options += ["--dim", "32", "--repeats", "1", "--threads", "1", "--anyway"]
    monkeypatch.setattr(sys, "argv", ["x", *options, "--output", str(tmp_path / "new")])
    benchmark_attention.main()
    folder = tmp_path / "new"
    record = json.loads((folder / "decoder.json").read_text(encoding="utf-8"))
    assert {(p["preset"], p["length"]) for p in record["points"]} == {
        (name, length) for name in ("mha", "mqa") for length in (32, 64, 128)
    }
    assert record["left_out"] == ["`fixed`: not defined for decoder self-attention"]
    text = (folder / "decoder.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    assert "over lengths 32, 64, 128" in text and "| mqa | T S D |" in text
    assert (folder / "decoder.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_preset_is_refused_with_all_names() -> None:
    with pytest.raises(SystemExit, match="unknown preset 'mh'. Known: .*mha"):
        presets(["mha", "mh"])
