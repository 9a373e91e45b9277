"""The benchmark of decoding: candidates, division of work, counts and reports."""

import json
import sys
from pathlib import Path
from typing import Any

import benchmark_decoding
import pytest
import torch
from benchmarking import cpu_seconds, resident
from decoding_bench.candidates import ALL, BatchSize, Candidate, parse
from decoding_bench.crews import Job, deal
from decoding_bench.floor import Floor, Record, Step
from decoding_bench.measure import Measured, Protocol, Result, Run
from decoding_bench.report import lines, section
from helpers.tiny_runs import TINY_MODEL, demo_lines, save_model

from seq2seq import checkpoint
from seq2seq.base.symbols import EOS
from seq2seq.data.batches.padding import pad_rows
from seq2seq.decoding import Greedy, decode


def test_names_of_candidates_are_parsed_as_they_are_printed() -> None:
    assert [parse(candidate.name) for candidate in ALL] == ALL
    assert parse("ours-int8-paged-2x1") == Candidate("ours", "int8", "paged", 2, 1)
    assert parse("hf-1x2").processes == 1 and parse("hf-2x1").processes == 2
    assert parse("ct2-int8-2x1").processes == 1


@pytest.mark.parametrize("name", ["ours", "ours-2x1", "hf-float32-2x1", "marian-2x1", "hf-2"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a candidate; examples: floor-2x1"):
        parse(name)


def test_each_process_gets_an_equal_share_of_every_length() -> None:
    lengths = [3, 9, 4, 8, 5, 7, 6]
    assert deal(lengths, 1) == [[1, 3, 5, 6, 4, 2, 0]]
    hands = deal(lengths, 2)
    assert [[lengths[i] for i in hand] for hand in hands] == [[9, 7, 5, 3], [8, 6, 4]]


def test_the_cpu_seconds_of_a_process_grow_with_its_work() -> None:
    if not Path("/proc/self/stat").is_file():
        pytest.skip("there is no /proc")
    import os
    import time

    before, start = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - start < 0.1:
        sum(range(10_000))
    assert cpu_seconds(os.getpid()) - before >= 0.05
    assert cpu_seconds(2**30) == 0.0


def test_memory_that_is_written_is_resident() -> None:
    import mmap

    size, before = 2**26, resident()
    with mmap.mmap(-1, size) as memory:  # none that was freed before
        memory.write(b"a" * size)
        assert not before or resident() - before >= 0.9 * size


def test_the_floor_counts_the_products_of_a_translation_without_padding(tmp_path: Path) -> None:
    model = save_model(tmp_path / "a.ckpt", *TINY_MODEL, "attn=mqa", "model.activation=swiglu")
    record, floor = Record(model), Floor(model)
    rows = [[5, 6, 7, EOS], [8, EOS]]
    hypotheses = decode(model, pad_rows(rows), Greedy(length_ratio=0, length_extra=3))
    longest = max(len(each[0].ids) + (not each[0].truncated) for each in hypotheses)
    assert record.steps[0] == Step(True, 6)
    assert len(record.steps) == 1 + longest and record.steps[1] == Step(False, 2)

    # Dim 32, one key/value head of width 8, inner width 32 with a gate; 1 + 2 layers.
    self_attention, feed = 32 * (32 + 8 + 8) + 32 * 32, 3 * 32 * 32
    encoder = self_attention + feed + 2 * 32 * (8 + 8)  # keys and values of two cross-attentions
    decoder = (
        2 * (self_attention + 2 * 32 * 32 + feed)
        + 32 * checkpoint.read(tmp_path / "a.ckpt").target.size
    )
    counted = floor.multiplications([Step(True, 6), Step(False, 2), Step(False, 1)])
    assert counted == 6 * encoder + 3 * decoder


def test_a_replay_does_as_many_multiplications_as_it_counts(tmp_path: Path) -> None:
    floor = Floor(save_model(tmp_path / "a.ckpt", *TINY_MODEL))
    steps = [Step(True, 6), Step(False, 2)]
    floor.replay(steps)  # makes its buffers
    with torch.profiler.profile(with_flops=True) as profile:
        floor.replay(steps)
    flops = sum(event.flops or 0 for event in profile.key_averages())
    assert flops == 2 * floor.multiplications(steps)


def measured(**seconds: list[float]) -> Measured:
    results = {}
    for name, spent in seconds.items():
        candidate = parse(name.replace("_", "-"))
        hypotheses = [[4, 5], [6]] if name != "hf_1x2" else [[4, 5], [7]]
        runs = [Run(each, 0.05, i % 2) for i, each in enumerate(spent)]
        results[candidate.name] = Result(candidate, runs, hypotheses, None, 250_000_000)
    return Measured(Job("free", 5, 40), results, ["`ours-int8`: no"])


def test_ratios_compare_with_the_best_competitor_and_the_floor_of_the_same_layout() -> None:
    figures = lines(
        measured(
            floor_2x1=[1.0, 1.0],
            floor_1x2=[2.0, 2.5],
            ours_float32_dense_2x1=[2.0, 2.0],
            ours_int8_dense_1x2=[1.0, 1.0],
            ct2_float32_2x1=[3.0, 3.0],
            ct2_float32_1x2=[4.0, 4.0],
            ct2_int8_1x2=[0.5, 0.5],
            hf_1x2=[8.0, 8.0],
        ),
        quality=lambda ids: float(len(ids)),
    )
    by_name = {line.name: line for line in figures}
    ours = by_name["ours-float32-dense-2x1"]
    assert ours.rates == [1.0, 1.0] and ours.tokens == 5 / 2.0
    assert (ours.floor, ours.ct2, ours.hf, ours.same) == (2.0, 1.5, 4.0, 1.0)
    int8 = by_name["ours-int8-dense-1x2"]
    assert (int8.floor, int8.ct2) == (1.0 / 2.25, 0.5)
    assert by_name["ct2-float32-1x2"].ct2 == 0.75
    assert by_name["hf-1x2"].same == 0.5 and by_name["hf-1x2"].bleu == 2.0
    floor = by_name["floor-2x1"]
    assert (floor.ct2, floor.same, floor.bleu) == (None, None, None)


def test_a_section_says_what_was_left_out_void_or_unsteady() -> None:
    result = measured(floor_2x1=[1.0, 1.05], floor_1x2=[2.0, 2.5])
    text = section(result, lines(result))
    assert "4 runs, during which other processes used at most 0.05 cores; 2 other runs were" in text
    assert "Not steady: the rounds of floor-1x2 differ" in text
    assert "left out `ours-int8`: no" in text and "## beam 5, free lengths" in text


class Sprinter:
    """A candidate with several batch sizes that is fastest with 32."""

    candidate = parse("hf-1x2")

    def __init__(self) -> None:
        self.prepared: list[BatchSize] = []

    def prepare(self, job: Job, rows: Any, batch_size: BatchSize) -> None:
        self.prepared.append(batch_size)

    def go(self) -> float:
        return abs(self.prepared[-1].size - 32) + 1.0

    def hypotheses(self) -> list[list[int]]:
        return [[4]]

    def cpu_seconds(self) -> float:
        return 0.0

    def resident(self) -> int:
        return 0


def test_the_fastest_batch_size_is_chosen() -> None:
    crew = Sprinter()
    sizes = [BatchSize(size, "sentences") for size in (16, 32, 64)]
    tokens = BatchSize(32, "tokens")  # not a unit of this candidate
    protocol = Protocol(rounds=3, warmup=1, batch_sizes=[*sizes, tokens], anyway=True)
    sprint = protocol.measure({"hf-1x2": crew}, Job("free", 1, 9), [[4, EOS]])  # type: ignore[dict-item]
    assert crew.prepared == [*sizes, sizes[1]]
    assert sprint.results["hf-1x2"].batch_size == sizes[1]
    assert sprint.results["hf-1x2"].seconds == [1.0, 1.0, 1.0]


@pytest.mark.slow
def test_the_script_compares_in_processes_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    text = tmp_path / "text.de"
    text.write_text("".join(f"{line}\n" for line in demo_lines("test", "de", 4)), encoding="utf-8")
    options = [str(tmp_path / "a.ckpt"), str(text), "--reference", str(text), "--anyway"]
    options += ["--candidates", "floor-1x1,ours-float32-dense-2x1,ours-float32-dense-1x1"]
    options += ["--rounds", "1", "--warmup", "0", "--beams", "1", "--forced-length", "3"]
    monkeypatch.setattr(sys, "argv", ["x", *options, "--output", str(tmp_path / "new")])
    benchmark_decoding.main()
    stem = tmp_path / "new" / "decoding"
    (head, free, forced) = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
    assert "4 sentences of text.de" in head["conditions"][1]
    assert (free["regime"], forced["regime"], forced["limit"]) == ("free", "forced", 3)
    by_name = {each["name"]: each for each in forced["candidates"]}
    assert by_name["ours-float32-dense-1x1"]["same"] == 1.0
    assert by_name["ours-float32-dense-1x1"]["floor"] > 1
    for each in by_name.values():  # four translations of three pieces
        assert each["tokens"] == pytest.approx(12 / each["runs"][0]["seconds"])
    assert "## greedy, all of 3 pieces" in stem.with_suffix(".md").read_text(encoding="utf-8")
    assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "| ours-float32-dense-2x1 |" in capsys.readouterr().out
