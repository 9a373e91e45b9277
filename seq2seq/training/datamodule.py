"""Batches for each process, cut from global batches that do not depend on the number of
processes.
"""

import lightning as L

from seq2seq.data.batching import BatchLoader, EvalBatches
from seq2seq.data.prepare import Prepared
from seq2seq.data.subword_regularization import SubwordRegularization


class DataModule(L.LightningDataModule):
    """The two loaders, made when the trainer knows its rank.

    Args:
        prepared: the corpora.
        max_tokens: padded tokens of a global batch.
        seed: of the order of batches.
        subwords: re-segments the training pairs in each epoch, if given.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        max_tokens: int,
        seed: int,
        subwords: SubwordRegularization | None,
    ):
        super().__init__()
        self.prepared, self.max_tokens, self.seed = prepared, max_tokens, seed
        self.subwords = subwords

    def train_dataloader(self) -> BatchLoader:
        assert self.trainer is not None
        return BatchLoader(
            self.prepared.train,
            max_tokens=self.max_tokens,
            seed=self.seed,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
            steps=self.trainer.accumulate_grad_batches,
            subwords=self.subwords,
        )

    def val_dataloader(self) -> EvalBatches:
        assert self.trainer is not None
        return EvalBatches(
            self.prepared.valid,
            max_tokens=self.max_tokens,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
        )
