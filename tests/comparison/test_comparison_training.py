"""A whole comparison: two files are divided, presets are trained, and one page is written."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random

import pytest
from helpers.builders import every_other, small_model
from helpers.commands import Command, refused
from helpers.tiny_runs import TINY_MODEL, demo_lines
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.comparison import memory
from seq2seq.comparison.maps import draw_weights, find_sentence
from seq2seq.comparison.memory import decoding_by_length, measure_memory, training_by_length
from seq2seq.comparison.runs import best_validation, validations
from seq2seq.comparison.splits import connect_pairs, hold_out, language_of, write_parts
from seq2seq.comparison.training import Grid, combinations
from seq2seq.data.text.leaks import count_leaks, fold_text

SOME = [(f"line {n}", f"z {n}") for n in range(60)]  # enough to be divided
SOURCES = st.sampled_from([f"{word} {n}" for word in "aÄb" for n in range(30)] + ["", " a  1. "])
TARGETS = st.sampled_from([f"x {n}" for n in range(40)] + ["X, 1", ""])
PAIRS = st.lists(st.tuples(SOURCES, TARGETS), max_size=60).map(lambda pairs: SOME + pairs)
SMALL = (
    *("data.vocab_size=400", "data.max_tokens=512", "trainer=cpu", "trainer.precision=32-true"),
    *("schedule.warmup=2", "decode=greedy", "validation.sentences=4", *TINY_MODEL),
)


@given(PAIRS, st.integers(1, 2))
def test_no_sentence_is_in_two_parts_and_nothing_is_lost(
    pairs: list[tuple[str, str]], count: int
) -> None:
    parts = hold_out(pairs, count, "text")
    for side in (0, 1):
        texts = [{"".join(fold_text(pair[side])) for pair in part} for part in parts]
        for i, held_out in enumerate(texts[1:], start=1):
            assert "" not in held_out
            assert all(held_out.isdisjoint(texts[j]) for j in range(i))
    assert {pair for part in parts for pair in part} == set(pairs)
    assert all(len(set(part)) == len(part) > 0 for part in parts[1:])


@given(PAIRS)
def test_groups_are_the_connected_components(pairs: list[tuple[str, str]]) -> None:
    keys = [{(side, "".join(fold_text(text))) for side, text in enumerate(pair)} for pair in pairs]
    keys = [{key for key in row if key[1]} for row in keys]
    expected: list[tuple[set[int], set[tuple[int, str]]]] = []
    for row, known in enumerate(keys):
        touching = [group for group in expected if group[1] & known]
        expected = [group for group in expected if not group[1] & known]
        rows, merged = zip(({row}, known), *touching, strict=True)
        expected.append((set().union(*rows), set().union(*merged)))
    groups = {frozenset(rows) for rows, _ in expected}
    assert {frozenset(rows) for rows in connect_pairs(pairs)} == groups


CAPTION = "a man in a red jacket is {} near the river with a brown dog"


def test_planted_leaks_stay_on_one_side() -> None:
    pairs = [(f"{word_of(n)} source", f"{word_of(n)} target") for n in range(2000)]
    for n in range(0, 2000, 40):
        pairs.append((f"{word_of(n).upper()}, Source!", f"paraphrase {n}"))
        pairs.append((f"paraphrase {n}", f"{word_of(n + 1)}  TARGET."))
        pairs.append((CAPTION.format(word_of(n)) + f" {n // 80}" * 9, f"near {n}"))
    train, *held_out = hold_out(pairs, 2, "text")
    assert [len(part) for part in held_out] == [107, 107]
    for part in held_out:
        assert count_leaks(part, train) == (0, 0)
    assert count_leaks(held_out[0], held_out[1]) == (0, 0)


def test_sentences_of_a_grammar_are_divided_and_their_near_copies_are_counted() -> None:
    pairs = [(CAPTION.format(word_of(n)), f"{word_of(n)} target") for n in range(200)]
    train, test = hold_out(pairs, 1, "text")
    assert count_leaks(test, train) == (0, len(test)) == (0, 10)


def word_of(n: int) -> str:
    """A different word of letters for each number."""
    return "".join("abcdefghij"[int(digit)] for digit in str(n))


@given(PAIRS, st.randoms())
def test_the_order_of_lines_does_not_decide_what_is_held_out(
    pairs: list[tuple[str, str]], random: Random
) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    one, other = hold_out(pairs, 2, "text"), hold_out(shuffled, 2, "text")
    assert [sorted(set(part)) for part in one] == [sorted(set(part)) for part in other]


def test_a_twentieth_is_held_out_of_a_text_and_no_more_than_500_pairs() -> None:
    for lines, held in ((400, 20), (30_000, 500)):
        pairs = [(f"sentence {n}", f"translation {n}") for n in range(lines)]
        train, valid, test = hold_out(pairs, 2, "text")
        assert (len(train), len(valid), len(test)) == (lines - 2 * held, held, held)


def test_a_text_too_small_to_be_divided_is_refused() -> None:
    with pytest.raises(DataError, match=r"has 1 group.*--valid SOURCE TARGET"):
        hold_out([("a", "x"), ("b", "y"), ("a ", "z"), ("", "x")], 2, "my.de")


def test_given_parts_are_used_and_never_mixed_with_other_text(tmp_path: Path) -> None:
    text = write_text(tmp_path, "my", [(f"quelle {n}", f"target {n}") for n in range(40)])
    valid = write_text(tmp_path, "dev", [("eins", "one"), ("zwei", "two")])
    parts = write_parts(
        text, {"valid": valid, "test": None}, tmp_path / "out", ("de", "en"), anew=False
    )
    assert parts.counts == {"train": 38, "valid": 2, "test": 2}
    assert parts.files["valid"][1].read_text() == "one\ntwo\n"
    write_parts(text, {"valid": valid, "test": None}, tmp_path / "out", ("de", "en"), anew=False)
    with pytest.raises(ConfigError, match="holds other text.*-o ANOTHER"):
        write_parts(text, {"valid": None, "test": None}, tmp_path / "out", ("de", "en"), anew=False)


def test_text_is_replaced_if_nothing_was_trained_on_it(tmp_path: Path) -> None:
    given: dict[str, tuple[Path, Path] | None] = {"valid": None, "test": None}
    one, other = (write_text(tmp_path, name, SOME[n:]) for n, name in enumerate("ab"))
    parts = (given, tmp_path / "data", ("de", "en"))
    write_parts(one, *parts, anew=True)
    written = write_parts(other, *parts, anew=True)
    assert sum(written.counts.values()) == len(SOME) - 1
    assert written.leaks == dict.fromkeys(given, (0, 0))
    with pytest.raises(ConfigError, match="holds other text"):
        write_parts(one, *parts, anew=False)


def test_languages_are_suffixes_unless_typed() -> None:
    none = None, None
    assert language_of((Path("my.v2.de.gz"), Path("my.v2.en")), none) == ("de", "en")
    assert language_of((Path("a.txt"), Path("b.txt")), none) == ("source", "target")
    assert language_of((Path("a"), Path("b.en")), ("ja", None)) == ("ja", "target")


MHA = Grid("mha")


def test_every_combination_of_options_becomes_a_run() -> None:
    typed = ["attn=mha,fixed", "+cross_attn.dropout=0.1", "seed=1,2"]
    assert list(combinations(typed, MHA)) == [
        (attn, f"seed={seed}", (f"attn={attn}", typed[1], f"seed={seed}"))
        for attn in ("mha", "fixed")
        for seed in (1, 2)
    ]
    names = {n for n, *_ in combinations(["attn=glob(m?a)", "position=rope", "seed=1"], MHA)}
    assert names == {"mha", "mla", "mqa"}


def test_one_role_at_a_time_has_another_mechanism() -> None:
    typed = ["attn=additive,mha", "seed=1"]
    found = combinations(typed, Grid("mha", ("encoder", "cross")))
    assert [(name, options[0], options[2:]) for name, _, options in found] == [
        ("mha,attn@encoder_attn=additive", "attn=mha", ("attn@encoder_attn=additive",)),
        ("mha,attn@cross_attn=additive", "attn=mha", ("attn@cross_attn=additive",)),
        ("mha", "attn=mha", ()),
    ]
    # Without the reference, the first mechanism takes its place.
    first = next(combinations(["attn=gqa,additive", "seed=1"], Grid("mha", ("cross",))))
    assert first[0] == "gqa"


@pytest.mark.parametrize("mode", [min, max])
def test_the_best_validation_is_found_whether_more_or_less_is_better(
    tmp_path: Path, mode: object
) -> None:
    values = [3.0, 1.0, 2.0, 7.0, 5.0]
    (tmp_path / "metrics.csv").write_text(
        "step,valid/loss,valid/command\n"
        + "".join(f"{n},0.{n},{value}\n" for n, value in enumerate(values))
    )
    best = mode(values)  # type: ignore[operator]
    rows = validations(tmp_path, "command")
    row = best_validation(rows, {"monitor": "command", "value": best})
    assert float(row["valid/command"]) == best


def test_a_run_that_was_killed_after_its_last_update_keeps_its_curve(tmp_path: Path) -> None:
    rows = "step,valid/loss\n0,2.0\n1,1.0\n"
    (tmp_path / "metrics-1.csv").write_text(rows)  # set aside; the part that resumed it wrote none
    assert [row["step"] for row in validations(tmp_path, "loss")] == ["0", "1"]
    (tmp_path / "metrics.csv").write_text("step,valid/loss\n2,0.5\n")
    assert [row["step"] for row in validations(tmp_path, "loss")] == ["0", "1", "2"]


def test_memory_is_measured_up_to_the_longest_text_of_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "LENGTHS", (16, 32, 64, 128))
    model = small_model("transformer", "position=learned", "data.max_length=64")
    past, source = measure_memory(model, 64)
    held = decoding_by_length(model)
    assert held == [(n, n * (past.each + source.each)) for n in (16, 32, 64)]
    peaks = training_by_length(model)
    assert [length for length, _ in peaks] == [16, 32, 64]
    gradients = sum(p.numel() * p.element_size() for p in model.parameters())
    assert gradients < peaks[0][1] < peaks[1][1] < peaks[2][1]
    assert not model.training and all(p.grad is None for p in model.parameters())


def test_a_map_shows_each_weight_in_its_cell() -> None:
    drawn = draw_weights(tensor([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]), ["ja", "<b>"], ["yes", "b"])
    assert drawn.count("<rect") == 6 and "<b>" not in drawn
    assert "yes looked at &lt;b&gt;: 75%" in drawn and "b looked at ja: 100%" in drawn
    leftwards = draw_weights(tensor([[0.25, 0.75, 0.0]]), ["\u05d0", "\u05d1"], ["a"])
    assert leftwards.index(">end<") < leftwards.index(">\u05d1<") < leftwards.index(">\u05d0<")


def test_a_sentence_is_a_line_or_a_text() -> None:
    pairs = [("eins", "one"), (" ", "two")]
    assert find_sentence("1", pairs, "my.de") == ("eins", "one", "line 1 of my.de")
    assert find_sentence("Drei", pairs, "my.de") == ("Drei", None, "")
    for typed, message in (("2", "is empty"), ("3", "give 1 to 2"), ("", "is empty")):
        with pytest.raises(DataError, match=message):
            find_sentence(typed, pairs, "my.de")


def write_text(folder: Path, name: str, pairs: Iterable[tuple[str, str]]) -> tuple[Path, Path]:
    files = folder / f"{name}.de", folder / f"{name}.en"
    for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def demo_text(folder: Path) -> tuple[Path, Path]:
    pairs = zip(demo_lines("train", "de", 120), demo_lines("train", "en", 120), strict=True)
    return write_text(folder, "my", pairs)


REFUSED = {
    "attn=mha,mhaa": "mhaa,seed=1: unknown attn 'mhaa'; did you mean 'mha'?",
    "attn=mha,linear position=rope model=rnn": "position",
    "attn=additive position=rope": "additive,seed=1: score=additive",
    "attn=mha modle.dim=4": "unknown option modle",
    "attn=mha data.train=x": "data.train=... cannot be set here: the two files are the data",
    "attn=mha hydra.run.dir=x": "hydra.run.dir=... cannot be set here: -o FOLDER",
    "attn=mha logger=none": "logger=none would leave no curves",
    "position=rope": "to compare several, type presets such as attn=mha,additive,gqa",
    "attn=mha --roles cross": "--roles replaces one mechanism by others",
    "attn=mha,gqa --roles all": "all is not a role: give some of encoder, decoder, cross",
    "attn=mha,gqa attn@cross_attn=mha --roles cross": "cannot be set here: --roles sets it",
    "attn=mha,gqa --learning-rates 1e-3,x": "optimizer.lr='x' should be a number",
    "attn=mha,gqa --learning-rates 1e-3,1e-3": "the same run twice",
    "attn=mha,gqa optimizer.lr=1 --learning-rates 1e-3": "--learning-rates lists its values",
    "attn=mha,gqa --metrics bleuu": "there is no metric 'bleuu'",
    "attn=mha --sentence 99": "--sentence 99 is not a line of",
    "attn=mha,mha": "mha,seed=1: the same run twice",
    "attn=mha third.txt": "to train, give two files of text and options",
}


@pytest.mark.parametrize("typed", every_other(REFUSED))
def test_mistakes_are_reported_before_anything_is_trained(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seq2seq: Command
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_: pytest.fail("it trained"))
    ended = seq2seq("compare", *demo_text(tmp_path), *typed.split(), "-o", tmp_path / "out")
    assert REFUSED[typed] in refused(ended)


def test_files_that_are_not_parallel_or_empty_are_refused(tmp_path: Path, seq2seq: Command) -> None:
    source, target = demo_text(tmp_path)
    empty = tmp_path / "empty.en"
    empty.touch()
    short = tmp_path / "short.en"
    short.write_text("one\n")
    for other, message in ((short, "has 120 line(s)"), (empty, "empty.en is empty")):
        command = ("compare", source, other, "attn=mha", "-o", tmp_path / "out")
        assert message in refused(seq2seq(*command))
    for typed in (("--valid", source, target), ("--roles", "cross"), ("--learning-rates", "1")):
        message = refused(seq2seq("compare", tmp_path, *typed))
        assert f"{typed[0]} is only for training" in message


def test_no_file_that_is_read_is_overwritten(tmp_path: Path, seq2seq: Command) -> None:
    source, target = demo_text(tmp_path)
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    for written in (out / "comparison.md", out / "data" / "train.de"):
        (out / written).hardlink_to(source)
        ended = seq2seq("compare", source, target, "attn=mha,gqa", "-o", out)
        assert f"-o {out} would overwrite {source}, which is read" in refused(ended)
        written.unlink()
    assert source.read_text(encoding="utf-8").count("\n") == 120


@cache
def compared(base: Path) -> tuple[list[str], Path, str]:
    """A comparison of three presets as typed: the command, its folder and its messages."""
    folder = base / "one command"
    folder.mkdir()
    text = [str(file) for file in demo_text(folder)]
    typed = [
        "attn=mha,additive,fixed",
        "seed=1",
        "data.steps=6",
        f"data.cache={folder}/cache",
        *SMALL,
    ]
    command = [sys.executable, "-m", "seq2seq", "compare", *text, *typed, "--sentence", "2"]
    command += ["-o", str(folder / "out"), "--rounds", "1", "--batches", "1", "--sentences", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return command, folder / "out", ended.stderr


@pytest.mark.slow  # three runs
def test_two_files_and_presets_become_one_page(base: Path) -> None:
    _, out, _ = compared(base)
    with (out / "comparison.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert next(iter(rows)) == "mha" and set(rows) == {"mha", "additive", "fixed"}
    assert all(row["tests_BLEU_mean_value"] and row["speeds_training"] for row in rows.values())
    page = (out / "comparison.html").read_text(encoding="utf-8")
    for part in (
        "Costs",
        "Where: by length of the source",
        "Learning curves",
        "Maps of one sentence",
        "Memory against length",
    ):
        assert f"<h2>{part}</h2>" in page
    assert "src=" not in page and "url(" not in page and "Not available" not in page
    assert page.count('<figure class="look">') == 3 and page.count("No map: ") == 1
    assert page.count('<svg class="chart"') == 2 * 2 + 2  # by updates and by seconds; memory
    line = (out / "data" / "test.de").read_text(encoding="utf-8").splitlines()[1]
    assert line in page
    assert "| mha |" in (out / "comparison.md").read_text()


@pytest.mark.slow
def test_the_same_command_trains_only_what_is_missing(base: Path) -> None:
    command, out, _ = compared(base)
    runs = out / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.glob("*/best.ckpt")}
    # As after a kill: there is a checkpoint, but no result.
    (runs / "fixed,seed=1" / "result.json").unlink()
    command = [*command, "--no-speed"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count("trained already") == 2
    assert json.loads((runs / "fixed,seed=1" / "result.json").read_text())["steps"] == 6
    for path in runs.glob("*/best.ckpt"):
        if "fixed" not in str(path):
            assert path.stat().st_mtime_ns == before[path]
    assert not list((runs / "fixed,seed=1").glob("best-*.ckpt"))  # resumed, not begun anew
    other = [option.replace("data.steps=6", "data.steps=8") for option in command]
    refused = subprocess.run(other, capture_output=True, text=True, timeout=600)
    assert refused.returncode == 2 and "holds a run of other options" in refused.stderr
    assert "data.steps=8" in refused.stderr
