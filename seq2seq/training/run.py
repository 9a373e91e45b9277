"""A checked plan carried out: data, model, Trainer."""

import logging
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from seq2seq import checkpoint
from seq2seq.data.ledger import write_ledger
from seq2seq.data.prepare import Prepared
from seq2seq.errors import ConfigError
from seq2seq.models import Seq2Seq, build_model
from seq2seq.training.callbacks import BestCheckpoint, LastCheckpoint, Progress, RandomState, Report
from seq2seq.training.datamodule import DataModule
from seq2seq.training.module import TrainingModule
from seq2seq.training.options import CheckpointOptions, TrainerOptions
from seq2seq.training.plan import Plan
from seq2seq.training.resume import check_resumed


def train(plan: Plan, prepared: Prepared) -> float | None:
    """Train, leaving best.ckpt, last.ckpt, metrics.csv and samples.txt in the run's folder.

    Returns: the best value of the monitored metric, or None if there was no validation.
    """
    data = plan.data
    source, target = prepared.tokenizers
    L.seed_everything(plan.run.seed, verbose=False)
    model = build_model(plan.model, source.size, target.size)
    order = {
        "seed": plan.run.seed,
        "max_tokens": data.max_tokens,
        "accumulate_grad_batches": plan.trainer.accumulate_grad_batches,
        "weights": [share.weight for share in prepared.train.shares],
    }
    config = {**plan.model, "decode": plan.decode, "data": asdict(data), "order": order}
    saved = checkpoint.describe(config, source, target)
    if plan.run.resume is not None:
        check_resumed(plan.run.resume, saved)
    module = TrainingModule(
        model,
        target,
        language=str(data.target),
        loss=plan.loss,
        optimizer=plan.optimizer,
        schedule=plan.schedule,
        validation=plan.validation,
        saved=saved,
    )
    best = best_checkpoint(plan.folder, plan.checkpoint)
    trainer = build_trainer(plan, [best, *callbacks(plan, prepared)])
    if trainer.is_global_zero:
        write_ledger(prepared.ledger, plan.folder)
        print("\n".join((*prepared.report, headline(plan, model, prepared, trainer.world_size))))
    trainer.fit(
        module,
        datamodule=DataModule(prepared, max_tokens=data.max_tokens, seed=plan.run.seed),
        ckpt_path=plan.run.resume,
        weights_only=True,
    )
    score = None if best.best_model_score is None else best.best_model_score.item()
    if trainer.is_global_zero:
        print(f"training ended at step {trainer.global_step:,}")
        if score is not None:
            print(f"best {plan.checkpoint.monitor} {score:.2f}: {best.best_model_path}")
    return score


def build_trainer(plan: Plan, callbacks: list[L.Callback]) -> L.Trainer:
    """Raises: ConfigError for devices that are not here, and whatever else Lightning refuses."""
    quieten()
    options = asdict(plan.trainer)
    options["val_check_interval"] = validation_interval(plan.trainer)
    if options["accelerator"] == "auto":  # as `Translator` reads it; MPS has no float64
        options["accelerator"] = "gpu" if torch.cuda.is_available() else "cpu"
    try:
        return L.Trainer(
            **options,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_model_summary=False,
            enable_progress_bar=sys.stdout.isatty(),
            logger=build_logger(plan.logger, plan.folder),
            callbacks=callbacks,
        )
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise ConfigError(f"the options of trainer do not suit this machine: {error}") from error


def quieten() -> None:
    """Silence advice for other ways of working: loaders here shard and resume by themselves, and
    the run's folder holds Hydra's record before Lightning sees it.
    """
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    advice = (
        "does not have many workers",
        "exists and is not empty",
        "dirpath has changed",
        "LeafSpec",
        "smaller than the logging interval",
    )
    for message in advice:
        warnings.filterwarnings("ignore", message=f".*{message}.*")


def validation_interval(options: TrainerOptions) -> int:
    """Micro-batches between two validations; a run of fewer updates has one at its end."""
    steps = options.val_check_interval
    if 0 < options.max_steps < steps:
        steps = options.max_steps
    return steps * options.accumulate_grad_batches


def build_logger(name: str, folder: Path) -> Logger | bool:
    if name == "csv":
        keep_metrics(folder)
        return CSVLogger(folder, name="", version="")
    if name == "none":
        return False
    raise ConfigError(f"unknown logger {name!r}. Known: csv, none")


def keep_metrics(folder: Path) -> None:
    """Lightning deletes the metrics.csv of an earlier run in the same folder; rename it instead."""
    old = folder / "metrics.csv"
    if old.is_file() and getattr(rank_zero_only, "rank", 0) == 0:
        number = sum(1 for _ in folder.glob("metrics-*.csv")) + 1
        old.rename(folder / f"metrics-{number}.csv")


def best_checkpoint(folder: Path, options: CheckpointOptions) -> ModelCheckpoint:
    return BestCheckpoint(
        dirpath=folder,
        filename="best",
        monitor=options.metric,
        mode=options.mode,
        enable_version_counter=False,
    )


def callbacks(plan: Plan, prepared: Prepared) -> list[L.Callback]:
    last = LastCheckpoint(
        dirpath=plan.folder,
        filename="last",
        every_n_train_steps=plan.checkpoint.every,
        enable_version_counter=False,
    )
    shown = range(min(plan.validation.samples, len(prepared.valid)))
    sources = prepared.tokenizers.source.decode_batch(
        [prepared.valid.source(row).tolist() for row in shown]
    )
    found: list[L.Callback] = [last, RandomState(plan.run.seed), Report(plan.folder, sources)]
    if sys.stdout.isatty():
        found.append(Progress())
    if plan.checkpoint.patience is not None:
        found.append(
            EarlyStopping(
                plan.checkpoint.metric,
                patience=plan.checkpoint.patience,
                mode=plan.checkpoint.mode,
            )
        )
    return found


def headline(plan: Plan, model: Seq2Seq, prepared: Prepared, devices: int) -> str:
    """One line: what is trained, on how much a step, and where it goes."""
    total = sum(p.numel() for p in model.parameters())
    vocabulary = sum(p.numel() for p in model.embeddings.parameters())
    accumulate = plan.trainer.accumulate_grad_batches
    return (
        f"{plan.model['model']['name']} | attention: {plan.attention} | "
        f"{total / 1e6:.2f} M parameters ({vocabulary / 1e6:.2f} M over vocabularies) | "
        f"batch: {plan.data.max_tokens:,} padded pieces a side over {devices} device(s) "
        f"x {accumulate} micro-batch(es) | {plan.folder}"
    )
