"""A choice beside its checkpoint."""

import hashlib
import json
from pathlib import Path

import pytest

from seq2seq.alignment.choice import Choice
from seq2seq.alignment.saved_choice import choice_file, load_choice, save_choice
from seq2seq.base.errors import DataError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "best.ckpt"
    path.write_bytes(b"weights")
    return path


@pytest.mark.parametrize("choice", [Choice(0, 0, None), Choice(1, 5, 0), Choice(0, 2, 7, 0.5, 0.5)])
def test_a_choice_is_loaded_as_it_was_saved(checkpoint: Path, choice: Choice) -> None:
    assert load_choice(checkpoint) is None
    path = save_choice(checkpoint, choice, aer=0.5)
    assert path.name == "best.alignment.json"
    assert load_choice(checkpoint) == choice
    assert {p.name for p in checkpoint.parent.iterdir()} == {"best.ckpt", path.name}


def test_the_file_says_what_one_would_type(checkpoint: Path) -> None:
    entry = json.loads(save_choice(checkpoint, Choice(1, 1, 3, 0.5), aer=0.25).read_text())
    assert entry == {
        "checkpoint": "best.ckpt",
        "sha256": hashlib.sha256(b"weights").hexdigest(),
        "shift": 1,
        "layer": 2,
        "heads": 4,
        "threshold": 0.5,
        "near": 1.0,
        "aer": 0.25,
    }


def test_the_choice_for_other_weights_is_not_used(checkpoint: Path) -> None:
    save_choice(checkpoint, Choice(0, 1, None))
    checkpoint.write_bytes(b"weights after more training")
    with pytest.warns(UserWarning, match=r"not used: .* other weights .* --choose"):
        assert load_choice(checkpoint) is None


DAMAGED = ("", "[]", "{}", '{"shift": 2, "layer": 1, "heads": "mean"}', "[" * 100_000)


@pytest.mark.parametrize("damage", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_choice_is_refused_by_name(checkpoint: Path, damage: str) -> None:
    choice_file(checkpoint).write_text(damage)
    with pytest.raises(DataError, match=r"best\.alignment\.json.* Choose again"):
        load_choice(checkpoint)


@pytest.mark.parametrize("key", ["shift", "layer", "heads", "threshold", "near"])
@pytest.mark.parametrize("value", [None, "all", "mean", True, -1, 1.5])
def test_a_choice_of_what_cannot_be_is_refused(checkpoint: Path, key: str, value: object) -> None:
    if (key, value) == ("heads", "mean"):
        return
    path = save_choice(checkpoint, Choice(0, 1, 1))
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(DataError, match="no choice"):
        load_choice(checkpoint)
