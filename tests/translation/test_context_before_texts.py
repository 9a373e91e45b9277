"""Texts with the sentences before them, for models that were trained with these."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.many_languages import save_languages
from helpers.tiny_runs import demo_lines

from seq2seq.base.errors import CheckpointError, ConfigError, DataError
from seq2seq.base.symbols import BOS, EOS
from seq2seq.checkpoint.average import average
from seq2seq.models import Seq2Seq
from seq2seq.text.documents.document import Document
from seq2seq.text.tokenization.tokenizer import SEPARATOR
from seq2seq.translation.documents import request_lines, requests_of
from seq2seq.translation.request import TranslationRequest
from seq2seq.translation.translator import Translator

SHORT = [line for line in demo_lines("test", "de", 100) if len(line) < 45]
LINES = [*SHORT[:3], "", *SHORT[3:6]]
BEFORE = [[], LINES[:1], LINES[:2], LINES[1:3], [], LINES[4:5], LINES[4:6]]
NAMED: Any = {"source_language": "deu", "target_language": "fra"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seq2Seq]:
    path = tmp_path_factory.mktemp("context") / "best.ckpt"
    return path, save_languages(path, "target", context=2)


@pytest.fixture(scope="module")
def translator(saved: tuple[Path, Seq2Seq]) -> Translator:
    return Translator.load(saved[0], "cpu")


def encode(translator: Translator, before: Sequence[str], text: str) -> list[int]:
    """The ids that the model reads, as in training: all sentences with their tags."""
    tag, separator = (translator.source.tag_id(name) for name in ("fra_Latn", SEPARATOR))
    rows = translator.source.encode_batch([*before, text])
    return [i for row in rows for i in (separator, tag, *row)][1:] + [EOS]


def submitted(
    translator: Translator, request: TranslationRequest, **options: Any
) -> list[list[int]]:
    """The sources of the sentences of a text."""
    list(translator.stream([request], translator.search(), **options))
    return [sentence.source for sentence in request.sentences]


def test_a_text_is_translated_after_its_context(
    translator: Translator, saved: tuple[Path, Seq2Seq]
) -> None:
    """The translation is the most probable one token by token, from whole passes of the model."""
    requests = list(request_lines(LINES, translator.context, **NAMED))
    assert [request.context for request in requests] == BEFORE
    results = list(translator.stream(requests, translator.engine(workers=1)))
    for text, before, request, result in zip(LINES, BEFORE, requests, results, strict=True):
        if not text:
            assert not result.translations and not result.failed
            continue
        source = encode(translator, before, text)
        assert [each.source for each in request.sentences] == [source]
        written: list[int] = result.translations[0].ids
        hidden = saved[1](torch.tensor([source]), torch.tensor([[BOS, *written[:-1]]])).hidden
        logits = saved[1].logits(hidden)[0]
        logits[:, :EOS] = logits[:, EOS + 1 : 4] = -torch.inf
        assert logits.argmax(-1).tolist() == written
    alone = translator.translate(LINES, **NAMED)
    assert sum(a != r.translations[0].text for a, r in zip(alone, results, strict=True) if a) >= 3


def test_the_earliest_sentences_are_left_out_if_there_is_no_room(translator: Translator) -> None:
    text, before = LINES[2], LINES[:2]
    whole, one, none = (encode(translator, before[n:], text) for n in range(3))
    for limit, expected in ((len(whole), whole), (len(whole) - 1, one), (len(one) - 1, none)):
        request = TranslationRequest(text, context=before, **NAMED)
        assert submitted(translator, request, max_source=limit) == [expected]


def test_a_text_in_parts_has_no_context(translator: Translator) -> None:
    request = TranslationRequest(LINES[0], context=LINES[1:3], **NAMED)
    with pytest.warns(UserWarning, match="translated in"):
        sources = submitted(translator, request, max_source=8)
    assert len(sources) > 1
    assert not any(translator.source.tag_id(SEPARATOR) in source for source in sources)


def test_alternatives_have_the_context_of_the_text(translator: Translator) -> None:
    request = TranslationRequest(LINES[1], context=LINES[:1], alternatives=3, **NAMED)
    sources = submitted(translator, request)
    assert len(sources) > 1
    assert all(source == encode(translator, LINES[:1], LINES[1]) for source in sources)


def test_only_a_model_trained_with_context_reads_it(tmp_path: Path) -> None:
    save_languages(tmp_path / "best.ckpt", "target")
    plain = Translator.load(tmp_path / "best.ckpt", "cpu")
    request = TranslationRequest(LINES[1], context=LINES[:1], **NAMED)
    alone = submitted(plain, TranslationRequest(LINES[1], **NAMED))
    assert plain.context == 0 and submitted(plain, request) == alone


def test_sentences_of_a_file_have_those_before_them() -> None:
    documents = [Document.of(text, "de") for text in ("Eins. Zwei.\n\nDrei.", "Vier. Fünf.")]
    found = [(request.text, request.context) for request in requests_of(documents, context=2)]
    sentences = ["Eins.", "Zwei.", "Drei.", "Vier.", "Fünf."]
    assert found == [(each, sentences[max(0, i - 2) : i]) for i, each in enumerate(sentences)]
    assert [request.context for request in requests_of(documents)] == [[]] * 5


@pytest.mark.parametrize("asked", [{"min_length_ratio": 0.2}, {"coverage": 0.2, "name": "beam"}])
def test_options_that_count_all_pieces_are_refused(
    translator: Translator, asked: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="min_length_ratio and coverage"):
        translator.search(**asked)


def test_models_with_other_context_are_not_joined(
    saved: tuple[Path, Seq2Seq], tmp_path: Path
) -> None:
    save_languages(tmp_path / "one.ckpt", "target", context=1)
    paths = saved[0], tmp_path / "one.ckpt"
    with pytest.raises(ConfigError, match=r"one\.ckpt cannot be joined .*data\.context"):
        Translator.ensemble(paths)
    with pytest.raises(CheckpointError, match="not the same model.*data.context"):
        average(paths, tmp_path / "mean.ckpt")
    assert not (tmp_path / "mean.ckpt").exists()


@pytest.mark.parametrize("context", ["abc", [None], [["a"]]])
def test_a_context_is_a_list_of_texts(context: Any) -> None:
    with pytest.raises(DataError, match="context should be a list"):
        TranslationRequest("a", context=context)
