"""An update over packed tokens: the same work on the same tensors each time, so that a GPU can
record it once and repeat it.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.transfer import map_tensors
from seq2seq.models.packed import read_packed
from seq2seq.training.callbacks import ends_update
from seq2seq.training.config.plan import Plan
from seq2seq.training.loss import cross_entropy
from seq2seq.training.module import TrainingModule
from seq2seq.training.optimizer import clip_gradients

WARM_UPS = 3  # runs before a capture: libraries prepare; Adam, gradients and streams come to be


class PackedUpdate:
    """Forward pass, loss, backward pass, clipping and Adam, for one micro-batch after the other.

    What differs between micro-batches is copied into tensors that stay in place: tokens, borders of
    sentences, the weight of a token in the loss, learning rates. Once there are gradients and a
    state of Adam, all the rest is the same sequence of operations on tensors of the same sizes. On
    CUDA it is captured as a graph, one for micro-batches that end an update and one for those that
    do not, and replayed. Elsewhere it is called.

    Args:
        model: a `Transformer`, in training mode.
        optimizer: a fused Adam of its parameters, whose state is already restored.
        plan: plan of the run: its loss, and the limit of the gradient.
    """

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer, plan: Plan):
        self.model, self.optimizer, self.plan = model, optimizer, plan
        device = next(model.parameters()).device
        self.batch: Any = None  # a `Packed`, as large as the first
        self.weight = torch.zeros((), dtype=torch.float64, device=device)
        self.rates = [torch.zeros((), device=device) for _ in optimizer.param_groups]
        # The loss that is minimised; the sum of the translation loss, and 0 for the alignment loss.
        self.results = torch.zeros(3, dtype=torch.float64, device=device)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.runs, self.graphs = Counter[bool](), dict[bool, Any]()

    def __call__(self, batch: Batch, ends: bool) -> Tensor:
        """Add the gradients of a micro-batch, and update the weights if it ends an update.

        Returns: `results`, which the next call overwrites.
        """
        assert batch.packed is not None
        if self.batch is None:
            self.batch = map_tensors(batch.packed, torch.empty_like)
        self.batch.tokens.copy_(batch.packed.tokens)
        self.batch.starts.copy_(batch.packed.starts)
        self.weight.fill_(1 / batch.total)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        if self.stream is None:
            self.compute(ends)
        elif ends in self.graphs:
            self.graphs[ends].replay()
        else:
            self._warm_up(ends, self.stream)
        return self.results

    def compute(self, ends: bool) -> None:
        """The operations that a graph holds: none reads a value on the host, or depends on one."""
        device = self.weight.device.type
        smoothing, limit = self.plan.loss.label_smoothing, self.plan.trainer.gradient_clip_val
        # Without the cache of casts: one filled before a capture would hold old weights for ever.
        enabled = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=enabled, cache_enabled=False):
            hidden = read_packed(self.model, self.batch)
            output, labels = self.model.embeddings.output, self.batch.tokens[4].long()
            loss = cross_entropy(hidden, output, labels, smoothing=smoothing, padded=True)
        mean = loss.smoothed * self.weight
        with torch.autocast(device, enabled=False):
            mean.backward()
        self.results[0].copy_(mean.detach())
        self.results[1].copy_(loss.nll)
        if ends:
            clip_gradients(self.model.parameters(), limit)
            # The optimizer's own rates are numbers, which the schedule changes and checkpoints
            # hold. A graph reads tensors.
            numbers = [group["lr"] for group in self.optimizer.param_groups]
            self._set_rates(self.rates, capturable=True)
            self.optimizer.step()
            self._set_rates(numbers, capturable=False)
            self.optimizer.zero_grad(set_to_none=False)  # gradients stay in place

    def _set_rates(self, rates: list[Any], capturable: bool) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group.update(lr=rate, capturable=capturable)

    def _warm_up(self, ends: bool, stream: torch.cuda.Stream) -> None:
        """Compute on the stream of the capture; after enough such runs, capture the next ones."""
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self.compute(ends)
        current.wait_stream(stream)
        self.runs[ends] += 1
        if self.runs[ends] == WARM_UPS:
            self.graphs[ends] = torch.cuda.CUDAGraph()
            # Other threads may allocate meanwhile: one of them makes and sends the next batches.
            mode = "thread_local"
            with torch.cuda.graph(self.graphs[ends], stream=stream, capture_error_mode=mode):
                self.compute(ends)


class PackedTraining(TrainingModule):
    """A `TrainingModule` whose training step is a `PackedUpdate`. Lightning still counts updates,
    and calls the schedule and all callbacks; what it would do to gradients and weights is done.
    """

    update: PackedUpdate

    def on_train_start(self) -> None:
        self.update = PackedUpdate(self.model, self.trainer.optimizers[0], self.plan)

    def training_step(self, batch: Batch, _: int) -> dict[str, Tensor]:
        with torch.compiler.set_stance("default" if self.plan.trainer.compile else "force_eager"):
            results = self.update(batch, ends_update(self.trainer))
        return {"loss": results[0], "sums": results[1:]}

    def backward(self, *_: Any) -> None:
        """Nothing: see `training_step`."""

    def optimizer_zero_grad(self, *_: Any) -> None:
        """Nothing: see `training_step`."""

    def optimizer_step(self, *given: Any) -> None:
        """Call `training_step`, which is in the closure, the last argument."""
        given[-1]()
