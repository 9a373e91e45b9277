"""`seq2seq average`: its inputs, and where the mean may be written."""

from pathlib import Path

import pytest
from helpers.commands import Command, refused
from helpers.tiny_runs import TINY_MODEL, save_model

from seq2seq import checkpoint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    return tmp_path / "a.ckpt"


def test_an_average_is_written_to_the_given_file(seq2seq: Command, model: Path) -> None:
    output = model.with_name("mean.ckpt")
    ended = seq2seq("average", model, model, "-o", output)
    assert (ended.code, ended.lines) == (0, [f"{output}: the mean of a.ckpt, a.ckpt"])
    checkpoint.read(output).build()


def test_an_average_in_place_of_a_folder_is_refused_in_one_message(
    seq2seq: Command, model: Path
) -> None:
    command = "average", model, "-o"
    assert f"-o {model.parent} is a folder" in refused(seq2seq(*command, model.parent))
    output = model.parent / "nowhere" / "mean.ckpt"
    assert f"there is no folder {output.parent}" in refused(seq2seq(*command, output))


def test_a_missing_run_is_named(seq2seq: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert f"there is no {run}" in refused(seq2seq("average", run, "--last", "3"))


def test_an_average_is_not_written_to_a_device(seq2seq: Command, model: Path) -> None:
    device = Path("/dev/full")
    if not device.is_char_device():
        pytest.skip("there is no /dev/full")
    assert "/dev/full is not a file" in refused(seq2seq("average", model, "-o", device))
    assert device.is_char_device()
