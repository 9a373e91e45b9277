"""Models in the native decoder, and the same models in torch."""

from typing import Any

import pytest
import torch

from helpers.builders import small_model
from seq2seq.base.symbols import EOS
from seq2seq.decoding import Hypothesis, build_search, decode
from seq2seq.decoding.constraints.guide import NextTokens
from seq2seq.decoding.precision import is_native, with_precision
from seq2seq.models import Seq2Seq

MODELS = (
    "attn=mha",
    "attn=gqa position=rope",
    "attn=mqa position=learned position.length=64 model.norm_order=post",
    "attn=gqa position=alibi model.norm=rmsnorm model.activation=swiglu",
    "attn=mha position=t5 model.norm=rmsnorm model.norm_order=post model.activation=gelu",
    "attn=gqa position=transformer_xl attn.bias=true",
    "attn=mha position=none attn.bias=true model.tie=none model.num_heads=2",
    "attn=mha model.dim=36 model.num_heads=3 model.decoder_layers=1 model.activation=silu "
    "model.norm_eps=1e-3 position.endpoint=true",
    "attn@decoder_attn=ssru position=rope model.dim=36 model.num_heads=3 model.norm_order=post "
    "model.norm=rmsnorm model.activation=swiglu model.decoder_layers=3",
    "attn@decoder_attn=ssru",
)


RNNS = (
    "rnn",
    "rnn model.cell=lstm model.layers=2 model.dim=36 attn=dot",
    "rnn attn=additive model.num_heads=2 model.project_scores=true attn.bias=true",
    "rnn attn=concat model.dim=36 model.num_heads=3 model.scale=true model.tie=none",
    "rnn_luong",
    "rnn_luong model.cell=lstm model.layers=3 model.dim=20 attn=additive",
    "rnn_luong attn=scaled_dot model.layers=2",
    "rnn_luong attn=general model.dim=36 model.num_heads=2",
)


# Attention, a recurrent unit, and both recurrent models.
KINDS = (MODELS[1], MODELS[-1], RNNS[1], RNNS[4])


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"name": "greedy"},
    "beam": {"name": "beam", "beam_size": 4},
    "coverage": {"name": "beam", "beam_size": 3, "coverage": 0.2},
    "diverse": {"name": "diverse", "beam_size": 4, "beam_groups": 2},
    "sample": {"name": "sample", "samples": 3, "top_k": 5},
    "long": {"name": "greedy", "min_length_extra": 5, "no_repeat_ngram": 2},
}


def build_exact(variant: str) -> Seq2Seq:
    """A small model in float64 with weights as widely spread as those of a trained one. It is a
    Transformer, or what the name of the variant begins with.
    """
    name, *options = variant.split()
    if "=" in name:
        return small_model("transformer", name, *options)
    return small_model(name, *options)


def build(variant: str) -> Seq2Seq:
    return build_exact(variant).float()


def assert_native_translates_alike(model: Seq2Seq) -> None:
    """Beam search finds the same hypotheses in the native decoder as with the model in torch."""
    rows = torch.randint(4, 20, (5, 7)).index_fill(1, torch.tensor([6]), EOS)
    search = build_search({"name": "beam", "beam_size": 3, "length_ratio": 0, "length_extra": 9})
    compiled = with_precision(model, "float32")
    assert is_native(compiled)
    one, other = decode(model, rows, search), decode(compiled, rows, search)
    assert [[h.ids for h in each] for each in one] == [[h.ids for h in each] for each in other]


def on_torch(model: Seq2Seq, precision: str, monkeypatch: pytest.MonkeyPatch) -> Seq2Seq:
    with monkeypatch.context() as patch:
        patch.setenv("SEQ2SEQ_NATIVE", "0")
        return with_precision(model, precision)


def assert_close(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        for mine, theirs in zip(one, other, strict=True):
            assert mine.token_logp == pytest.approx(theirs.token_logp, abs=1e-4, rel=1e-5)


class Phrase:
    """A guide that forbids a piece, and may require another."""

    def __init__(self, requires: bool):
        self.requires = requires

    def next_state(self, state: int, token: int) -> int:
        return int(state or token == 7)

    def next_tokens(self, state: int) -> NextTokens:
        if self.requires and not state:
            return NextTokens(torch.tensor([5, EOS]), required=[7])
        return NextTokens(torch.tensor([5]))

    def is_satisfied(self, state: int) -> bool:
        return False

    def progress(self, state: int) -> int:
        return state
