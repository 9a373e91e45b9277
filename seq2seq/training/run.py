"""A run from its configuration to its result: plan, data, model, Trainer, files."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import torch
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import ModelCheckpoint, Timer
from omegaconf import DictConfig, OmegaConf

from seq2seq.base.durable import write_text
from seq2seq.base.environment import training_command
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.folder import BEST, KEPT, LAST
from seq2seq.data.batches.batch_loader import EvalBatches
from seq2seq.data.corpus.ledger import write_ledger
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.models import Seq2Seq
from seq2seq.training import sweep
from seq2seq.training.build import build_module, restore
from seq2seq.training.config.plan import Plan, check_config
from seq2seq.training.dry_run import dry_run
from seq2seq.training.loaders import train_loader
from seq2seq.training.loggers import set_aside
from seq2seq.training.resume import agree_on_path, read_tokenizers
from seq2seq.training.run_folder import lock_run, write_record
from seq2seq.training.stopping import explain_lost
from seq2seq.training.trainer import (
    best_checkpoint,
    build_callbacks,
    build_trainer,
    check_same_precision,
)

# Files of an earlier run in the same folder, which a new run renames. A resumed run renames only
# its metrics, which Lightning would delete.
METRICS = "metrics.csv"
WRITTEN_BY_COMMANDS = ("report.html", "map.png")
FEW_PIECES = 4096  # a micro-batch of fewer padded pieces leaves a GPU waiting for its host
FILES_OF_RUN = (METRICS, BEST, LAST, KEPT, "samples.txt", sweep.RESULT, *WRITTEN_BY_COMMANDS)


def fit(config: DictConfig) -> float | None:
    """Train as the configuration says. Returns: the best validation score, for sweeps.

    Raises: ConfigError, DataError or CheckpointError for anything that the user can fix.
    """
    plan = check_config(plain_values(config), Path(HydraConfig.get().runtime.output_dir))
    if not plan.run.dry_run:
        sweep.check_processes(plan.trainer)
        if sweep.needs_fresh_processes(plan.trainer):
            return sweep.run_in_fresh_processes()
    with nullcontext() if plan.run.dry_run else lock_run(plan.folder):
        given = read_tokenizers(plan.tokenizer, plan.resume or plan.init.checkpoint)
        prepared = prepare(plan.data, plan.tokenizer, given, plan.link_files)
        if plan.run.dry_run:
            dry_run(plan, prepared)
            return None
        return train(plan, prepared, partial(write_record, config, plan.folder))


def plain_values(config: DictConfig) -> dict[str, Any]:
    """The configuration resolved to dicts, lists, numbers and strings.

    Raises: ConfigError if a value that the user must give is missing.
    """
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        typed = " ".join(f"{key}=..." for key in missing)
        raise ConfigError(f"{', '.join(missing)} must be given: {training_command()} ... {typed}")
    return dict(name_by_text(OmegaConf.to_container(config, resolve=True)))


def name_by_text(value: Any) -> Any:
    """Convert keys of nested dicts to text: YAML reads a corpus name such as 2019 as a number."""
    if isinstance(value, dict):
        return {str(key): name_by_text(item) for key, item in value.items()}
    return [*map(name_by_text, value)] if isinstance(value, list) else value


def train(
    plan: Plan, prepared: Prepared, record: Callable[[], None] = lambda: None
) -> float | None:
    """Train, and write best.ckpt, last.ckpt, metrics.csv, samples.txt and result.json into the
    run's folder.

    Args:
        plan: checked options of the run.
        prepared: tokenizers and corpora.
        record: function that records what was typed; called after the last check.

    Returns: the best value of the monitored metric, or None if there was no validation.
    """
    module = build_module(plan, prepared)
    plan = module.plan
    timer = Timer(plan.trainer.max_time)  # last.ckpt saves its time for a resumed run
    best = best_checkpoint(plan.folder, plan.checkpoint)
    trainer = build_trainer(
        plan.trainer,
        plan.logger(plan.folder, plan.run.run_name),
        [timer, best, *build_callbacks(plan)],
        # Links are of some batches only; torch fails with both a static graph and accumulation.
        static=plan.guide is None and plan.trainer.accumulate_grad_batches == 1,
    )
    resume = agree_on_path(trainer, plan.resume)
    check_same_precision(trainer, plan.trainer.precision)
    told = restore(resume, module, prepared.tokenizers)
    record()
    for name in FILES_OF_RUN if resume is None else [METRICS]:
        set_aside(plan.folder / name)
    if trainer.is_global_zero:
        write_ledger(prepared.ledger, plan.folder)
        lines = *prepared.report, *told, headline(plan, module.model, trainer.world_size)
        print("\n".join(lines), flush=True)
    rank, world, device = trainer.global_rank, trainer.world_size, trainer.strategy.root_device
    try:
        trainer.fit(
            module,
            train_loader(plan, prepared, rank=rank, world=world, device=device),
            EvalBatches(prepared.valid, max_tokens=plan.data.max_tokens, rank=rank, world=world),
            ckpt_path=resume,
            weights_only=True,
        )
    except RuntimeError as error:
        explain_lost(error, trainer, plan.trainer.timeout)
        raise
    score = None if best.best_model_score is None else best.best_model_score.item()
    if trainer.is_global_zero:
        report_end(plan, trainer, timer, best, score)
    sweep.leave_process_group()
    return score


def report_end(
    plan: Plan, trainer: L.Trainer, timer: Timer, best: ModelCheckpoint, score: float | None
) -> None:
    """Print how training ended; write its result, and the hardware it ended on, to result.json."""
    left, why = timer.time_remaining(), ""
    if left is not None and left <= 0:
        why = f": trainer.max_time={plan.trainer.max_time}, resumed parts included, is used up"
    print(f"training ended at step {trainer.global_step:,}{why}")
    if score is not None:
        print(f"best {plan.checkpoint.label} {score:.2f}: {best.best_model_path}")
    device = trainer.strategy.root_device
    result = {
        "monitor": plan.checkpoint.label,
        "value": score,
        "steps": trainer.global_step,
        "seconds": round(timer.time_elapsed(), 1),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "devices": trainer.world_size,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    write_text(plan.folder / sweep.RESULT, json.dumps(result) + "\n")


def headline(plan: Plan, model: Seq2Seq, devices: int) -> str:
    """One line that describes the model, the batch size and the folder of a run; and a line of
    advice if each of several devices has little to do.
    """
    total = sum(p.numel() for p in model.parameters())
    vocabulary = sum(p.numel() for p in model.embeddings.parameters())
    pieces, accumulate = plan.data.max_tokens, plan.trainer.accumulate_grad_batches
    each = pieces // (devices * accumulate)
    line = (
        f"{plan.model['model']['name']} | attention: {plan.attention} | "
        f"{total / 1e6:.2f} M parameters ({vocabulary / 1e6:.2f} M over vocabularies) | "
        f"batch: {pieces:,} padded pieces a side over {devices} device(s) "
        f"x {accumulate} micro-batch(es), {each:,} a device in each | {plan.folder}"
    )
    if devices > 1 and each < FEW_PIECES:
        line += (
            f"\nadvice: {each:,} padded pieces are little work for a device. Raise data.max_tokens "
            f"with the number of devices, for example to data.max_tokens={pieces * devices}"
        )
    return line
