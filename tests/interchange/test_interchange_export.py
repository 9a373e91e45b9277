"""Exports to other programs compute the same there, and give the imported folder back."""

import json
import sys
import types
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from helpers.interchange_models import marian_folder, random_checkpoint, texts_of
from helpers.tiny_runs import plan_of

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import import_library
from seq2seq.base.symbols import BOS, PAD, UNK
from seq2seq.decoding import build_search
from seq2seq.interchange.agreement import compare_translations, random_rows
from seq2seq.interchange.argos import export as export_argos
from seq2seq.interchange.coverage import check_exportable
from seq2seq.interchange.huggingface_export import HuggingFace, export, list_marian_gaps
from seq2seq.interchange.huggingface_folder import read_folder
from seq2seq.models import build_model
from seq2seq.text.tokenization import piece_model, sentencepiece
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.translation.translator import Translator

NONE = (None, None)
transformers = pytest.importorskip("transformers", reason="pip install transformers")
pytest.importorskip("safetensors", reason="pip install safetensors")


@pytest.mark.parametrize("separate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_imported_folder_is_written_again_to_the_bit(separate: bool, tmp_path: Path) -> None:
    before = marian_folder(tmp_path / "a", separate, max_position_embeddings=512)
    read_folder(tmp_path / "a", NONE).write(tmp_path / "run")
    export(checkpoint.read(tmp_path / "run"), tmp_path / "b")
    after = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "b")
    assert type(after) is type(before)
    one, other = before.state_dict(), after.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    for name in ("d_model", "vocab_size", "decoder_vocab_size", "activation_function", "dropout"):
        assert getattr(before.config, name) == getattr(after.config, name)
    assert after.generation_config.bad_words_ids[0] == before.generation_config.bad_words_ids[0]


POST = "model.norm_order=post"


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.tie=all"],
        ["model.tie=all", POST, "attn.bias=true", "model.activation=silu"],
        pytest.param(["model.tie=target", POST, "model.activation=gelu"], marks=pytest.mark.slow),
        pytest.param(
            ["model.tie=none", POST, "model.scale=false", "model.encoder_layers=2"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=" ".join,
)
def test_transformers_finds_the_same_hypotheses(overrides: list[str], tmp_path: Path) -> None:
    saved = random_checkpoint(tmp_path / "a.ckpt", *overrides)
    # Symbols that are never chosen take part of the probability there, too.
    saved.weights["embeddings.output.bias"][[PAD, BOS, UNK]] = 4.0
    export(saved, tmp_path / "hf")
    engine = HuggingFace(saved, tmp_path / "hf")
    for agreement in compare_translations(saved, engine.translate, random_rows(saved, 10)):
        assert agreement.equal >= 9 and agreement.difference < 1e-5


def test_the_tokenizer_of_transformers_gives_our_ids(tmp_path: Path) -> None:
    saved = random_checkpoint(tmp_path / "a.ckpt", "model.tie=all")
    export(saved, tmp_path / "hf")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    engine = HuggingFace(saved, tmp_path / "hf")
    for text in ("Der Hund sieht die Katze.", "  <s> </s> <pad>  \u00e4\u4e2d"):
        [ours] = saved.source.encode_batch([text])
        ids = theirs(text)["input_ids"]
        assert ids == engine.places[0][torch.tensor([*ours, 2])].tolist()
        assert theirs.decode(ids, skip_special_tokens=True) == text


def test_an_imported_model_keeps_its_pieces_and_ids(tmp_path: Path) -> None:
    marian_folder(tmp_path / "a")
    read_folder(tmp_path / "a", NONE).write(tmp_path / "run")
    saved = checkpoint.read(tmp_path / "run")
    export(saved, tmp_path / "b")
    vocabulary = json.loads((tmp_path / "a" / "vocab.json").read_text())
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "b")
    for text, ours in zip(texts := texts_of(5, 30), saved.source.encode_batch(texts), strict=True):
        names = [saved.source.symbols()[i] for i in ours]
        assert theirs(text)["input_ids"] == [*(vocabulary[name] for name in names), 0]


LACKING = {
    "model=rnn": "recurrent model",
    "attn@decoder_attn=ssru": "decoder self-attention: it has no attention like SSRU",
    "position=rope": "positions: it has only sinusoids",
    "model.tie=target": "with pre-norm it has one matrix",
}
MORE_LACKING = {
    "attn=gqa": "encoder self-attention: it has no keys that heads share",
    "attn=dot": "score like Dot",
    "position.endpoint=true": "positions: it has only sinusoids",
    "model.norm=rmsnorm": "norms: it has only layer norms",
    "model.norm_eps=0.1": "norms: it has only layer norms",
    "model.activation=swiglu": "feed-forward: it has no gates",
    "attn@cross_attn=mha cross_attn.num_heads=2": "num_heads=2 and num_heads=4",
}


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        *LACKING.items(),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE_LACKING.items()),
    ],
)
def test_what_marian_models_lack_is_refused_by_name(
    overrides: str, reason: str, tmp_path: Path
) -> None:
    with torch.device("meta"):
        model = build_model(plan_of(tmp_path, "run_name=x", *overrides.split()).model, 9, 9)
    with pytest.raises(ConfigError) as refusal:
        check_exportable(model, "Hugging Face", list_marian_gaps)
    assert reason in str(refusal.value)


def package(folder: Path) -> tuple[Any, Path]:
    """An imported model with one tokenizer, and its package."""
    from helpers.marian import Marian

    from seq2seq.interchange.marian import read_marian

    marian = Marian(**{"transformer-ffn-activation": "swish"})
    marian.arrays["decoder_ff_logit_out_b"][0, 2] = 1.0  # some sentences end
    path = marian.write(folder)
    read_marian(path, [folder / "vocab.spm"], ("de", "en")).write(folder / "run")
    saved = checkpoint.read(folder / "run")
    pytest.importorskip("ctranslate2", reason="pip install ctranslate2")
    for agreement in export_argos(saved, folder / "x.argosmodel", random_rows(saved, 20)):
        assert agreement.equal >= 19 and agreement.difference < 1e-5
    return saved, folder / "x.argosmodel"


def test_a_package_holds_the_pieces_and_an_equal_model(tmp_path: Path) -> None:
    saved, path = package(tmp_path)
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        root = archive.namelist()[0].partition("/")[0]
        known = json.loads(archive.read(f"{root}/metadata.json"))
        pieces = archive.read(f"{root}/sentencepiece.model")
    assert {"metadata.json", "sentencepiece.model", "model/model.bin"} <= names
    assert (known["from_code"], known["to_code"]) == ("de", "en")
    again = sentencepiece.build_tokenizer(piece_model.parse_piece_model(pieces))
    texts = ["ab a", "  b  ab ", "<s> x", ""]
    (one, other) = (
        [[each.symbols()[i] for i in row] for row in each.encode_batch(texts)]
        for each in (saved.source, again)
    )
    assert one == other


def test_a_tokenizer_that_sentencepiece_lacks_is_refused(tmp_path: Path) -> None:
    saved = random_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(ConfigError, match="tokenizer=unigram"):
        export_argos(saved, tmp_path / "x.argosmodel", [])
    assert not (tmp_path / "x.argosmodel").exists()


def test_two_tokenizers_are_refused(tmp_path: Path) -> None:
    saved = random_checkpoint(tmp_path / "a.ckpt")
    another = Tokenizer.from_json(saved.target.to_json())
    with pytest.raises(ConfigError, match="this model has two"):
        export_argos(saved._replace(target=another), tmp_path / "x.argosmodel", [])


def test_a_package_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="pip install no_such_package$"):
        import_library("no_such_package.inside")


def test_argos_translates_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARGOS_PACKAGES_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("stanza", "minisbd", "spacy"):  # they split texts into sentences
        monkeypatch.setitem(sys.modules, name, MagicMock())
    pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    argos = pytest.importorskip("argostranslate.package", reason="pip install argostranslate")
    from argostranslate import settings, translate

    saved, path = package(tmp_path)
    argos.install_from_path(path)
    [installed] = argos.get_installed_packages()
    assert (installed.from_code, installed.to_code) == ("de", "en")
    monkeypatch.setattr(settings, "beam_size", 1)
    engine = translate.ctranslate2.Translator(str(installed.package_path / "model"))
    alone = types.SimpleNamespace(split_sentences=lambda text: [text])
    search = build_search({"name": "greedy", "length_ratio": 0.0, "length_extra": 256})
    texts = ["ab a b c", "c ab", "b aaab", "c"]
    ours = Translator(saved, device="cpu").stream(texts, search)
    for text, ((best, *_), _) in zip(texts, ours, strict=True):
        [theirs] = translate.apply_packaged_translation(installed, text, engine, alone, 1)
        assert theirs.value == best.text
