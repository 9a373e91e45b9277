"""The training batches of a process, cut from global batches that do not depend on how many
processes there are.
"""

from seq2seq.data.batch_loader import BatchLoader
from seq2seq.data.prepare import Prepared
from seq2seq.data.subword_regularization import SubwordRegularization
from seq2seq.training.config.plan import Plan


def train_loader(plan: Plan, prepared: Prepared, *, rank: int = 0, world: int = 1) -> BatchLoader:
    """The training batches of one of `world` processes."""
    subwords = None
    if plan.bpe_dropout:
        subwords = SubwordRegularization(
            prepared.train,
            prepared.tokenizers,
            p=plan.bpe_dropout,
            seed=plan.run.seed,
            max_length=plan.data.max_length,
        )
    return BatchLoader(
        prepared.train,
        max_tokens=plan.data.max_tokens,
        seed=plan.run.seed,
        rank=rank,
        world=world,
        steps=plan.trainer.accumulate_grad_batches,
        subwords=subwords,
        cut=plan.loss.simcut_p if plan.loss.simcut else 0.0,
    )
