"""A run of an earlier version: its checkpoint, its overrides and its choice of a head are read.

It was made in a copy of `earlier_run/` with `overrides.yaml`, when modules and classes had other
names. `scores.json` is what that version's `seq2seq score` said of the validation pairs; the losses
below are those with which it went on.
"""

import json
from pathlib import Path

import pytest
from helpers.tiny_runs import metrics, train_again
from yaml import safe_load

from seq2seq import Translator
from seq2seq.alignment.choice import Choice, load_choice, save_choice

EARLIER = Path(__file__).parent / "earlier_run"


def recorded(cache: Path) -> list[str]:
    """What was typed, but for the files, which are elsewhere now."""
    typed = safe_load((EARLIER / "overrides.yaml").read_text(encoding="utf-8"))
    files = {
        "data.train": EARLIER / "train",
        "data.valid": EARLIER / "valid",
        "guided.links": EARLIER / "train.align",
        "data.cache": cache,
    }
    kept = [option for option in typed if option.split("=")[0] not in files]
    return [*kept, "run_name=again", *(f"{option}={path}" for option, path in files.items())]


def lines(name: str) -> list[str]:
    return (EARLIER / name).read_text(encoding="utf-8").splitlines()


def test_its_model_says_what_it_said() -> None:
    scores = Translator.load(EARLIER / "last.ckpt").score(lines("valid.de"), lines("valid.en"))
    expected = [json.loads(line)["log_probability"] for line in lines("scores.json")]
    assert [score.log_probability for score in scores] == pytest.approx(expected, rel=1e-4)


def test_its_training_goes_on(tmp_path: Path) -> None:
    resume = f"resume={EARLIER / 'last.ckpt'}"
    options = [o for o in recorded(tmp_path / "cache") if not o.startswith("trainer.max_steps=")]
    train_again(tmp_path, *options, "trainer.max_steps=50", resume)
    assert metrics(tmp_path, "valid/loss") == pytest.approx([3.628591], rel=1e-4)
    assert metrics(tmp_path, "train/loss") == pytest.approx([3.786266, 3.601140], rel=1e-4)


def test_a_new_run_begins_with_its_weights(tmp_path: Path) -> None:
    changed = ("tokenizer", "trainer.")
    options = [o for o in recorded(tmp_path / "cache") if not o.startswith(changed)]
    start = f"init={EARLIER / 'last.ckpt'}", "tokenizer=checkpoint", "optimizer.lr=1e-9"
    train_again(tmp_path, *options, *start, "trainer.max_steps=1")
    assert metrics(tmp_path, "valid/loss")[0] < 4  # it was 5 at first


def test_its_choice_of_a_head_is_read(tmp_path: Path) -> None:
    """The threshold was called "least"."""
    checkpoint = tmp_path / "best.ckpt"
    checkpoint.write_bytes(b"weights")
    choice = Choice(0, 1, None, threshold=0.4)
    file = save_choice(checkpoint, choice)
    file.write_text(file.read_text().replace("threshold", "least"))
    assert load_choice(checkpoint) == choice
