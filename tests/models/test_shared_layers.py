"""Stacks that apply one layer repeatedly (Dehghani et al. 2018, arXiv:1807.03819)."""

from pathlib import Path

import pytest
import torch
from helpers.native_code import needs_native
from helpers.native_models import assert_native_translates_alike
from helpers.tiny_runs import TINY_MODEL, save_model, train_tiny, weights

from seq2seq import checkpoint
from seq2seq.base.symbols import EOS
from seq2seq.decoding import build_search, decode
from seq2seq.decoding.precision import with_precision
from seq2seq.models import Memories, Seq2Seq
from seq2seq.models.ensemble import Ensemble

SHARED = ("model.share_layers=true", "model.encoder_layers=3", "model.decoder_layers=3")


def build(path: Path, *typed: str) -> Seq2Seq:
    save_model(path, *TINY_MODEL, *typed)
    return checkpoint.read(path).build()


def test_a_shared_stack_equals_separate_layers_with_equal_weights(tmp_path: Path) -> None:
    """Its gradient is the sum of theirs, and its size that of a single layer."""
    shared = build(tmp_path / "shared.ckpt", *SHARED)
    apart = build(tmp_path / "apart.ckpt", *SHARED[1:])
    single = build(tmp_path / "single.ckpt", "model.encoder_layers=1", "model.decoder_layers=1")
    apart.load_state_dict(shared.state_dict())
    rows = torch.randint(4, 20, (5, 7))
    for model in (shared, apart):
        model.eval()(rows, rows).hidden[..., ::2].exp().sum().backward()
    assert torch.equal(shared(rows, rows).hidden, apart(rows, rows).hidden)
    own = dict(apart.named_parameters())
    for name, weight in shared.named_parameters():
        same = [name.replace(".0.", f".{layer}.", 1) for layer in range(3)]
        parts = same if name.startswith(("encoder.0", "decoder.0")) else [name]
        gradients = [g for each in parts if (g := own[each].grad) is not None]
        assert (weight.grad is None) == (not gradients)
        if weight.grad is not None:
            torch.testing.assert_close(weight.grad, torch.stack(gradients).sum(0))
    sizes = [sum(w.numel() for w in model.parameters()) for model in (shared, single)]
    assert sizes[0] == sizes[1]


def test_shared_layers_stay_shared_through_training_and_a_checkpoint(base: Path) -> None:
    folder = train_tiny(base, *SHARED, "trainer.max_steps=3")
    trained = weights(folder)
    for name in trained:
        if ".2." in name:
            assert torch.equal(trained[name], trained[name.replace(".2.", ".0.", 1)])
    model = checkpoint.read(folder / "last.ckpt").build()
    assert model.decoder[2] is model.decoder[0]


@needs_native
@pytest.mark.parametrize("attention", ["attn=mha", "attn=ssru"])
def test_the_native_decoder_repeats_shared_layers(attention: str, tmp_path: Path) -> None:
    assert_native_translates_alike(build(tmp_path / "a.ckpt", *SHARED, attention))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_ensemble_of_a_model_with_itself_translates_like_the_model(
    precision: str, tmp_path: Path
) -> None:
    """Each application of a shared layer has a memory of its own."""
    model = with_precision(build(tmp_path / "a.ckpt", *SHARED), precision)
    rows = torch.randint(4, 20, (5, 7)).index_fill(1, torch.tensor([6]), EOS)
    search = build_search({"name": "beam", "beam_size": 3, "length_ratio": 0, "length_extra": 9})
    alone, together = decode(model, rows, search), decode(Ensemble([model, model]), rows, search)
    assert [[h.ids for h in each] for each in alone] == [[h.ids for h in each] for each in together]
    assert len(model.cross_attentions) == 3


@needs_native
def test_the_native_decoder_needs_a_memory_for_every_layer(tmp_path: Path) -> None:
    model = with_precision(build(tmp_path / "a.ckpt", *SHARED), "float32")
    sources, pasts = model.memories(model.encode(torch.tensor([[5, 6, EOS]])), 1)
    tokens, positions = torch.tensor([[5]]), torch.tensor([0])
    for missing in ((sources[1:], pasts), (sources, pasts[1:])):
        with pytest.raises(ValueError, match="memories for 3 layers"):
            model.decode(tokens, Memories(*missing), positions)
