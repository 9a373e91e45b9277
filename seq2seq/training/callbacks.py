"""Callbacks that run around each update: random states for exact resuming, averaged weights, mean
losses, and rounding of weights and inputs to 8 bits.
"""

from datetime import timedelta
from typing import Any, TypeVar

import lightning as L
import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor, nn

from seq2seq.checkpoint.weights import is_rounded
from seq2seq.functional.int8 import quantize_matrix, quantize_rows

T = TypeVar("T")


def group_of_hosts(trainer: L.Trainer, minutes: float) -> Any:
    """All processes of a run, to talk without waiting for their GPUs; None if there is one.

    Args:
        minutes: longest wait of a process for the others.
    """
    longest = timedelta(minutes=minutes)
    return dist.new_group(backend="gloo", timeout=longest) if trainer.world_size > 1 else None


class RandomState(L.Callback):
    """Saves and restores the random state of each process, which Lightning does not do.

    A new run seeds each process differently, so that dropout differs between devices.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self.states: dict[str, list[Tensor]] | None = None

    def state_dict(self) -> dict[str, Any]:
        states = {"cpu": gather_from_all(torch.get_rng_state())}
        if torch.cuda.is_available():
            states["cuda"] = gather_from_all(torch.cuda.get_rng_state())
        return states

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.states = state

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        rank = trainer.global_rank
        if self.states is not None and len(self.states["cpu"]) == trainer.world_size:
            torch.set_rng_state(self.states["cpu"][rank])
            if "cuda" in self.states and torch.cuda.is_available():
                torch.cuda.set_rng_state(self.states["cuda"][rank])
        else:
            torch.manual_seed(seed_of_process(self.seed, rank))
        self.states = None


class NextEpoch(L.Callback):
    """Resumes a run in the epoch, and at the batch, where the data loader resumes it.

    After the last batch of an epoch, Lightning would continue counting from there, and end the next
    epoch after a single batch. It also counts an epoch that the end of a run cuts short.
    """

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        loader: Any = trainer.train_dataloader
        batches = trainer.fit_loop.epoch_loop.batch_progress
        has_ended = batches.current.completed >= trainer.num_training_batches
        if has_ended:
            batches.reset_on_run()
        epochs: Any = trainer.fit_loop.epoch_progress.current
        epochs.processed = epochs.completed = max(loader.state_dict()["epoch"], 0) + has_ended


class FinalValidation(L.Callback):
    """Validates a run at its last update too, so that its last updates compete for best.ckpt."""

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        last_epoch = trainer.current_epoch + 1 == trainer.max_epochs and trainer.is_last_batch
        if trainer.global_step == trainer.max_steps or last_epoch:
            # Lightning validates when this divides the number of micro-batches.
            trainer.val_check_batch = trainer.fit_loop.epoch_loop.total_batch_idx + 1


def seed_of_process(seed: int, rank: int) -> int:
    """The seed of one process. Rank 0 uses the run's seed, as a single process does. The others do
    not use `seed + rank`, which would repeat the random numbers of a run with another seed.
    """
    return seed if rank == 0 else int(np.random.SeedSequence((seed, rank)).generate_state(1)[0])


def gather_from_all(value: T) -> list[T]:
    """The values of all processes, by rank. Tensors should be on the CPU."""
    if not (dist.is_initialized() and dist.get_world_size() > 1):
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def ends_update(trainer: L.Trainer) -> bool:
    """True if the current micro-batch completes an update."""
    return (trainer.fit_loop.batch_idx + 1) % trainer.accumulate_grad_batches == 0


def is_line_due(trainer: L.Trainer) -> bool:
    """True if a line of metrics.csv is written after the current micro-batch."""
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return ends_update(trainer) and trainer.global_step % every == 0


class MovingAverage(WeightAveraging):
    """Exponential moving average: after update n, average = d average + (1 - d) weights with
    d = min(decay, (1 + n) / (10 + n)), so that the initial random weights are soon forgotten.

    Checkpoints store the average as the model, together with the current weights, from which
    training continues.

    Args:
        decay: upper limit of d; 0.999 averages over about a thousand updates.

    Source: Polyak and Juditsky 1992, SIAM J. Control Optim. 30(4).
    """

    def __init__(self, decay: float):
        self.decay = decay
        # Buffers are constants here, and some are integers, so they are not averaged.
        super().__init__(use_buffers=False)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        assert self._average_model is not None
        # Lightning copies the model before it moves it to its device. The count stays on the CPU:
        # it is read at each update, and reading it from a GPU would wait.
        self._average_model.module.to(pl_module.device)
        self._average_model.n_averaged = self._average_model.n_averaged.cpu()

    @torch.no_grad()
    def on_train_batch_end(self, trainer: L.Trainer, pl_module: nn.Module, *_: Any) -> None:
        if trainer.global_step <= self._latest_update_step:
            return
        self._latest_update_step = trainer.global_step
        assert self._average_model is not None
        updates = self._average_model.n_averaged.numpy()  # a view
        n = int(updates)
        decay = min(self.decay, (1 + n) / (10 + n)) if n else 0.0
        averages = tuple(self._average_model.module.parameters())
        torch._foreach_lerp_(averages, tuple(pl_module.parameters()), 1 - decay)
        updates += 1

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the current weights. Lightning would replace them with the average here, before
        last.ckpt is written, and a resumed run would start from the wrong weights.
        """


def replace_by_average(trainer: L.Trainer, module: L.LightningModule, content: Any) -> None:
    """Put the average into a weights-only checkpoint. Lightning calls no callbacks for these."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, MovingAverage):
            callback.on_save_checkpoint(trainer, module, content)
            del content["current_model_state"], content["averaging_state"]


NAMES = ("train/loss", "train/align_loss")


class MeanLoss(L.Callback):
    """Logs each training loss, averaged over all its tokens since the previous logged line.

    The loss of a single batch says little: its sentences have similar lengths, and the loss varies
    more with length than over weeks of training. Sums stay on the device until a line is due.
    """

    def __init__(self) -> None:
        # The sum and the token count of each loss, in the order of NAMES.
        self.sums, self.counts = torch.zeros(2, dtype=torch.float64), [0, 0]

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._of_all_devices()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums, counts = state["sums"].unbind(1)
        self.counts = [int(count) for count in counts]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Loaded sums cover all devices, so only one device continues from them.
        first = trainer.global_rank == 0
        self.sums = self.sums.to(pl_module.device) * first
        self.counts = [count * first for count in self.counts]

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        # When a finished training is resumed, Lightning counts one update too many. Its lines would
        # fall on other steps, where no loss is logged.
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.sums += outputs["sums"]
        self.counts[0] += batch.tokens
        self.counts[1] += batch.links.linked if batch.links is not None else 0
        if not is_line_due(trainer):
            return
        for name, (total, tokens) in zip(NAMES, self._of_all_devices().tolist(), strict=True):
            if tokens:  # 0 for the alignment loss if no batch had links
                pl_module.log(name, total / tokens)
        self.sums.zero_()
        self.counts = [0, 0]

    def _of_all_devices(self) -> Tensor:
        """The sums and token counts of all devices, (2 losses, 2)."""
        both = torch.stack((self.sums, self.sums.new_tensor(self.counts)), 1)
        return torch.stack(gather_from_all(both.cpu())).sum(0)


class Int8Passes(L.Callback):
    """Rounds the weight matrices of a model to 8 bits for each pass, as int8 decoding does.

    The original weights are restored after the backward pass, so the optimizer and checkpoints
    never see rounded ones. Validation uses rounded weights too. The inputs of `nn.Linear` layers
    are rounded as well. Gradients pass unchanged through the rounding, to the original weights.

    Sources: Bengio et al. 2013, arXiv:1308.3432; Jacob et al. 2018, arXiv:1712.05877.
    """

    def __init__(self) -> None:
        self.weights: list[tuple[nn.Parameter, Tensor]] = []  # rounded weights, their originals
        self.hooks: list[Any] = []

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        layers = (each for each in pl_module.modules() if isinstance(each, nn.Linear))
        self.hooks = [layer.register_forward_pre_hook(round_input) for layer in layers]

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for hook in self.hooks:
            hook.remove()

    @torch.no_grad()
    def on_train_batch_start(self, trainer: L.Trainer, pl_module: nn.Module, *_: Any) -> None:
        for weight in filter(is_rounded, pl_module.parameters()):
            self.weights.append((weight, weight.detach().clone()))
            integers, scales = quantize_matrix(weight)
            weight.copy_(integers * scales)

    @torch.no_grad()
    def on_after_backward(self, trainer: L.Trainer, pl_module: nn.Module) -> None:
        for weight, before in self.weights:
            weight.copy_(before)
        self.weights.clear()

    on_validation_start, on_validation_end = on_train_batch_start, on_after_backward


def round_input(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """Round each row of a layer's inputs (..., K) to 8 bits; the gradient passes unchanged."""
    (x,) = inputs
    integers, scales = quantize_rows(x.reshape(-1, x.shape[-1]))
    rounded = (integers * scales).view_as(x)
    return (x + (rounded - x).detach(),)
