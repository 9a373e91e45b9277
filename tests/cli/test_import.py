"""`seq2seq import`: a run like any other, and the command that goes on with it."""

import shlex
from pathlib import Path

import pytest
from helpers.commands import Command, refused
from helpers.interchange_models import marian_folder, texts_of
from helpers.marian import RECURRENT, Marian
from helpers.tiny_runs import train_tiny

from seq2seq import checkpoint
from seq2seq.attention.ssru import SSRU
from seq2seq.checkpoint.differences import find_differences

STILL = ("trainer.max_steps=1", "trainer.val_check_interval=1", "optimizer.lr=1e-9")


def go_on(seq2seq_says: list[str], base: Path, folder: Path) -> checkpoint.Saved:
    """Train with the printed options on the text of the tests. Returns: the new run."""
    typed = shlex.split(seq2seq_says[-1])[2:]
    assert f"init={folder}" in typed
    mine = [word for word in typed if not word.startswith("data")]
    return checkpoint.read(
        train_tiny(base, *STILL, *mine, "optimizer=adam", "data.max_tokens=2048")
    )


def test_a_folder_becomes_a_run_that_translates_and_trains_on(
    seq2seq: Command, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    marian_folder(tmp_path / "hf")
    command = "import", tmp_path / "hf", "-o", tmp_path / "run", "--source", "de"
    ended = seq2seq(*command, "--target", "en")
    assert ended.code == 0 and f"{tmp_path / 'run'}: written" in ended.lines[0]
    assert "116 source and 116 target pieces" in ended.lines[0]
    one, other = (
        seq2seq("translate", tmp_path / "run", *texts_of(1, 3), "--cache", cache).lines
        for cache in ("dense", "paged")
    )
    assert one == other and len(one) == 3
    before = checkpoint.read(tmp_path / "run")
    after = go_on(ended.lines, tmp_path_factory.getbasetemp(), tmp_path / "run")
    assert find_differences(before, after) == []
    assert "give a folder that is new or empty" in refused(seq2seq(*command))


def test_an_archive_of_marian_becomes_a_run(
    seq2seq: Command, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = Marian(**RECURRENT).write(tmp_path)
    command = "import", path, "-o", tmp_path / "run"
    assert "--vocab vocab.spm" in refused(seq2seq(*command))
    ended = seq2seq(*command, "--vocab", tmp_path / "vocab.spm")
    assert ended.code == 0
    before = checkpoint.read(tmp_path / "run")
    assert isinstance(before.build().decoder[0].attention, SSRU)
    assert seq2seq("translate", tmp_path / "run", "ab a").code == 0
    after = go_on(ended.lines, tmp_path_factory.getbasetemp(), tmp_path / "run")
    assert find_differences(before, after) == []
    assert "--vocab and --shortlist are for a .npz" in refused(
        seq2seq("import", tmp_path, "-o", tmp_path / "b", "--vocab", "x")
    )
