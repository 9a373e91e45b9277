"""Alignments of the words of given texts."""

from pathlib import Path

import pytest
import torch
from helpers.tiny_runs import TINY_MODEL, demo_lines, save_model

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS
from seq2seq.models import PassOptions
from seq2seq.text.tokenization.directions import Directions
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.translation.translator import Translator

SENTENCES = demo_lines("test", "de", 1)


def test_an_alignment_is_between_words(translator: Translator) -> None:
    alignment = translator.align("Ein Hund läuft schnell.", "A dog runs fast.")
    assert [word.text for word in alignment.source] == ["Ein", "Hund", "läuft", "schnell."]
    assert [word.text for word in alignment.target] == ["A", "dog", "runs", "fast."]
    # Readings, layers, heads, target words, source words and the end.
    assert alignment.weights.shape == (2, 2, 4, 4, 5)
    assert (alignment.weights.sum(-1) < 1 + 1e-5).all()


def test_where_every_word_is_one_piece_the_weights_are_those_of_the_model(
    translator: Translator,
) -> None:
    source, target = "J der die", "I the in"
    assert translator.source.pieces(source) == source.split()
    assert translator.target.pieces(target) == target.split()
    source_ids, target_ids = (
        side.encode_batch([text])[0]
        for side, text in ((translator.source, source), (translator.target, target))
    )
    rows = torch.tensor([[*source_ids, EOS]]), torch.tensor([[BOS, *target_ids]])
    with torch.no_grad():
        # Row t is where the model looked when it wrote piece t; the last row wrote the end.
        expected = translator.model(*rows, PassOptions(need_weights=True)).weights[:, 0]
    written, read = translator.align(source, target).weights
    torch.testing.assert_close(written, expected[:, :, :3])
    torch.testing.assert_close(read, expected[:, :, 1:])
    torch.testing.assert_close(expected.sum(-1), torch.ones(2, 4, 4))


def test_without_a_translation_the_models_own_is_aligned(translator: Translator) -> None:
    alignment = translator.align(SENTENCES[0])
    assert [word.text for word in alignment.target] == translator.translate(SENTENCES[:1])[
        0
    ].split()


@pytest.mark.parametrize("language", ["zh", "zh-Hans", "ZH_CN"])
def test_languages_without_spaces_are_aligned_piece_by_piece(
    translator: Translator, language: str
) -> None:
    config = {**translator.config, "data": {**translator.config["data"], "target": language}}
    changed = Translator.__new__(Translator)
    tokenizers = Tokenizers(translator.source, translator.target)
    known = Directions(config["data"], tokenizers)
    changed.__dict__.update(translator.__dict__, config=config, directions=known)
    assert [word.text for word in changed.align("Ja.", "你好").target] == ["你", "好"]


def test_there_is_nothing_to_draw_without_texts_or_weights(
    translator: Translator, tmp_path: Path
) -> None:
    for pair in (("", "Yes."), (" ", "Yes."), ("Ja.", ""), ("", None)):
        with pytest.raises(ConfigError, match="one of the two texts is empty"):
            translator.align(*pair)
    save_model(tmp_path / "best.ckpt", *TINY_MODEL, "attn=fixed")
    with pytest.raises(ConfigError, match="attention 'fixed' has no weights to draw"):
        Translator.load(tmp_path, device="cpu").align("Ja.", "Yes.")
