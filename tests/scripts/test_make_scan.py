"""Commands of SCAN against examples worked out by hand, and the split."""

import sys
from pathlib import Path

import make_scan
import pytest

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["make_scan.py", "-o", str(tmp_path)])
    make_scan.main()
    return tmp_path


def test_the_grammar_says_every_command_once_and_what_it_means(folder: Path) -> None:
    """As many commands as in the paper."""
    sides = [
        [line for part in ("train", "valid", "test") for line in lines(folder, part, suffix)]
        for suffix in ("command", "action")
    ]
    meanings = dict(zip(*sides, strict=True))
    assert len(sides[0]) == len(meanings) == 20_910
    assert {command: meanings[command] for command in EXAMPLES} == EXAMPLES
    assert max(len(actions.split()) for actions in sides[1]) == 48


def test_four_fifths_are_for_training(folder: Path) -> None:
    sizes = [len(lines(folder, part, "command")) for part in ("train", "valid", "test")]
    assert sizes == [16_728, 418, 3_764]


def lines(folder: Path, part: str, suffix: str) -> list[str]:
    return (folder / f"{part}.{suffix}").read_text(encoding="utf-8").splitlines()
