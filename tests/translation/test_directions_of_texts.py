"""Translations between any two of several languages, by one model and in one batch."""

import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.many_languages import LANGUAGES, save_languages
from helpers.tiny_runs import demo_lines

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, NEVER_GENERATED
from seq2seq.models import Seq2Seq
from seq2seq.translation.request import TranslationRequest
from seq2seq.translation.translator import Translator

TEXTS = demo_lines("test", "de", 12)
PAIRS = list(permutations(LANGUAGES, 2))
both_kinds = pytest.mark.parametrize("tags", ["target", "both"])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Seq2Seq]]:
    folder = tmp_path_factory.mktemp("languages")
    return {
        tags: (folder / f"{tags}.ckpt", save_languages(folder / f"{tags}.ckpt", tags))
        for tags in ("target", "both")
    }


def named(source: str, target: str) -> Any:
    return {"source_language": source, "target_language": target}


def tags_of(translator: Translator, tags: str, source: str, target: str) -> tuple[list[int], ...]:
    """The ids before the source and those before the translation."""
    ids = [translator.source.tag_id(each) for each in (source, target)]
    return ([ids[0]], [ids[1]]) if tags == "both" else ([ids[1]], [])


@torch.no_grad()
def greedy(model: Seq2Seq, source: list[int], start: list[int], limit: int) -> list[int]:
    """The most probable next token again and again, from whole passes, eos included if reached."""
    written = list(start)
    while len(written) < limit and written[len(start) :][-1:] != [EOS]:
        hidden = model(torch.tensor([source]), torch.tensor([[BOS, *written]])).hidden
        logits = model.logits(hidden)[0, -1]
        logits[[*NEVER_GENERATED]] = -torch.inf
        written.append(int(logits.argmax()))
    return written[len(start) :]


@both_kinds
def test_texts_of_all_directions_are_decoded_in_one_batch(saved: Any, tags: str) -> None:
    path, model = saved[tags]
    translator = Translator.load(path, "cpu")
    requests = [
        TranslationRequest(text, **named(*pair)) for text, pair in zip(TEXTS, PAIRS, strict=True)
    ]
    results = list(translator.stream(requests, translator.engine(workers=1)))
    for text, pair, result in zip(TEXTS, PAIRS, results, strict=True):
        (best,) = result.translations
        before, start = tags_of(translator, tags, *pair)
        source = [*before, *translator.source.encode_batch([text])[0], EOS]
        limit = len(source) - 1 + 5  # the options of the search
        expected = greedy(model, source, start, limit)
        assert best.ids == expected and best.text == translator.target.decode_batch([expected])[0]
        assert len(best.token_logp) == len(best.ids) and "tag" not in best.text
        assert translator.translate([text], **named(*pair)) == [best.text]
    assert len({each.translations[0].text for each in results}) > 6


@pytest.mark.parametrize("beams", [1, 4])
def test_the_tag_of_the_target_is_given_and_costs_nothing(saved: Any, beams: int) -> None:
    """The score is the log-probability of the other pieces, over the length with the tag."""
    path, _ = saved["both"]
    translator = Translator.load(path, "cpu", languages=("de", "en"))
    search = translator.search("beam", beam_size=beams, length_penalty=0.7)
    results = translator.stream(TEXTS, translator.engine(search, workers=1))
    for text, result in zip(TEXTS, results, strict=True):
        best = result.translations[0]
        total = sum(best.token_logp)
        assert best.score == pytest.approx(total / (len(best.ids) + 1) ** 0.7, abs=1e-5)
        if not best.truncated and translator.target.encode_batch([best.text]) == [best.ids[:-1]]:
            (score,) = translator.score([text], [best.text])
            assert score.log_probability == pytest.approx(total, abs=1e-4)


@both_kinds
@torch.no_grad()
def test_scores_are_those_of_the_text_in_its_direction(saved: Any, tags: str) -> None:
    path, model = saved[tags]
    translator = Translator.load(path, "cpu")
    for pair in PAIRS[:3]:
        (score,) = translator.score(["Ein Hund."], ["A dog runs."], **named(*pair))
        before, start = tags_of(translator, tags, *pair)
        source = [*before, *translator.source.encode_batch(["Ein Hund."])[0], EOS]
        target = translator.target.encode_batch(["A dog runs."])[0]
        whole = torch.tensor([[BOS, *start, *target]])
        logp = model.logits(model(torch.tensor([source]), whole).hidden)[0].log_softmax(-1)
        places = zip(range(len(start), whole.shape[1]), [*target, EOS], strict=True)
        expected = [float(logp[place, token]) for place, token in places]
        assert [value for _, value in score.tokens] == pytest.approx(expected, abs=1e-5)
        assert score.log_probability == pytest.approx(sum(expected), abs=1e-5)


@both_kinds
def test_maps_leave_the_tags_out(saved: Any, tags: str) -> None:
    translator = Translator.load(saved[tags][0], "cpu")
    alignment = translator.align("Ein Hund läuft.", "A dog.", **named("de", "en"))
    assert [word.text for word in alignment.source] == ["Ein", "Hund", "läuft."]
    assert [word.text for word in alignment.target] == ["A", "dog."]
    assert alignment.weights.shape[-2:] == (2, 4)


def test_sentences_are_joined_as_the_language_of_the_request_is_written(saved: Any) -> None:
    translator = Translator.load(saved["both"][0], "cpu", languages=("de", "en"))
    engine, text = translator.engine(workers=1), "Ein Hund. Zwei Hunde. Drei Hunde. Eine Katze."
    for target, between in (("en", " "), ("zh", "")):
        request = TranslationRequest(text, target_language=target)
        with pytest.warns(UserWarning, match="longer than 15 pieces: translated in"):
            (result,) = translator.stream([request], engine, max_source=16)
        assert result.problems[0].kind == "parts"
        parts = [each.hypotheses[0].ids for each in request.sentences if each.hypotheses]
        texts = [each.strip() for each in translator.target.decode_batch(parts)]
        assert len(texts) > 1 and result.translations[0].text == between.join(filter(None, texts))


def test_a_prefix_follows_the_tag(saved: Any) -> None:
    translator = Translator.load(saved["both"][0], "cpu", languages=("de", "en"))
    for text in translator.translate(TEXTS, prefixes="The dog "):
        assert text.startswith("The dog")
    best = translator.alternatives(TEXTS[0], "The dog ", 3)
    assert len(best) > 1 and all(each.text.startswith("The dog") for each in best)
    alone = translator.alternatives(TEXTS[0], count=3, **named("fr", "zh"))
    assert len({each.ids[0] for each in alone}) == len(alone) > 1
    assert max(each.score for each in alone) == alone[0].score


def test_required_words_are_whole_in_languages_with_spaces_only(saved: Any) -> None:
    translator = Translator.load(saved["both"][0], "cpu", languages=("de", "en"))
    search = translator.search("beam", beam_size=4)
    engine = translator.engine(search, workers=1)
    requests = [
        TranslationRequest(TEXTS[0], must=(("dog",),), target_language=code)
        for code in ("en", "zh")
    ]
    english, chinese = translator.stream(requests, engine)
    assert re.search(r"\bdog\b", english.translations[0].text)
    assert "dog" in chinese.translations[0].text
    guide = requests[1].sentences[0].constraint
    assert guide and guide.spaceless


def test_a_request_without_a_needed_language_is_refused_and_others_are_not(saved: Any) -> None:
    translator = Translator.load(saved["both"][0], "cpu")
    with pytest.raises(ConfigError, match="line 1: .*source language is missing"):
        translator.translate(["Ein Hund."])
    texts = translator.text_engine(translator.engine(workers=1))
    requests = [TranslationRequest("Ja."), TranslationRequest("Ja.", **named("de", "en"))]
    bad, good = texts.translate(requests)
    assert bad.result.problems[0].kind == "refused" and good.result.translations


def test_defaults_of_a_translator_are_checked_at_once(saved: Any) -> None:
    with pytest.raises(ConfigError, match="unknown target language 'xx'"):
        Translator.load(saved["both"][0], "cpu", languages=("de", "xx"))
