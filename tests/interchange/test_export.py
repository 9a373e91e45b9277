"""Models that CTranslate2 can compute, and models it cannot."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.interchange_models import random_checkpoint
from helpers.tiny_runs import TINY_MODEL, plan_of, save_model

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import NAMES, UNK
from seq2seq.interchange.agreement import (
    CLOSE,
    Agreement,
    compare_searches,
    compare_translations,
    random_rows,
    score_targets,
    search_as_theirs,
)
from seq2seq.interchange.coverage import check_exportable
from seq2seq.interchange.ctranslate2 import CTranslate2, export, list_ctranslate2_gaps
from seq2seq.models import build_model
from seq2seq.text.tokenization.words import CharacterLevel, WordLevel


def agreements(saved: checkpoint.Saved, folder: Path) -> list[Agreement]:
    pytest.importorskip("ctranslate2", reason="pip install ctranslate2")
    export(saved, folder)
    return compare_translations(saved, CTranslate2(saved, folder).translate, random_rows(saved, 20))


MODERN = ["attn=gqa", "attn.bias=true", "position=rope", "model.norm=rmsnorm"]


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["model.norm_order=post", "model.activation=gelu", "position=learned"],
        ["position.length=256", "position=learned", "model.scale=false", "attn.bias=true"],
        [*MODERN, "model.activation=swiglu"],
        ["attn=mqa", "position=t5", "model.norm=rmsnorm", "model.norm_order=post"],
        ["attn@cross_attn=mqa", "position=none", "model.encoder_layers=2"],
        ["attn=dot", "attn.kernel=flash"],
    ],
    ids=" ".join,
)
def test_ctranslate2_finds_the_same_hypotheses_with_the_same_scores(
    overrides: list[str], tmp_path: Path
) -> None:
    for agreement in agreements(
        random_checkpoint(tmp_path / "a.ckpt", *overrides), tmp_path / "ct2"
    ):
        assert agreement.equal >= 19 and agreement.sentences == 20
        assert agreement.difference < 1e-5


def test_a_folder_of_other_weights_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="pip install ctranslate2")
    saved = random_checkpoint(tmp_path / "a.ckpt")
    export(saved, tmp_path / "ct2")
    saved.weights["decoder.1.cross.out.weight"].mul_(1.1)
    engine = CTranslate2(saved, tmp_path / "ct2")
    agreement, _ = compare_translations(saved, engine.translate, random_rows(saved, 20))
    assert agreement.difference > 1e-3 and not agreement.holds


def test_agreement_needs_equal_scores_and_nearly_all_hypotheses() -> None:
    assert Agreement(5, 100, 90, 1e-4).holds
    assert not Agreement(5, 100, 89, 1e-4).holds
    assert not Agreement(5, 100, 100, 1e-2).holds


@pytest.mark.parametrize("beams", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_rounding_may_choose_between_equally_good_hypotheses(beams: int, tmp_path: Path) -> None:
    saved = random_checkpoint(tmp_path / "a.ckpt")
    model, rows = saved.build(), random_rows(saved, 5)
    often = search_as_theirs(model, rows, beams, 30)[0][0]
    twin, other = often + 1, often + 2
    for name, weight in saved.weights.items():
        if name.startswith(("embeddings.target", "embeddings.output")):
            weight[twin] = weight[often]

    class Swapping:
        """Our search, with a frequent piece replaced by another."""

        def __init__(self, piece: int):
            self.piece, self.model = piece, saved.build()

        def translate(self, batch: Any, beams: int, limit: int) -> Any:
            found = search_as_theirs(self.model, batch, beams, limit)
            changed = [[self.piece if i in (often, twin) else i for i in ids] for ids in found]
            return list(zip(changed, score_targets(self.model, batch, changed), strict=True))

    for piece, alike in ((often, True), (twin, True), (other, False)):
        agreement = compare_searches(saved.build(), Swapping(piece).translate, rows, beams)
        assert (agreement.equal == 5) == alike == agreement.holds


def test_a_model_that_expects_unknown_words_computes_the_same(tmp_path: Path) -> None:
    saved = random_checkpoint(tmp_path / "a.ckpt")
    saved.weights["embeddings.output.bias"][UNK] = 5.0
    greedy, beam = agreements(saved, tmp_path / "ct2")
    assert greedy.holds and greedy.equal == 20
    assert beam.difference <= CLOSE


def test_every_piece_has_a_unique_name_by_id(tmp_path: Path) -> None:
    lines = ["a\u2581b \u00a0 c\u0301  \u2028 <s> \\n", "\ud7a3 \U0001f600 \x00 '\"", "a b a b"]
    tokenizers = [
        WordLevel(vocab_size=300).train(lines),
        CharacterLevel(vocab_size=300).train(lines),
    ]
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    tokenizers.append(checkpoint.read(tmp_path / "a.ckpt").source)
    tokenizers.append(tokenizers[2].with_tags(["x", "y"]))
    for tokenizer in tokenizers:
        names = tokenizer.symbols()
        assert len(names) == len(set(names)) == tokenizer.size
        assert tuple(names[:4]) == NAMES
        assert json.loads(json.dumps(names)) == names


@pytest.mark.parametrize(
    ("overrides", "reasons"),
    [
        (["model=rnn"], ["has no recurrent models", "model=transformer"]),
        (["attn=linear"], ["encoder self-attention", "Linear", "attn=mha, gqa or mqa"]),
        (["attn@cross_attn=additive"], ["cross-attention: it has no score like Additive"]),
        (["attn@decoder_attn=mla"], ["decoder self-attention", "Latent"]),
        (["attn=global_context"], ["encoder self-attention: it has no attention like"]),
        (["position=alibi"], ["position=alibi", "in decoders only", "position=sinusoidal"]),
        (["position=transformer_xl"], ["depend on the query", "position=sinusoidal"]),
        (["attn@cross_attn=mqa", "cross_attn.num_heads=2"], ["num_heads=2 and num_heads=4"]),
    ],
)
def test_what_ctranslate2_lacks_is_refused_by_name(
    overrides: list[str], reasons: list[str], tmp_path: Path
) -> None:
    with torch.device("meta"):
        model = build_model(plan_of(tmp_path, "run_name=x", *overrides).model, 9, 9)
    with pytest.raises(ConfigError) as refusal:
        check_exportable(model, "CTranslate2", list_ctranslate2_gaps)
    for reason in [*reasons, "seq2seq translate"]:
        assert reason in str(refusal.value)


def test_without_the_package_the_message_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match="pip install ctranslate2"):
        export(SimpleNamespace(), tmp_path)  # type: ignore[arg-type]
