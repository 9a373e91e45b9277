"""The strings, the cells and the page of the study of the zoo."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import zoo_study
from helpers.builders import presets
from helpers.tiny_runs import plan_of
from study import running
from study.cells import ON_SCAN, RUNS, TASKS, Cell, rows_of, select_cells
from study.page import BEGIN, END, bucket_score, insert_table, place, read_cells, render_tables
from study.picture import FAMILIES
from study.running import by_length, score
from study.strings import EACH, FEW, LONGEST, PAIRS, TRAINED, write_strings

from seq2seq.base.errors import Seq2SeqError


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


def test_strings_are_copied_and_reversed_short_in_training_and_longer_beyond(tmp_path) -> None:
    for task in ("copy", "reverse"):
        write_strings(tmp_path / task, task)
    sources = {part: lines(tmp_path / "copy" / f"{part}.source") for part in PARTS}
    for part, strings in sources.items():
        assert lines(tmp_path / "reverse" / f"{part}.source") == strings
        assert lines(tmp_path / "copy" / f"{part}.target") == strings
        assert lines(tmp_path / "reverse" / f"{part}.target") == [s[::-1] for s in strings]
    counts = {part: [len(string) for string in strings] for part, strings in sources.items()}
    assert len(counts["train"]) == PAIRS and set(counts["train"]) == set(range(1, TRAINED + 1))
    assert sorted(counts["test"] + counts["beyond"]) == [
        length for length in range(1, LONGEST + 1) for _ in range(EACH)
    ]
    assert max(counts["test"]) == TRAINED < min(counts["beyond"])
    trained = {tuple(string) for string in sources["train"]}
    assert not any(tuple(s) in trained for s in sources["test"] + sources["valid"] if len(s) > FEW)


PARTS = ("train", "valid", "test", "beyond")


def test_the_seed_alone_decides_the_strings(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        write_strings(tmp_path / name, "copy", seed)
    one, again, other = (
        (tmp_path / name / "train.source").read_bytes() for name in ("one", "again", "other")
    )
    assert one == again != other


def test_rows_are_every_preset_and_every_scheme() -> None:
    rows = rows_of("copy")
    assert {row.preset for row in rows} == set(presets("attn"))
    assert {row.position for row in rows if row.preset == "mha"} == set(presets("position"))
    assert len(rows) == len(set(rows)) == len(presets("attn")) + len(presets("position")) - 1
    assert len(ON_SCAN) == 9 == len(set(rows_of("scan_jump")))


def test_each_row_has_a_place_in_the_picture() -> None:
    drawn = [row for rows in FAMILIES.values() for row in rows]
    assert sorted(drawn) == sorted(row.name for row in rows_of("reverse"))


def test_cells_are_chosen_by_task_and_row() -> None:
    cells = list(select_cells(["copy", "scan_jump"], ["mha+rope"], 1))
    assert [cell.key for cell in cells] == [
        *(("copy", "mha+rope", 1), ("scan_jump", "mha+rope", 1)),
    ]
    with pytest.raises(SystemExit, match="unknown row 'mha\\+rop'.*mha\\+rope"):
        list(select_cells(["copy"], ["mha+rop"], 1))
    with pytest.raises(SystemExit, match="unknown task 'cpoy'. Known: copy, reverse"):
        list(select_cells(["cpoy"], [], 1))


@pytest.mark.parametrize(
    "task", [t if t == "scan_length" else pytest.param(t, marks=pytest.mark.slow) for t in TASKS]
)
def test_the_printed_training_is_one_that_can_be_typed(task: str) -> None:
    """The whole configuration of each row is built and checked."""
    for row in rows_of(task):
        variable, *typed = shlex.split(Cell(TASKS[task], row).commands(RUNS)[0])
        assert (variable, typed[:2]) == ("OMP_NUM_THREADS=1", ["python", "train.py"])
        plan = plan_of(Path("nowhere"), *typed[2:])
        assert plan.trainer.precision == "32-true"
        # One validation, at the end: what is tested are the last weights.
        assert plan.trainer.val_check_interval == plan.trainer.max_steps


def test_scores_by_hand() -> None:
    pairs = [("a b c", "a b c"), ("a c", "a b c"), ("x y z w", "a b c")]
    # Edits 0, 1 (b is missing) and 4, of 9 symbols.
    assert score(pairs) == {"exact": pytest.approx(33.33), "symbols": pytest.approx(44.44)}
    assert score([("x x x x", "a")])["symbols"] == 0.0
    groups = by_length([*pairs, ("a", "a")])
    assert [(g["length"], g["pairs"], g["exact"]) for g in groups] == [
        *((1, 1, 100.0), (3, 3, pytest.approx(33.33))),
    ]


def cell_line(task: str, row: str, **changed: Any) -> dict[str, Any]:
    line = {
        "task": task,
        "row": row,
        "seed": 1,
        "updates": 5,
        "attention": "mha",
        "parameters": 1234,
        "exact": {"within": 100.0, "beyond": 12.5},
        "symbols": {"within": 100.0, "beyond": 61.25},
        "by_length": [
            {"length": n, "pairs": 2, "exact": 50.0 if n > 20 else 100.0, "symbols": 80.0}
            for n in range(1, 41)
        ],
        "cpu_seconds": 60.0,
        "tokens_per_second": 9000,
        "processor": "a processor",
        "torch": "2",
    }
    return {**line, **changed}


def test_a_bucket_is_weighted_by_its_pairs() -> None:
    by = [{"length": 21, "pairs": 1, "exact": 100.0}, {"length": 22, "pairs": 3, "exact": 0.0}]
    assert bucket_score({"by_length": by}, range(21, 26)) == 25.0


def test_the_table_renders_from_lines_and_leaves_the_rest_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "zoo.jsonl"
    cells = [
        cell_line("copy", "mha"),
        cell_line("copy", "fixed", attention="encoder mha, decoder mha, cross fixed"),
        cell_line("scan_jump", "mha"),
    ]
    results.write_text("".join(json.dumps(cell) + "\n" for cell in cells), encoding="utf-8")
    results.with_suffix(".md").write_text(f"above\n{BEGIN}\n{END}\nby hand\n", encoding="utf-8")
    run_script(monkeypatch, "--table", "--results", results)
    page = results.with_suffix(".md").read_text(encoding="utf-8")
    assert page == insert_table(page, render_tables(cells))
    assert page.startswith("above\n") and page.endswith("\nby hand\n")
    assert "| `fixed` | cross | 100.0 | 100.0 | 50.0 | 50.0 | 50.0 | 61.2 | 1,234 | 60 |" in page
    assert "| `mha` | - | - | - | - | 100.0 | 12.5 |" in page
    assert "reverse: row" not in page
    assert results.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_page_in_docs_is_that_of_its_cells() -> None:
    page = (zoo_study.RESULTS / "zoo.md").read_text(encoding="utf-8")
    wanted = insert_table(page, render_tables(read_cells(zoo_study.RESULTS / "zoo.jsonl")))
    assert page == wanted, "type: python scripts/zoo_study.py --table"


def test_seeds_of_a_cell_are_averaged() -> None:
    seeds = [cell_line("copy", "mha", seed=n, cpu_seconds=n * 10.0) for n in (1, 2)]
    assert "| `mha`, 2 seeds | all | 100.0 |" in render_tables(seeds)
    assert "| 15 |" in render_tables(seeds)


def test_a_mechanism_is_named_where_it_stands() -> None:
    stands = {
        "encoder mha, decoder mha, cross local_m": "cross",
        "encoder longformer, decoder longformer, cross mha": "encoder, decoder",
        "gqa (2)": "all",
    }
    assert {told: place({"row": "x", "attention": told}) for told in stands} == stands


def run_script(monkeypatch: pytest.MonkeyPatch, *typed: object) -> int:
    monkeypatch.setattr(sys, "argv", ["zoo_study.py", *map(str, typed)])
    return zoo_study.main()


def test_cells_that_are_there_are_skipped_and_a_failed_one_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "zoo.jsonl"
    results.write_text(json.dumps(cell_line("copy", "mha")) + "\n", encoding="utf-8")

    def run_instead(cell: Cell, *_: object) -> dict[str, Any]:
        if cell.row.name == "gqa":
            raise zoo_study.Seq2SeqError("no memory")
        return cell_line(cell.task.name, cell.row.name)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo_study, "run_cell", run_instead)
    typed = ("--task", "copy", "--rows", "mha,gqa,mqa", "--results", results)
    assert run_script(monkeypatch, *typed) == 1
    assert [cell["row"] for cell in read_cells(results)] == ["mha", "mqa"]
    assert "copy gqa: no memory" in capsys.readouterr().err


def test_trials_are_no_cells_of_the_page_and_damage_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = ("--task", "copy", "--rows", "mha", "--set", "model.dropout=0.5")
    with pytest.raises(SystemExit):
        run_script(monkeypatch, *trial)
    assert "add --results FILE" in capsys.readouterr().err
    assert run_script(monkeypatch, "--print", *trial) == 0
    assert "model.dropout=0.5" in capsys.readouterr().out.splitlines()[0]
    results = tmp_path / "mine.jsonl"
    results.write_text(json.dumps(cell_line("copy", "mha")) + "\n", encoding="utf-8")
    with pytest.raises(Seq2SeqError, match="there is no .*mine.md"):
        run_script(monkeypatch, "--table", "--results", results)
    results.write_text('{"task": "co', encoding="utf-8")
    with pytest.raises(Seq2SeqError, match="mine.jsonl has a damaged line"):
        read_cells(results)


def test_the_speed_of_a_run_is_known_after_another_part_without_updates(tmp_path: Path) -> None:
    text = "step,train/tokens_per_second,valid/loss\n1,100,\n2,300,\n2,,5\n"
    (tmp_path / "metrics-1.csv").write_text(text)
    assert running.tokens_per_second(tmp_path) == 200


@pytest.mark.slow  # six processes
def test_a_cell_from_end_to_end_and_again_from_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "processor", lambda: "a processor")
    small = ("trainer.max_steps=3", "data.max_tokens=256", "model.dim=16", "schedule.warmup=1")
    found = []
    for results in (tmp_path / "one.jsonl", tmp_path / "two.jsonl"):
        typed = ("--task", "reverse", "--rows", "fixed", "--runs", "runs", "--results", results)
        assert run_script(monkeypatch, *typed, "--set", *small) == 0
        found += read_cells(results)
    cell, again = found
    assert (cell["task"], cell["row"], cell["updates"]) == ("reverse", "fixed", 3)
    assert cell["attention"] == "encoder mha, decoder mha, cross fixed"
    assert [each["length"] for each in cell["by_length"]] == list(range(1, LONGEST + 1))
    assert sum(each["pairs"] for each in cell["by_length"]) == EACH * LONGEST
    assert cell["cpu_seconds"] > 0 and cell["parameters"] > 1000
    assert all(option in cell["commands"][0] for option in small)
    # The run was there: it is tested again, and its seconds are not known.
    assert again["cpu_seconds"] is None and again["by_length"] == cell["by_length"]
