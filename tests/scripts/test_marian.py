"""A model of the transformers library with our weights."""

from pathlib import Path

import pytest
import torch
from decoding_bench import marian
from helpers.tiny_runs import TINY_MODEL, save_model

from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.data.batches.padding import pad_rows
from seq2seq.interchange.ctranslate2 import NEVER


@pytest.mark.parametrize("overrides", [[], ["model.norm_order=post", "attn.bias=true"]])
def test_the_model_of_transformers_gives_every_piece_the_same_score(
    overrides: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    model = save_model(tmp_path / "a.ckpt", *TINY_MODEL, *overrides)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name or "bias" in name:
                value.add_(0.3 * torch.randn(value.shape))
    theirs = marian.build(model)
    source = pad_rows([[5, 6, 7, EOS], [8, EOS]])
    target = torch.tensor([[BOS, 9, 10], [BOS, 11, 12]])
    with torch.no_grad():
        logits = theirs(source, attention_mask=source != PAD, decoder_input_ids=target).logits
        expected = model.logits(model(source, target).hidden)
    expected[..., [PAD, BOS, UNK]] = logits[..., [PAD, BOS, UNK]]
    assert (logits[..., [PAD, BOS, UNK]] < NEVER / 2).all()
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "overrides",
    [["attn=mqa"], ["position=rope"], ["model.norm=rmsnorm"], ["model.tie=none"], ["model=rnn"]],
)
def test_models_that_transformers_cannot_compute_are_refused(
    overrides: list[str], tmp_path: Path
) -> None:
    tiny = [] if "model=rnn" in overrides else TINY_MODEL
    model = save_model(tmp_path / "a.ckpt", *tiny, *overrides)
    assert not marian.fits(model)
