"""A run whose numbers are none any more ends, and keeps what was good."""

from pathlib import Path

import pytest
import torch
from tiny_runs import train_tiny, weights

from seq2seq.training.metrics import TokenMean
from seq2seq.training.module import TrainingModule
from seq2seq.training.stopping import DivergedError


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


def run_of(error: pytest.ExceptionInfo[DivergedError]) -> Path:
    return Path(str(error.value).rpartition("From before it: ")[2].split(",")[0]).parent


OPTIONS = ("trainer.max_steps=9", "checkpoint.every=1", "trainer.val_check_interval=2")


@pytest.mark.parametrize("interval", [1, 50])
def test_weights_that_are_no_numbers_end_the_run_before_they_are_saved(
    base: Path, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    step = TrainingModule.training_step

    def spoilt(self: TrainingModule, *given: object) -> dict[str, torch.Tensor]:
        found = step(self, *given)  # type: ignore[arg-type]
        nan = float("nan") if self.trainer.global_step == 4 else 1.0
        return {**found, "loss": found["loss"] * nan}

    monkeypatch.setattr(TrainingModule, "training_step", spoilt)
    words = r"diverged: at step 5 weights.*init=.*/best.ckpt.*optimizer.lr=0.*schedule.warmup"
    with pytest.raises(DivergedError, match=words) as error:
        train_tiny(base, *OPTIONS, f"trainer.log_every_n_steps={interval}")
    folder = run_of(error)
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 4
    for name in ("last.ckpt", "best.ckpt"):
        assert all(value.isfinite().all() for value in weights(folder, name).values())


def test_a_validation_loss_that_is_no_number_is_never_the_best(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = TokenMean.compute

    def spoilt(self: TokenMean) -> torch.Tensor:
        return compute(self) * float("nan")

    monkeypatch.setattr(TokenMean, "compute", spoilt)
    with pytest.raises(DivergedError, match="the validation loss is no finite number.*Nothing was"):
        train_tiny(base, *OPTIONS, "checkpoint.every=500")
