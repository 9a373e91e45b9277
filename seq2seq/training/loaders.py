"""The training batches of a process, cut from global batches that do not depend on the number of
processes.
"""

import torch

from seq2seq.data.augment.augmentation import Augmentation, RowText
from seq2seq.data.augment.augmented_text import AugmentOptions
from seq2seq.data.augment.subword_regularization import SubwordRegularization
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.batches.packed import Capacity
from seq2seq.data.prepare import Prepared
from seq2seq.training.config.plan import Plan


def train_loader(
    plan: Plan,
    prepared: Prepared,
    *,
    rank: int = 0,
    world: int = 1,
    device: torch.device | None = None,
) -> BatchLoader:
    """The training batches of one of `world` processes, on its `device`."""
    capacity = None
    if plan.trainer.packed:
        parts = world * plan.trainer.accumulate_grad_batches
        capacity = Capacity.of(plan.data.max_tokens, plan.data.max_length, parts)
    return BatchLoader(
        prepared.train,
        max_tokens=plan.data.max_tokens,
        seed=plan.run.seed,
        rank=rank,
        world=world,
        steps=plan.trainer.accumulate_grad_batches,
        variants=build_variants(plan, prepared),
        stages=prepared.stages,
        cut=plan.loss.simcut_p if plan.loss.simcut else 0.0,
        device=device,
        capacity=capacity,
    )


def build_variants(plan: Plan, prepared: Prepared) -> Augmentation | SubwordRegularization | None:
    """The generator of new forms of the training pairs in each epoch; None if they never change."""
    corpus, tokenizers, subwords = prepared.train, prepared.tokenizers, None
    shared = {"seed": plan.run.seed, "max_length": plan.data.max_length}
    if plan.bpe_dropout:
        subwords = SubwordRegularization(corpus, tokenizers, p=plan.bpe_dropout, **shared)
    if not corpus.is_augmented:
        return subwords
    text = RowText(corpus, tokenizers, prepared.word_links, plan.link_files.to_end)
    options = [AugmentOptions(**component.augment) for component in corpus.components]
    return Augmentation(text, options, subwords=subwords, **shared)
