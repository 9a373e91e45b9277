"""Moving averages of weights during a run, and averages of several checkpoints after it."""

import shutil
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from helpers.compared_runs import assert_identical, state_of
from helpers.tiny_runs import (
    TINY_MODEL,
    metrics,
    save_model,
    tiny_overrides,
    train_again,
    train_tiny,
    weights,
)

from seq2seq import checkpoint
from seq2seq.base.errors import CheckpointError
from seq2seq.checkpoint.average import average, list_checkpoints
from seq2seq.checkpoint.folder import KEPT

SHORT = ("trainer.max_steps=6", "trainer.val_check_interval=2", "schedule.steps=6")


def current_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights that training would continue with, saved beside their average."""
    content = torch.load(folder / "last.ckpt", weights_only=True)["current_model_state"]
    return {name.removeprefix("model."): value for name, value in content.items()}


@pytest.mark.slow
def test_a_moving_average_follows_the_weights_of_the_same_run_without_it(base: Path) -> None:
    """It starts with the weights after the first update."""
    decay, expected = 0.23, None  # reached at the third update
    for step in (1, 2, 3):
        now = weights(train_tiny(base, *SHORT, f"trainer.max_steps={step}"))
        if expected is None:
            expected = now
        else:
            d = min(decay, step / (step + 9))  # (1 + n) / (10 + n) for the n averaged so far
            expected = {n: d * expected[n] + (1 - d) * now[n] for n in now}
    folder = train_tiny(base, *SHORT, "trainer.max_steps=3", f"checkpoint.ema={decay}")
    averaged = weights(folder)
    assert expected is not None
    for name in averaged:
        torch.testing.assert_close(averaged[name], expected[name], rtol=1e-5, atol=1e-6)
    assert_identical(current_weights(folder), now)


def test_the_average_is_validated_and_saved(base: Path) -> None:
    options = (*SHORT, "checkpoint.ema=0.9", "checkpoint.keep_last=1", "checkpoint.monitor=loss")
    folder = train_tiny(base, *options)
    (last,) = list_checkpoints(folder, "last", 1)
    assert_identical(checkpoint.read(last).weights, weights(folder))
    plain = train_tiny(base, *SHORT)
    assert metrics(folder, "valid/loss")[-1] != metrics(plain, "valid/loss")[-1]
    assert metrics(folder, "train/loss") == metrics(plain, "train/loss")


@pytest.mark.slow
def test_a_run_with_a_moving_average_resumes_exactly(base: Path) -> None:
    options = (*SHORT, "checkpoint.ema=0.9")
    whole = train_tiny(base, *options)
    first = train_tiny(base, *options, "trainer.max_steps=3")
    second = train_tiny(base, *options, f"resume={first / 'last.ckpt'}")
    assert_identical(state_of(second), state_of(whole))
    assert_identical(current_weights(second), current_weights(whole))


@pytest.mark.slow
def test_a_new_run_moves_aside_the_checkpoints_that_an_earlier_one_kept(base: Path) -> None:
    options = (*SHORT, "checkpoint.keep_last=2")
    folder = train_tiny(base, *options)
    before = sorted(file.name for file in list_checkpoints(folder, "last", 2))
    train_again(folder, *tiny_overrides(base), *options, "trainer.max_steps=2")
    assert [file.name for file in (folder / "kept").iterdir()] == ["last-step0000002.ckpt"]
    assert sorted(file.name for file in (folder / "kept-1").iterdir()) == before


def test_a_run_keeps_its_best_and_its_last_weights(base: Path) -> None:
    options = (*SHORT, "checkpoint.keep_best=2", "checkpoint.keep_last=2")
    folder = train_tiny(base, *options, "checkpoint.monitor=loss", "optimizer.lr=1e-2")
    losses = metrics(folder, "valid/loss")
    assert losses == sorted(losses, reverse=True)  # so the best are the last
    steps = [
        torch.load(f, weights_only=True)["global_step"] for f in list_checkpoints(folder, "best", 2)
    ]
    assert steps == [6, 4]
    assert [f.stem for f in list_checkpoints(folder, "last", 2)] == [
        "last-step0000006",
        "last-step0000004",
    ]
    assert "optimizer_states" not in torch.load(
        list_checkpoints(folder, "last", 1)[0], weights_only=True
    )
    with pytest.raises(CheckpointError, match="keeps 2 .* not 3: train with checkpoint.keep_best"):
        list_checkpoints(folder, "best", 3)
    with pytest.raises(CheckpointError, match="did you mean .*best.ckpt"):
        list_checkpoints(folder.parent, "best", 2)


def test_the_best_model_can_be_chosen_by_chrf(base: Path) -> None:
    folder = train_tiny(base, *SHORT, "checkpoint.monitor=chrf", "optimizer.lr=1e-2")
    scores = metrics(folder, "valid/chrf")
    best = torch.load(folder / "best.ckpt", weights_only=True)["global_step"]
    assert best == 2 * (1 + scores.index(max(scores)))


def test_an_average_is_the_mean_of_all_weights(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.ckpt" for n in range(3)]
    states = []
    for seed, file in enumerate(files):
        torch.manual_seed(seed)
        states.append(save_model(file, "model.dim=32").state_dict())
    average(files, tmp_path / "mean.ckpt")
    averaged = checkpoint.read(tmp_path / "mean.ckpt")
    for name, value in averaged.weights.items():
        mean = torch.stack([state[name] for state in states]).mean(0)
        torch.testing.assert_close(value, mean)
    averaged.build()


def test_an_average_of_one_model_is_that_model_and_of_none_is_refused(tmp_path: Path) -> None:
    model = save_model(tmp_path / "one.ckpt")
    average([tmp_path / "one.ckpt"], tmp_path / "same.ckpt")
    assert_identical(checkpoint.read(tmp_path / "same.ckpt").weights, dict(model.state_dict()))
    with pytest.raises(CheckpointError, match="nothing to average"):
        average([], tmp_path / "none.ckpt")


def test_constants_of_a_model_are_not_averaged(base: Path) -> None:
    """An average of the integers at which T5's buckets begin would be rounded to other integers."""
    options = ("position=t5", "trainer.max_steps=1", "optimizer.lr=0", "checkpoint.monitor=loss")
    plain, moving = (train_tiny(base, *options, f"checkpoint.ema={d}") for d in ("null", 0.9))
    assert metrics(plain, "valid/loss") == metrics(moving, "valid/loss")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("attn.score=dot",), r"attention\.\w+\.score was 'scaled_dot' and is 'dot' now"),
        (("position=rope",), "position.name was 'sinusoidal' and is 'rope' now"),
        (("model.activation=gelu",), "model.activation was 'relu' and is 'gelu' now"),
        (("model.dim=64",), "model.dim was 32 and is 64 now"),
    ],
    ids=["attention", "position", "model", "shape"],
)
def test_models_that_compute_differently_are_not_averaged(
    tmp_path: Path, overrides: tuple[str, ...], words: str
) -> None:
    """Even if their weights have the same shapes."""
    save_model(tmp_path / "one.ckpt", *TINY_MODEL)
    save_model(tmp_path / "other.ckpt", *TINY_MODEL, *overrides)
    with pytest.raises(CheckpointError, match=f"other.ckpt is not the same model as .*{words}"):
        average([tmp_path / "one.ckpt", tmp_path / "other.ckpt"], tmp_path / "mean.ckpt")
    assert not (tmp_path / "mean.ckpt").exists()


def test_models_with_other_dropout_are_averaged(tmp_path: Path) -> None:
    files = [tmp_path / f"{dropout}.ckpt" for dropout in (0.1, 0.2)]
    for file in files:
        save_model(file, *TINY_MODEL, f"model.dropout={file.stem}", f"attn.dropout={file.stem}")
    average(files, tmp_path / "mean.ckpt")
    assert checkpoint.read(tmp_path / "mean.ckpt").config["model"]["dropout"] == 0.1


def test_an_average_that_cannot_be_written_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(tmp_path / "one.ckpt", *TINY_MODEL)
    (tmp_path / "mean.ckpt").write_bytes(b"an earlier one")

    def full_disk(_: object, file: BinaryIO) -> None:
        file.write(b"the first part")
        raise RuntimeError("unexpected pos 64 vs 0")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(CheckpointError, match="mean.ckpt cannot be written.*: unexpected pos"):
        average([tmp_path / "one.ckpt"], tmp_path / "mean.ckpt")
    assert (tmp_path / "mean.ckpt").read_bytes() == b"an earlier one"
    assert {file.name for file in tmp_path.iterdir()} == {"one.ckpt", "mean.ckpt"}


def test_the_lowest_rate_of_errors_is_the_best(base: Path) -> None:
    run = train_tiny(base, "checkpoint.monitor=ser", "trainer.max_steps=1")
    (run / KEPT).mkdir(exist_ok=True)
    for name in ("best-step0000001-ser90.0000", "best-step0000002-ser9.5000"):
        shutil.copy(run / "best.ckpt", run / KEPT / f"{name}.ckpt")
    best, other = list_checkpoints(run, "best", 2)
    assert best.stem.endswith("ser9.5000") and other.stem.endswith("ser90.0000")
