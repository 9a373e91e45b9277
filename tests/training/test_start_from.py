"""A new run with the weights of another."""

from pathlib import Path

import pytest
import torch
from helpers.compared_runs import assert_identical, assert_resumed_exactly
from helpers.tiny_runs import corpus, demo_run, metrics, train_tiny, weights

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError

STILL = ("optimizer.lr=0", "trainer.max_steps=1")


def test_a_run_begins_with_the_weights_of_another(base: Path) -> None:
    """Nothing is learnt at a rate of zero: what begins is what is saved, and judged the same."""
    before = demo_run(base) / "last.ckpt"
    folder = train_tiny(base, *STILL, f"init={before}")
    assert_identical(weights(folder), checkpoint.read(before).weights)
    assert metrics(folder, "valid/loss") == [metrics(demo_run(base), "valid/loss")[-1]]
    state = torch.load(folder / "last.ckpt", weights_only=True)
    assert state["global_step"] == 1  # it starts with a new count and optimizer


def test_a_run_goes_on_with_other_text_and_the_tokenizers_of_the_checkpoint(base: Path) -> None:
    before = demo_run(base)
    small = corpus(base) / "valid"
    options = (*STILL, f"init={before}", f"data.train={small}")
    with pytest.raises(ConfigError, match=r"other tokenizers .* tokenizer=checkpoint"):
        train_tiny(base, *options)
    folder = train_tiny(base, *options, "tokenizer=checkpoint")
    saved = checkpoint.read(folder)
    assert saved.source.to_json() == checkpoint.read(before).source.to_json()
    assert_identical(saved.weights, checkpoint.read(before / "best.ckpt").weights)


@pytest.mark.slow
def test_a_run_that_began_so_goes_on_exactly(base: Path) -> None:
    text = f"data.train={corpus(base) / 'valid'}"
    options = (f"init={demo_run(base)}", "tokenizer=checkpoint", text, "schedule.steps=4")
    assert_resumed_exactly(base, *options, stops=(2,), end=4)


def test_heads_that_are_shared_take_the_mean_of_those_they_stand_for(base: Path) -> None:
    before = demo_run(base) / "last.ckpt"
    folder = train_tiny(base, *STILL, "attn=mqa", f"init={before}")
    old, new = checkpoint.read(before).weights, weights(folder)
    name = "decoder.0.cross.k.weight"
    mean = old[name].unflatten(0, (4, -1)).mean(0)
    torch.testing.assert_close(new[name], mean)
    assert torch.equal(new["decoder.0.cross.q.weight"], old["decoder.0.cross.q.weight"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("model.ffn_dim=64", "model.ffn_dim was 32 and is 64 now"),
        ("model.decoder_layers=3", "model.decoder_layers was 2 and is 3 now"),
        ("model.num_heads=2", "model.num_heads was 4 and is 2 now"),  # weights of the same shape
        ("position=rope", "position.name was 'sinusoidal' and is 'rope' now"),
        ("model.scale=false", "model.scale was True and is False now"),
    ],
)
def test_another_model_is_refused_in_words(base: Path, changed: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"is another model: .*({words})"):
        train_tiny(base, f"init={demo_run(base)}", changed)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("tokenizer=checkpoint",), "takes the tokenizers of init=PATH"),
        (("init=nowhere.ckpt",), "init=nowhere.ckpt: there is no such checkpoint"),
        (("init={run}", "tokenizer=checkpoint", "+tokenizer.vocab_size=9"), "vocab_size means not"),
    ],
)
def test_what_cannot_be_begun_with_is_refused(
    base: Path, typed: tuple[str, ...], words: str
) -> None:
    options = [option.format(run=demo_run(base)) for option in typed]
    with pytest.raises(ConfigError, match=words):
        train_tiny(base, *options)
