"""An update over packed tokens: the same work on the same tensors each time, so that a GPU can
record it once and repeat it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.packed import Capacity, Packed
from seq2seq.models.packed import read_packed
from seq2seq.training.callbacks import ends_update
from seq2seq.training.loss import cross_entropy
from seq2seq.training.module import TrainingModule
from seq2seq.training.optimizer import clip_gradients

WARM_UPS = 3  # runs before a graph is captured: libraries prepare, Adam and autograd allocate


class PackedUpdate:
    """Forward pass, loss, backward pass, clipping and Adam for one micro-batch after the other.

    What differs between micro-batches is copied into tensors that stay in place: tokens, borders of
    sentences, the divisor of the loss, learning rates. All the rest, from the first on that finds
    gradients and the state of Adam, is the same sequence of operations on tensors of the same
    sizes. On CUDA it is captured as a graph, one for micro-batches that end an update and one for
    those that do not, and replayed. Elsewhere it is called.

    Args:
        model: a `Transformer`, in training mode.
        optimizer: a fused Adam of its parameters, whose state is already restored.
        capacity: size of the batches.
        smoothing: label smoothing.
        limit: maximum norm of the gradient; None = no limit.
    """

    def __init__(
        self,
        model: Any,
        optimizer: torch.optim.Optimizer,
        capacity: Capacity,
        smoothing: float,
        limit: float | None,
    ):
        self.model, self.optimizer = model, optimizer
        self.smoothing, self.limit = smoothing, limit
        device = next(iter(model.parameters())).device
        self.device = device.type
        self.batch = Packed.empty(capacity, device)
        self.weight = torch.zeros((), dtype=torch.float64, device=device)  # of a token in the loss
        self.rates = [torch.zeros((), device=device) for _ in optimizer.param_groups]
        # The loss that is minimised; the sum of the translation loss, and 0 for the alignment loss.
        self.results = torch.zeros(3, dtype=torch.float64, device=device)
        self.stream = torch.cuda.Stream(device) if self.device == "cuda" else None
        self.runs = {False: 0, True: 0}
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}

    def __call__(self, batch: Batch, ends: bool) -> Tensor:
        """Add the gradients of a micro-batch, and update the weights if it ends an update.

        Returns: `results`, which the next call overwrites.
        """
        assert batch.packed is not None
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
            self._prepare(ends, self.stream)
        return self.results

    def compute(self, ends: bool) -> None:
        """The operations that a graph holds: none reads a value on the host, or depends on one."""
        # Without the cache of casts: one filled before a capture would hold old weights for ever.
        enabled = torch.is_autocast_enabled(self.device)
        with torch.autocast(self.device, enabled=enabled, cache_enabled=False):
            hidden = read_packed(self.model, self.batch.source, self.batch.target)
            output, labels = self.model.embeddings.output, self.batch.labels
            loss = cross_entropy(hidden, output, labels, smoothing=self.smoothing, padded=True)
        mean = loss.smoothed * self.weight
        with torch.autocast(self.device, enabled=False):
            mean.backward()
        self.results[0].copy_(mean.detach())
        self.results[1].copy_(loss.nll)
        if ends:
            clip_gradients(self.model.parameters(), self.limit)
            with self._rates_as_tensors():
                self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)  # they stay in place

    @contextmanager
    def _rates_as_tensors(self) -> Iterator[None]:
        """Give the optimizer learning rates that a graph reads when it is replayed.

        Its own are numbers, which the schedule changes and checkpoints hold.
        """
        groups = self.optimizer.param_groups
        own = [{key: group[key] for key in ("lr", "capturable")} for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        yield
        for group, values in zip(groups, own, strict=True):
            group.update(values)

    def _prepare(self, ends: bool, stream: torch.cuda.Stream) -> None:
        """Compute as it is on the stream of the capture, or capture and replay if it is time."""
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        self.runs[ends] += 1
        if self.runs[ends] <= WARM_UPS:
            with torch.cuda.stream(stream):
                self.compute(ends)
            current.wait_stream(stream)
            return
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate meanwhile: one of them makes and sends the next batches.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self.compute(ends)
        self.graphs[ends] = graph
        graph.replay()


class PackedTraining(TrainingModule):
    """A `TrainingModule` whose training step is a `PackedUpdate`. Lightning still counts updates,
    and calls the schedule and all callbacks, but what it would do to gradients and weights is done.
    """

    update: PackedUpdate

    def on_train_start(self) -> None:
        plan, (optimizer,) = self.plan, self.trainer.optimizers
        assert plan.capacity is not None
        limit, smoothing = plan.trainer.gradient_clip_val, plan.loss.label_smoothing
        self.update = PackedUpdate(self.model, optimizer, plan.capacity, smoothing, limit)

    def training_step(self, batch: Batch, index: int) -> dict[str, Tensor]:
        results = self.update(batch, ends_update(self.trainer, index))
        return {"loss": results[0], "sums": results[1:]}

    def backward(self, *_: Any) -> None:
        """Nothing: see `training_step`."""

    def optimizer_zero_grad(self, *_: Any) -> None:
        """Nothing: see `training_step`."""

    def optimizer_step(
        self, epoch: int, index: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        """Call `training_step`, which is in the closure."""
        optimizer_closure()
