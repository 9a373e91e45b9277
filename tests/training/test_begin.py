"""A new run with the weights of another."""

from pathlib import Path

import pytest
import torch
from test_resume import assert_identical
from tiny_runs import corpus, demo_run, metrics, train_tiny, weights

from seq2seq import checkpoint
from seq2seq.errors import ConfigError

STILL = ("optimizer.lr=0", "trainer.max_steps=1")


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


def test_a_run_begins_with_the_weights_of_another(base: Path) -> None:
    """Nothing is learnt at a rate of zero: what begins is what is saved, and judged the same."""
    before = demo_run(base) / "last.ckpt"
    folder = train_tiny(base, *STILL, f"init={before}")
    assert_identical(weights(folder), checkpoint.read(before).weights)
    assert metrics(folder, "valid/loss") == [metrics(demo_run(base), "valid/loss")[-1]]
    state = torch.load(folder / "last.ckpt", weights_only=True)
    assert state["global_step"] == 1  # its own count, its own optimizer


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
        ("model.ffn_dim=64", r"ffn|feed\.up\.weight is \(32, 32\) there and \(64, 32\) here"),
        ("model.decoder_layers=3", "it has no decoder.2"),
        ("model.decoder_layers=1", "which is not here"),
    ],
)
def test_another_model_is_refused_in_words(base: Path, changed: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"is another model: .*({words})"):
        train_tiny(base, f"init={demo_run(base)}", changed)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("tokenizer=checkpoint",), "takes those of init=PATH"),
        (("init=nowhere.ckpt",), "init=nowhere.ckpt: there is no such checkpoint"),
        (("init={run}", "resume={run}/last.ckpt"), "give one"),
    ],
)
def test_what_cannot_be_begun_with_is_refused(
    base: Path, typed: tuple[str, ...], words: str
) -> None:
    options = [option.format(run=demo_run(base)) for option in typed]
    with pytest.raises(ConfigError, match=words):
        train_tiny(base, *options)
