"""The directions of a model, and the tags of each."""

from itertools import permutations
from typing import Any

import pytest
from helpers.many_languages import LANGUAGES
from helpers.tiny_runs import tokenizer

from seq2seq.base.errors import ConfigError
from seq2seq.text.tokenization.directions import Direction, Directions
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers


def tagged() -> Tokenizer:
    return tokenizer().with_tags(LANGUAGES)


def directions(tag: str | None = None, **data: Any) -> Directions:
    pieces = tagged()
    return Directions(data, Tokenizers(pieces, pieces), tag)


@pytest.mark.parametrize("tags", ["target", "both"])
def test_tags_stand_where_the_training_put_them(tags: str) -> None:
    known = directions(languages=LANGUAGES, language_tags=tags)
    assert known.tags == 1
    for source, target in permutations(LANGUAGES, 2):
        of_source, of_target = (tagged().tag_id(each) for each in (source, target))
        before, start = ((of_source,), (of_target,)) if tags == "both" else ((of_target,), ())
        assert known.find(source, target) == Direction(source, target, before, start)


@pytest.mark.parametrize("code", ["de", "DE", "deu", "ger", "de-DE", "deu_Latn", "deu-latn"])
def test_a_language_may_have_any_usual_code(code: str) -> None:
    known = directions(languages=LANGUAGES, language_tags="both")
    assert known.find(code, "en") == known.find("deu_Latn", "eng_Latn")


def test_languages_that_are_not_given_have_defaults() -> None:
    data: Any = {"source": "deu_Latn", "target": "eng_Latn", "languages": LANGUAGES}
    known = directions(**data, language_tags="both")
    assert known.find() == known.find("de", "en")
    assert known.find(target_language="fr") == known.find("de", "fr")
    assert known.find("fr") == known.find("fr", "en")


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (
            (None, None),
            "source language is missing: give --source-language, one of deu_Latn, eng_Latn",
        ),
        (
            ("de", None),
            "target language is missing: give --target-language, one of deu_Latn, eng_Latn",
        ),
        (("de", "fre_Latm"), "unknown target language 'fre_Latm'; did you mean 'fra_Latn'"),
        (("xx", "en"), r"unknown source language 'xx'.* This model knows: deu_Latn, eng_Latn"),
        (("zh-Hant", "en"), "unknown source language 'zh-Hant'"),
        (("de", "deu"), "source and target language are both deu_Latn"),
    ],
)
def test_what_is_missing_or_unknown_is_named_with_what_to_type(pair: Any, words: str) -> None:
    known = directions(languages=LANGUAGES, language_tags="both")
    with pytest.raises(ConfigError, match=words):
        known.find(*pair)


def test_an_ambiguous_code_is_refused() -> None:
    pieces = tokenizer().with_tags(["de", "pt-BR", "pt-PT"])
    data = {"languages": ["de", "pt-BR", "pt-PT"], "language_tags": "target"}
    known = Directions(data, Tokenizers(pieces, pieces))
    with pytest.raises(ConfigError, match=r"target language 'pt' may be pt-BR or pt-PT: give one"):
        known.find("de", "pt")
    assert known.find("de", "pt_br").target == "pt-BR"


def test_the_source_of_a_model_with_target_tags_need_not_be_known() -> None:
    known = directions(languages=LANGUAGES, language_tags="target")
    tag = tagged().tag_id("eng_Latn")
    assert known.find(target_language="en") == Direction(None, "eng_Latn", (tag,))


def test_a_model_of_one_direction_refuses_other_languages() -> None:
    known = directions(source="de", target="en")
    assert known.find() == known.find("deu", "eng") == Direction("de", "en") and known.tags == 0
    with pytest.raises(ConfigError, match=r"unknown target language 'fr'.* This model knows: en"):
        known.find("de", "fr")


def test_a_model_trained_in_both_directions_has_two() -> None:
    pieces = tokenizer().with_tags(["de", "en"])
    data = {"source": "de", "target": "en", "both_directions": True}
    known = Directions(data, Tokenizers(pieces, pieces))
    assert known.find() == Direction("de", "en", (pieces.tag_id("en"),))
    assert known.find("en", "de") == Direction("en", "de", (pieces.tag_id("de"),))
    with pytest.raises(ConfigError, match="source and target language are both de"):
        known.find(target_language="de")
    tagged = Directions(data, Tokenizers(pieces, pieces), "de")
    assert tagged.find() == Direction("de", "en", (pieces.tag_id("de"),))


def test_the_tag_of_a_corpus_is_for_models_of_one_direction() -> None:
    assert directions("deu_Latn", source="de", target="en").find().before == (
        tagged().tag_id("deu_Latn"),
    )
    with pytest.raises(ConfigError, match="--tag fra_Latn: .* --target-language fra_Latn"):
        directions("fra_Latn", languages=LANGUAGES, language_tags="both")
