"""The Lightning module: one step of training and of validation. Its metrics keep sums, so that
their values do not depend on the number of devices.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import lightning as L
import torch
from sacrebleu.metrics.base import Metric as Scorer
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import Metric, MetricCollection

from seq2seq import checkpoint
from seq2seq.base.registry import options_of
from seq2seq.data.batches.batch import Batch
from seq2seq.decoding import Greedy, decode
from seq2seq.metrics.registry import METRICS, build_bleu
from seq2seq.models import Seq2Seq
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.training.callbacks import replace_by_average
from seq2seq.training.compilation import typical_batch
from seq2seq.training.config.plan import Plan
from seq2seq.training.loss import Loss, batch_loss
from seq2seq.training.optimizer import build_optimizer, clip_gradients

SYMBOL_METRICS = ("exact", "ser")  # take time, so computed only if they choose best.ckpt


class SummedScore(Metric):
    """A corpus score of sacreBLEU, 0 to 100, from counts summed over sentences and devices.

    Args:
        scorer: metric of sacreBLEU, such as BLEU or chrF.
    """

    full_state_update = False
    counts: Tensor

    def __init__(self, scorer: Scorer):
        super().__init__()
        self.scorer = scorer
        none = torch.tensor(self._count([""], [""]), dtype=torch.float64).zero_()
        self.add_state("counts", none, dist_reduce_fx="sum")

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        """Add detokenised translations, and as many references."""
        if not hypotheses:
            return
        counts = self._count(hypotheses, references)
        self.counts += torch.tensor(counts, dtype=torch.float64, device=self.counts.device)

    def compute(self) -> Tensor:
        counts = [int(x) for x in self.counts.tolist()]
        value = self.scorer._compute_score_from_stats(counts).score
        return torch.tensor(value, dtype=torch.float32)

    def _count(self, hypotheses: list[str], references: list[str]) -> list[int]:
        # Only this private method of sacreBLEU returns the counts of a corpus. The tests compare
        # the result with the score of its public method.
        rows = self.scorer._extract_corpus_statistics(hypotheses, [references])
        return [sum(column) for column in zip(*rows, strict=True)]


class TokenMean(Metric):
    """The mean over tokens of a quantity such as the loss."""

    full_state_update = False
    total: Tensor
    tokens: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("tokens", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, total: Tensor, tokens: int) -> None:
        self.total += total.double()
        self.tokens += tokens

    def compute(self) -> Tensor:
        return (self.total / self.tokens).float()


class ValidationSentence(NamedTuple):
    """A sentence that is translated at a validation; `languages` as in `Component`."""

    source: str
    reference: str
    languages: tuple[str, ...] = ()

    @property
    def direction(self) -> str:
        """The end of the names of its scores, such as /de-en; empty if there are no others."""
        return "/" * bool(self.languages) + "-".join(self.languages)


class TrainingModule(L.LightningModule):
    """Trains any `Seq2Seq` on batches that know the token count of the global batch they were cut
    from.

    Loss and gradients are sums over micro-batches and devices, divided once by that count, so one
    device with 4096 tokens and four with 1024 make the same update.

    Args:
        model: the model to train.
        target: the tokenizer of the target language.
        plan: plan of the run: its loss, its optimizer, the head that is trained on links.
        sentences: rows of the validation corpus to translate. Their references are text, not
            pieces, since a tokenizer may not know all of it.
        saved: entry that makes a checkpoint self-sufficient.
    """

    def __init__(
        self,
        model: Seq2Seq,
        target: Tokenizer,
        plan: Plan,
        sentences: Mapping[int, ValidationSentence],
        saved: dict[str, Any],
    ):
        super().__init__()
        self.model = model
        self.target = target
        self.plan, self.guide = plan, plan.guide
        self.sentences = sentences
        lengths = {name: saved["config"]["decode"][name] for name in options_of(Greedy)}
        self.search = Greedy(**lengths)  # fast, with the length limits of later translations
        self.saved = saved
        self.valid_loss = TokenMean()
        self.valid_align_loss = TokenMean()
        self.valid_truncated = TokenMean()  # a mean over sentences
        self.valid_scores = self._scores()
        self.translations: dict[int, str] = {}

    def _scores(self) -> MetricCollection:
        """The scores by name: `bleu`, or `bleu/de-en` of one of several directions."""
        monitor, scores = self.plan.checkpoint.monitor, dict[str, Any]()
        # In an order that is the same in all processes.
        for each in {each.direction: each for each in self.sentences.values()}.values():
            target = each.languages[1] if each.languages else str(self.plan.data.target)
            scorers = {"bleu": build_bleu(target), "chrf": CHRF()}
            if monitor in SYMBOL_METRICS:
                scorers[monitor] = METRICS[monitor].build([], None)
            scores |= {f"{name}{each.direction}": SummedScore(s) for name, s in scorers.items()}
        return MetricCollection(scores, compute_groups=False)

    def training_step(self, batch: Batch, _: int) -> dict[str, Tensor]:
        """Compute the loss of a micro-batch.

        Returns: `loss` to minimise, and `sums` (2, 2) for the curves: the sum and the token count
            of the translation loss, then of the alignment loss.
        """
        # A compiler makes graphs of their own for sizes of 1.
        is_small = min(*batch.source.shape, batch.target.shape[1] - 1) == 1
        with torch.compiler.set_stance(
            "force_eager" if is_small or not self.plan.trainer.compile else "default"
        ):
            loss = self.loss_of(batch)
        sums = [loss.nll, torch.zeros_like(loss.nll)]
        # Lightning averages over micro-batches, and DDP over devices; this makes both of them sums.
        pieces = self.trainer.accumulate_grad_batches * self.trainer.world_size
        total = loss.smoothed * (pieces / batch.total)
        if loss.align is not None and self.guide is not None and batch.links is not None:
            sums[1] = loss.align.detach()
            # A batch may have no links.
            total = total + loss.align * (self.guide.weight * pieces / max(1, batch.links.total))
        return {"loss": total, "sums": torch.stack(sums).double()}

    def loss_of(self, batch: Batch) -> Loss:
        """The training loss of a batch."""
        options = self.plan.loss
        alpha = options.r_drop or options.simcut  # at most one of them is set
        return batch_loss(self.model, batch, options.label_smoothing, self.guide, alpha)

    def on_train_start(self) -> None:
        """Compile for the same batch whenever a run starts. A compiler chooses kernels by the sizes
        that it sees first, and a resumed run must compute with those that it had before.
        """
        if not self.plan.trainer.compile:
            return
        pieces = self.trainer.accumulate_grad_batches * self.trainer.world_size
        tokens, has_cuts = self.plan.data.max_tokens // pieces, self.plan.loss.simcut > 0
        batch = typical_batch(tokens, has_cuts, self.device)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), self.trainer.precision_plugin.train_step_context():
            loss = self.loss_of(batch)
            weights = [weight for weight in self.parameters() if weight.requires_grad]
            # Not `backward`, for which DDP would exchange gradients.
            torch.autograd.grad(loss.smoothed, weights, allow_unused=True)

    def on_validation_epoch_start(self) -> None:
        self.translations = {}
        for score in self.valid_scores.values():
            score.update([], [])  # this process may translate nothing in a direction

    # Translations would need graphs of their own.
    @torch.compiler.set_stance("force_eager")  # type: ignore[untyped-decorator]
    def validation_step(self, batch: Batch, _: int) -> None:
        """Add a batch to the metrics, and its translations to `translations`, which has those of
        this process by row of the corpus.
        """
        loss = batch_loss(self.model, batch, smoothing=0.0, guide=self.guide)
        self.valid_loss.update(loss.nll, batch.tokens)
        if loss.align is not None and batch.links is not None:
            self.valid_align_loss.update(loss.align, batch.links.linked)
        rows = [i for i, row in enumerate(batch.indices.tolist()) if row in self.sentences]
        if not rows:
            return
        best = [beam[0] for beam in decode(self.model, batch.source[rows], self.search)]
        cut_off = sum(hypothesis.truncated for hypothesis in best)
        self.valid_truncated.update(torch.tensor(cut_off), len(best))
        hypotheses = self.target.decode_batch([hypothesis.ids for hypothesis in best])
        indices = batch.indices[rows].tolist()
        self.translations.update(zip(indices, hypotheses, strict=True))
        for name, score in self.valid_scores.items():
            mine = [i for i in indices if name.endswith(self.sentences[i].direction)]
            references = [self.sentences[i].reference for i in mine]
            score.update([self.translations[i] for i in mine], references)

    def on_validation_epoch_end(self) -> None:
        self.log("valid/loss", self.valid_loss)
        if self.valid_align_loss.update_called:
            self.log("valid/align_loss", self.valid_align_loss)
        means: dict[str, list[Tensor]] = {}
        for name, score in self.valid_scores.items():
            self.log(f"valid/{name}", score)
            means.setdefault(name.partition("/")[0], []).append(score.compute())
        for name, values in means.items():
            if name not in self.valid_scores:
                self.log(f"valid/{name}", torch.stack(values).mean(), sync_dist=True)
        self.log("valid/truncated", self.valid_truncated)

    def configure_optimizers(self) -> Any:
        # A fused optimizer reads memory once instead of several times, but it cannot unscale
        # float16 gradients.
        fused = self.trainer.precision != "16-mixed"
        optimizer = build_optimizer(self.model, self.plan.optimizer, fused)
        scheduler = {"scheduler": LambdaLR(optimizer, self.plan.schedule), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        clip_gradients(self.parameters(), self.plan.trainer.gradient_clip_val)

    def on_save_checkpoint(self, content: dict[str, Any]) -> None:
        content[checkpoint.ENTRY] = self.saved
        if "optimizer_states" not in content:
            replace_by_average(self.trainer, self, content)
