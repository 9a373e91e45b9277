"""What happens around an update: exact randomness on resume, mean losses, averaged weights."""

from typing import Any

import lightning as L
import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from seq2seq.data.batch import Batch


class RandomState(L.Callback):
    """Saves and restores the state of each process's random generator, which Lightning does not.

    A new run gives every process a seed of its own, so that devices do not drop the same units.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self.states: dict[str, list[Tensor]] | None = None

    def state_dict(self) -> dict[str, Any]:
        return {name: gather(state) for name, state in random_states().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.states = state

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        rank = trainer.global_rank
        if self.states is not None and len(self.states["cpu"]) == trainer.world_size:
            torch.set_rng_state(self.states["cpu"][rank])
            if "cuda" in self.states and torch.cuda.is_available():
                torch.cuda.set_rng_state(self.states["cuda"][rank])
        else:
            torch.manual_seed(seed_of(self.seed, rank))
        self.states = None


def seed_of(seed: int, rank: int) -> int:
    """Of what a process draws. The first takes that of the run, as a process alone does; `seed + 1`
    for the second would be that of the first in a run with the next seed.
    """
    return seed if rank == 0 else int(np.random.SeedSequence((seed, rank)).generate_state(1)[0])


def random_states() -> dict[str, Tensor]:
    """The states of this process's generators: of the CPU, and of its GPU if it has one."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def gather(state: Tensor) -> list[Tensor]:
    """The tensors of all processes, by rank, on the CPU."""
    if not (dist.is_initialized() and dist.get_world_size() > 1):
        return [state]
    state = state.cuda() if dist.get_backend() == "nccl" else state
    states = [torch.empty_like(state) for _ in range(dist.get_world_size())]
    dist.all_gather(states, state)
    return [s.cpu() for s in states]


def ends_update(trainer: L.Trainer, index: int) -> bool:
    """Was this micro-batch, by its number in the epoch, the last one of an update?"""
    return (index + 1) % trainer.accumulate_grad_batches == 0


class MovingAverage(WeightAveraging):
    """Exponential moving average: after update n, average = d average + (1 - d) weights with
    d = min(decay, (1 + n) / (10 + n)), so that the random weights of the start are soon forgotten.

    Checkpoints hold the average as the model, and beside it the weights that training goes on with.

    Args:
        decay: 0.999 looks back over about a thousand updates.

    Source: Polyak and Juditsky 1992, SIAM J. Control Optim. 30(4).
    """

    def __init__(self, decay: float):
        self.decay = decay
        # Buffers are constants here, some of them whole numbers, which have no average.
        super().__init__(use_buffers=False, multi_avg_fn=self._mix)

    def _mix(self, averages: Any, weights: Any, updates: Tensor | int) -> None:
        # A tensor where `updates` is one: to know its number would be to wait for the GPU.
        n = torch.as_tensor(updates)
        decay = ((1 + n) / (10 + n)).clamp(max=self.decay)
        for average, weight in zip(averages, weights, strict=True):
            average.lerp_(weight, (1 - decay).to(average.dtype))

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the weights. Lightning puts the average in their place here, before last.ckpt is
        written, and a resumed run would begin with the wrong ones.
        """


def replace_by_average(trainer: L.Trainer, module: L.LightningModule, content: Any) -> None:
    """Put the average into a checkpoint of weights alone: for such, Lightning asks no callback."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, MovingAverage):
            callback.on_save_checkpoint(trainer, module, content)
            del content["current_model_state"], content["averaging_state"]


NAMES = ("train/loss", "train/align_loss")


class MeanLoss(L.Callback):
    """Logs the losses of training, each a mean over all its tokens since the last line.

    One batch says little: its sentences have like lengths, and the loss differs more between
    lengths than between weeks of training. Sums stay on the device until a line is due.

    Args:
        every: updates between two lines.
    """

    def __init__(self, every: int):
        self.every = every
        # (2, 2) of each loss, in the order of NAMES: its sum, and the tokens that it is over.
        self.sums = torch.zeros(2, 2, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._of_all_devices()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums = state["sums"]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # What was loaded is of all devices together: one of them goes on with it.
        self.sums = self.sums.to(pl_module.device) * (trainer.global_rank == 0)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        index: int,
    ) -> None:
        self.sums += outputs["sums"]
        if not ends_update(trainer, index) or trainer.global_step % self.every:
            return
        for name, (total, tokens) in zip(NAMES, self._of_all_devices().tolist(), strict=True):
            if tokens:  # no link may have been asked for
                pl_module.log(name, total / tokens, prog_bar=name == NAMES[0])
        self.sums.zero_()

    def _of_all_devices(self) -> torch.Tensor:
        return torch.stack(gather(self.sums)).sum(0)
