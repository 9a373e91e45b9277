"""Strings to copy and to reverse."""

import sys
from pathlib import Path

import make_strings
import pytest
from helpers.tiny_runs import plan_of
from make_strings import EACH, FEW, LONGEST, PAIRS, TRAINED, write_strings

PARTS = ("train", "valid", "test", "beyond")


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


def test_strings_are_copied_or_reversed_and_longer_ones_are_only_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_strings.py", "-o", str(tmp_path)])
    make_strings.main()
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


def test_the_strings_depend_on_the_seed_only(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        write_strings(tmp_path / name, "copy", seed)
    one, again, other = (
        (tmp_path / name / "train.source").read_bytes() for name in ("one", "again", "other")
    )
    assert one == again != other


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_the_experiment_reads_the_strings_and_validates_once_at_the_end(task: str) -> None:
    """So the last weights are tested."""
    plan = plan_of(Path("nowhere"), f"experiment={task}")
    assert (plan.data.train, plan.data.test) == (f"data/{task}/train", f"data/{task}/test")
    assert plan.trainer.val_check_interval == plan.trainer.max_steps
