"""A decoder whose first input is a zero vector, as in Marian."""

from pathlib import Path

import pytest
import torch
from helpers.native_code import needs_native
from helpers.native_models import assert_native_translates_alike
from helpers.tiny_runs import TINY_MODEL, save_model, train_tiny, weights

from seq2seq import checkpoint
from seq2seq.base.symbols import BOS, EOS

ZERO = "model.zero_start=true"
TARGET = "model.embeddings.target.weight"


@pytest.mark.parametrize("tie", ["all", "target", pytest.param("none", marks=pytest.mark.slow)])
def test_training_keeps_the_first_vector_zero_and_moves_the_others(tie: str, base: Path) -> None:
    typed = [f"model.tie={tie}", "optimizer=adamw", "trainer.max_steps=3"]
    folder = train_tiny(base, ZERO, *typed)
    trained = weights(folder)[TARGET.removeprefix("model.")]
    assert not trained[BOS].any() and trained[EOS].any()
    assert weights(train_tiny(base, *typed))[TARGET.removeprefix("model.")][BOS].any()


def test_loaded_weights_start_with_zero(tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, ZERO)
    content = torch.load(tmp_path / "a.ckpt", weights_only=True)
    content["state_dict"][TARGET][BOS] = 1.0
    torch.save(content, tmp_path / "a.ckpt")
    model = checkpoint.read(tmp_path / "a.ckpt").build()
    assert not model.embeddings.target.weight[BOS].any()
    assert model.embeddings.target.weight is model.embeddings.output.weight


@needs_native
@pytest.mark.parametrize("attention", ["attn=mha", "attn=ssru"])
def test_the_native_decoder_starts_with_zero(attention: str, tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, ZERO, attention)
    assert_native_translates_alike(checkpoint.read(tmp_path / "a.ckpt").build())
