"""Commands of SCAN, compared with examples worked out by hand, and its splits."""

import sys
from collections.abc import Callable
from pathlib import Path

import make_scan
import numpy as np
import pytest
from helpers.tiny_runs import plan_of

from seq2seq.data.prepare import learn_length_ratio

PARTS = ("train", "valid", "test")
EXAMPLES = {
    "jump": "I_JUMP",
    "jump left": "I_TURN_LEFT I_JUMP",
    "turn left twice": "I_TURN_LEFT I_TURN_LEFT",
    "turn opposite right": "I_TURN_RIGHT I_TURN_RIGHT",
    "walk opposite left": "I_TURN_LEFT I_TURN_LEFT I_WALK",
    "look around right": " ".join(["I_TURN_RIGHT I_LOOK"] * 4),
    "turn around left": " ".join(["I_TURN_LEFT"] * 4),
    "run thrice and look left": "I_RUN I_RUN I_RUN I_TURN_LEFT I_LOOK",
    "run twice after look": "I_LOOK I_RUN I_RUN",
}


Split = Callable[..., None]


@pytest.fixture
def split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Split:
    """A function that runs the script with options, into the temporary folder."""

    def run(*typed: str) -> None:
        monkeypatch.setattr(sys, "argv", ["make_scan.py", "-o", str(tmp_path), *typed])
        make_scan.main()

    return run


def test_the_grammar_produces_every_command_once_with_its_meaning(
    split: Split, tmp_path: Path
) -> None:
    """As many commands as in the paper; four fifths are for training."""
    split()
    sides = [
        [line for part in PARTS for line in lines(tmp_path, part, suffix)]
        for suffix in ("command", "action")
    ]
    meanings = dict(zip(*sides, strict=True))
    assert len(sides[0]) == len(meanings) == 20_910
    assert {command: meanings[command] for command in EXAMPLES} == EXAMPLES
    assert max(len(actions.split()) for actions in sides[1]) == 48
    sizes = [len(lines(tmp_path, part, "command")) for part in PARTS]
    assert sizes == [16_728, 418, 3_764]


@pytest.mark.parametrize(
    ("typed", "sizes"),
    [
        (["--split", "length"], (16_990, 3_920)),  # as in the paper
        (["--split", "length", "--cut-off", "26"], (18_286, 2_624)),
    ],
)
def test_the_length_split_tests_longer_outputs(
    typed: list[str], sizes: tuple[int, int], tmp_path: Path, split: Split
) -> None:
    split(*typed)
    outputs = {part: lines(tmp_path, part, "action") for part in PARTS}
    assert (len(outputs["train"]) + len(outputs["valid"]), len(outputs["test"])) == sizes
    longest = int(typed[3]) if len(typed) > 2 else 22
    assert max(length(line) for line in outputs["train"] + outputs["valid"]) == longest
    assert min(length(line) for line in outputs["test"]) > longest
    assert_disjoint(tmp_path)


def test_the_jump_split_trains_on_the_verb_alone(tmp_path: Path, split: Split) -> None:
    split("--split", "jump")
    commands = {part: lines(tmp_path, part, "command") for part in PARTS}
    assert len(commands["test"]) == 7_706  # as in the paper
    assert all("jump" in command.split() and command != "jump" for command in commands["test"])
    with_jump = [command for command in commands["train"] if "jump" in command]
    assert set(with_jump) == {"jump"}
    assert len(with_jump) / len(commands["train"]) == pytest.approx(0.1, abs=0.001)
    others = [c for c in commands["train"] + commands["valid"] if c != "jump"]
    assert len(set(others)) == len(others) == 20_910 - 7_707
    assert not any("jump" in command for command in commands["valid"])
    assert_disjoint(tmp_path)


@pytest.mark.parametrize("split_name", ["simple", "length", "jump"])
def test_the_experiment_reads_the_files_and_its_limit_cuts_no_answer(
    split_name: str, tmp_path: Path, split: Split
) -> None:
    """The limit on outputs, by default learnt from training data, cuts no right answer."""
    split("--split", split_name)
    folder = make_scan.default_folder(split_name, make_scan.CUT_OFF)
    plan = plan_of(Path("nowhere"), f"experiment={folder.name}")
    assert plan.data.train == str(folder / "train") and plan.data.test == str(folder / "test")
    sides = {
        (part, suffix): np.array([length(line) for line in lines(tmp_path, part, suffix)])
        for part in ("train", "test")
        for suffix in ("command", "action")
    }
    extra = plan.decode["length_extra"]
    ratio = plan.decode["length_ratio"] or learn_length_ratio(
        sides["train", "command"], sides["train", "action"], extra
    )
    assert np.all(sides["test", "action"] + 1 <= ratio * sides["test", "command"] + extra)


def test_a_cut_off_that_leaves_nothing_to_test_is_refused(
    tmp_path: Path, split: Split, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        split("--split", "length", "--cut-off", "48")
    assert "should be 1 to 47" in capsys.readouterr().err
    for kind in ((), ("--split", "jump")):
        with pytest.raises(SystemExit):
            split(*kind, "--cut-off", "26")
        assert "--cut-off is for --split length" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def assert_disjoint(folder: Path) -> None:
    parts = [set(lines(folder, part, "command")) for part in PARTS]
    assert sum(map(len, parts)) == len(set().union(*parts))


def length(line: str) -> int:
    return len(line.split())


def lines(folder: Path, part: str, suffix: str) -> list[str]:
    return (folder / f"{part}.{suffix}").read_text(encoding="utf-8").splitlines()
