"""The sharpest decoder layer, which a run records for alignments."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helpers.tiny_runs import demo_lines, train_tiny

from seq2seq import checkpoint
from seq2seq.checkpoint.folder import LAST
from seq2seq.metrics.scoring import cross_weights, read_pairs
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.training.sharpness import SharpestLayer


def sharpest_layer(file: Path, count: int) -> int:
    """The layer with the lowest mean entropy on the first validation pairs, computed alone."""
    saved = checkpoint.read(file)
    texts = zip(demo_lines("valid", "de", count), demo_lines("valid", "en", count), strict=True)
    (pairs,) = read_pairs(texts, Tokenizers(saved.source, saved.target), 1000, 1000)
    sums = [0.0] * len(saved.build().cross_attentions)
    for weights in cross_weights(saved.build(), pairs):
        for layer, of_layer in enumerate(weights.double().mean(1).tolist()):
            sums[layer] -= sum(p * math.log(p) for row in of_layer for p in row if p > 0)
    return sums.index(min(sums)) + 1


def test_each_checkpoint_names_its_sharpest_layer(base: Path) -> None:
    options = "trainer.max_steps=6", "trainer.val_check_interval=3", "model.decoder_layers=4"
    folder = train_tiny(base, *options, "validation.sentences=10", "checkpoint.every=3")
    for name in ("best.ckpt", LAST):
        config = checkpoint.read(folder / name).config
        assert config["sharpest_layer"] == sharpest_layer(folder / name, 10)


def test_a_model_without_weights_names_none(base: Path) -> None:
    folder = train_tiny(base, "attn@cross_attn=fixed", "trainer.max_steps=1")
    assert checkpoint.read(folder).config["sharpest_layer"] is None


def test_a_resumed_run_still_names_the_layer_before_its_first_validation() -> None:
    before, after = SharpestLayer(), SharpestLayer()
    before.layer = 2
    after.load_state_dict(before.state_dict())
    module: Any = SimpleNamespace(saved={"config": {}})
    no_trainer: Any = None
    after.on_train_start(no_trainer, module)
    assert module.saved["config"] == {"sharpest_layer": 2}
