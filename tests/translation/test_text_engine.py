"""Texts submitted to, cancelled on and streamed through one engine are translated as if alone."""

import random
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_runs import demo_lines, demo_run

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError
from seq2seq.base.symbols import EOS
from seq2seq.decoding import Beam, Engine, Greedy, Search
from seq2seq.decoding.constraints.lexical import Constraint, Term
from seq2seq.decoding.constraints.placeholders import Placeholders
from seq2seq.decoding.constraints.request import Rules
from seq2seq.decoding.constraints.spelling import count_occurrences
from seq2seq.decoding.request import SentenceRequest, Status
from seq2seq.text.documents.placeholders import PLACEHOLDERS
from seq2seq.translation.problems import join_places, warn_of_problems
from seq2seq.translation.request import Problem, Result, TranslationRequest
from seq2seq.translation.translator import Translator

LIMIT = 24  # pieces of a part
TEXTS = [*demo_lines("test", "de", 8), "", " ".join(demo_lines("test", "de", 4)), "  "]
SEARCHES = (Greedy(), Beam(beam_size=2), Beam(beam_size=2, length_penalty=0.0))


@pytest.fixture(scope="module")
def translator(base: Path) -> Translator:
    translator = Translator.load(demo_run(base), device="cpu")
    translator.model.double()
    return translator


def plain(result: Result) -> list[tuple[str, Any]]:
    assert not result.failed
    return [(t.text, pytest.approx(t.score, abs=1e-9)) for t in result.translations]


@pytest.mark.filterwarnings("ignore:line .* is longer than")
@pytest.mark.parametrize(
    "cache, calls",
    [
        ("paged", 40),
        pytest.param("paged", 400, marks=pytest.mark.slow),
        pytest.param("dense", 300, marks=pytest.mark.slow),
    ],
)
def test_every_caller_gets_its_texts_once(translator: Translator, cache: str, calls: int) -> None:
    expected = [
        [plain(answer) for answer in translator.stream(TEXTS, search, "A", max_source=LIMIT)]
        for search in SEARCHES
    ]
    sentences = Engine(translator.model, SEARCHES[0], cache=cache, rows=8)
    callers = [translator.text_engine(sentences, LIMIT) for _ in range(2)]
    # For each caller: request -> indices of search and text.
    submitted: list[dict[TranslationRequest, tuple[int, int]]] = [{}, {}]
    answered: list[set[TranslationRequest]] = [set(), set()]
    stream = enumerate(
        translator.stream(TEXTS * (1 + calls // 100), sentences, "A", max_source=LIMIT)
    )
    generator = random.Random(0)

    def step(which: int) -> None:
        for request in callers[which].advance():
            search, text = submitted[which][request]
            assert request not in answered[which]
            answered[which].add(request)
            assert plain(request.result) == expected[search][text]

    for _ in range(calls):
        which, choice = generator.randrange(2), generator.randrange(5)
        if choice < 2:
            search, text = generator.randrange(len(SEARCHES)), generator.randrange(len(TEXTS))
            request = TranslationRequest(TEXTS[text], "A", search=SEARCHES[search])
            callers[which].submit([request])
            submitted[which][request] = search, text
        elif choice == 2 and submitted[which]:
            request = generator.choice([*submitted[which]])
            callers[which].cancel([request])
            if request.status is Status.CANCELLED:
                del submitted[which][request]
        elif choice == 3:
            step(which)
        elif choice == 4:
            for place, result in islice(stream, 1):
                assert plain(result) == expected[0][place % len(TEXTS)]
    for place, result in stream:
        assert plain(result) == expected[0][place % len(TEXTS)]
    while any(caller.busy for caller in callers):
        step(0)
        step(1)
    assert answered == [set(ids) for ids in submitted]
    assert not sentences.busy


def test_a_text_becomes_sentences(translator: Translator) -> None:
    codec = translator.text_engine(Engine(translator.model, Greedy()), LIMIT).codec

    def sentences_of(
        text: str, prefix: str = "", ids: list[int] | None = None
    ) -> list[SentenceRequest]:
        request = TranslationRequest(text, prefix, ids=ids or codec.encode([text])[0])
        request.requirements = codec.requirements_of(request)
        return codec.sentences_of(request)

    assert sentences_of("") == sentences_of(" \n") == []
    (short,), long = sentences_of("Ja."), sentences_of(TEXTS[-2], "A dog ")
    assert len(long) > 1 and all(len(r.source) <= LIMIT for r in long)
    # Encoding it with other texts gives the same ids.
    ids = codec.encode([TEXTS[1], "Ja."])[1]
    assert sentences_of("Ja.", ids=ids)[0].source == short.source
    begin = codec.tokenizers.target.encode_batch(["A dog"])[0]
    assert [r.prefix for r in long] == [begin, *[[]] * (len(long) - 1)]


def test_a_model_is_converted_once_for_each_precision(translator: Translator) -> None:
    first, again = (translator.engine(precision="int8", workers=1) for _ in range(2))
    assert isinstance(first, Engine) and isinstance(again, Engine)
    assert first.model is again.model is not translator.model
    assert translator.engine(workers=1).model is not first.model  # type: ignore[union-attr]


def texts_of(
    translator: Translator, requests: list[TranslationRequest], **options: Any
) -> list[str]:
    copies = map(replace, requests)
    results = translator.stream(copies, Beam(beam_size=4), **options)
    return [best[0].text for best, _ in results if best]


def test_a_translation_contains_required_words_and_no_banned_ones(translator: Translator) -> None:
    sources, banned = demo_lines("test", "de", 12), ("The", "not", "s")
    words = [re.findall(r"\w+", text) for text in demo_lines("test", "en", 12)]
    asked = [
        TranslationRequest(source, must=((last,), (first, "xyzzy")), must_not=banned)
        for source, (first, *_, last) in zip(sources, words, strict=True)
        if not {first, last}.intersection(banned)
    ]
    obeying = texts_of(translator, asked)
    for request, text in zip(asked, obeying, strict=True):
        assert all(any(count_occurrences(word, text) for word in group) for group in request.must)
        assert not any(count_occurrences(word, text) for word in banned)
    # Translating them with other texts changes nothing.
    free = [TranslationRequest(source) for source in sources]
    plain, both = texts_of(translator, free), texts_of(translator, [*asked, *free])
    assert len(asked) > 5 and both == [*obeying, *plain]


def test_a_requirement_that_cannot_be_met_is_reported_and_dropped(translator: Translator) -> None:
    source = demo_lines("test", "de", 1)[0]
    alone = texts_of(translator, [TranslationRequest(source, must=(("dog",),))])
    huge = " ".join(["dog"] * 200)
    request = TranslationRequest(
        source, must=(("dog",), ("cat",), (huge,)), must_not=("cat",), place="line 1"
    )
    with pytest.warns(
        UserWarning,
        match="line 1 has no translation that meets all requirements; left out: 'cat' and 'dog ",
    ):
        ((best, problems),) = translator.stream([replace(request)], Beam(beam_size=4))
    assert best[0].unsatisfied == ("cat", huge)
    assert problems[0].kind == "unsatisfied"
    assert "cat" not in best[0].text and [best[0].text] == alone
    with pytest.raises(ConfigError, match="several beams: beam_size=5"):
        next(translator.stream([replace(request)], Greedy()))


@pytest.mark.parametrize("word", ["café", "Łódź", "日本", "😀"])
def test_words_with_characters_of_several_pieces_can_be_required_and_banned(
    translator: Translator, word: str
) -> None:
    source = demo_lines("test", "de", 1)[0]
    (text,) = texts_of(translator, [TranslationRequest(source, must=((word,),))])
    assert count_occurrences(word, text) == 1
    guide = translator.vocabulary.guide(Constraint((Term((word,), 0, 0),)))
    state = 0
    for piece in translator.target.encode_batch([word])[0]:
        if piece in guide.next_tokens(state).banned.tolist():
            return
        state = guide.next_state(state, piece)
    assert EOS in guide.next_tokens(state).banned.tolist()


def test_only_the_requirement_that_the_beginning_breaks_is_dropped(translator: Translator) -> None:
    source = demo_lines("test", "de", 1)[0]
    request = TranslationRequest(source, "A small dog ", (("puppy",),), ("dog", "the"))
    with pytest.warns(UserWarning, match="meets all requirements; left out: 'dog'"):
        (text,) = texts_of(translator, [request])
    assert text.startswith("A small dog ") and count_occurrences("puppy", text)
    assert not count_occurrences("the", text)


@pytest.mark.parametrize("search", [Greedy(), Beam(beam_size=3)], ids=["greedy", "beam"])
def test_a_beginning_is_continued_as_it_is_typed(translator: Translator, search: Search) -> None:
    generator = random.Random(1)
    sources, references = (demo_lines("test", language, 25) for language in ("de", "en"))
    cut = [text[: generator.randrange(1, len(text))] for text in references]
    answers = list(translator.stream(sources, search, cut))
    for beginning, (best, _) in zip(cut, answers, strict=True):
        assert best[0].text.startswith(beginning)
    # A space at the end closes the last word, which then cannot grow.
    closed = [f"{text.split(' ')[0]} " for text in references]
    results = translator.stream(sources, search, closed)
    for beginning, (best, _) in zip(closed, results, strict=True):
        assert best[0].text.startswith(beginning)


def test_alternatives_differ_after_the_beginning_and_the_first_is_the_best(
    translator: Translator,
) -> None:
    source, search = demo_lines("test", "de", 1)[0], Beam(beam_size=4)
    (((best, *_), _),) = translator.stream([source], search)
    beginning = f"{best.text.split(' ')[0]} "
    found = translator.alternatives(source, beginning, 3, search)
    assert len(found) == 3 == len({each.text for each in found})
    assert all(each.text.startswith(beginning) for each in found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    (((expected, *_), _),) = translator.stream([source], search, beginning)
    assert found[0].score >= expected.score - 1e-9
    with pytest.raises(ConfigError, match="one sentence"):
        translator.alternatives("")


@pytest.mark.filterwarnings("ignore:line 1 has no translation that meets")
def test_missing_placeholders_are_named_even_if_the_search_did_not_require_them(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.decoding.constraints.placeholders.MAX_REQUIRED", 1)
    text = TEXTS[0].removesuffix(".") + " %s %d." + " {never}" * 2
    rules = Rules(placeholders=Placeholders(re.compile(PLACEHOLDERS)))
    ((found, _),) = translator.stream([text], Beam(beam_size=2), rules=rules)
    assert found
    for translation in found:
        missing = {p for p in ("%s", "%d", "{never}") if p not in translation.text}
        assert "%d" in missing and set(translation.unsatisfied) == missing


def test_a_refused_text_fails_alone_and_says_why(translator: Translator) -> None:
    engine = translator.text_engine(Engine(translator.model, Greedy()), LIMIT)
    unreadable = TranslationRequest("", place="line 3")
    unreadable.fail(DataError("x"), Problem("unreadable", "cannot be read"))
    asked = [
        TranslationRequest(TEXTS[0], must=(("dog",),), place="line 1"),
        TranslationRequest("", place="line 2"),
        unreadable,
        TranslationRequest(TEXTS[-2], place="line 4"),
    ]
    assert list(engine.translate(asked)) == asked
    refused, blank, _, long = asked
    assert [request.status for request in asked] == ["failed", "done", "failed", "done"]
    assert isinstance(refused.error, ConfigError) and refused.result.failed
    assert blank.result == ([], []) and long.result.problems[0].kind == "parts"
    assert long.result.problems[0].at("line 4").startswith("line 4 is longer than 24 pieces: ")
    with pytest.warns(UserWarning) as told:
        assert list(warn_of_problems(asked, lenient=True)) == asked
    words = [str(each.message).split(":")[0] for each in told]
    assert words[:2] == ["line 1", "line 3 cannot be read"]
    with pytest.raises(ConfigError, match="line 1: required text needs a search"):
        next(warn_of_problems(asked))


def test_a_text_fails_with_one_of_its_sentences_and_other_texts_do_not(
    translator: Translator,
) -> None:
    sentences = Engine(translator.model, Greedy())
    engine = translator.text_engine(sentences, LIMIT)
    long, other = TranslationRequest(TEXTS[-2]), TranslationRequest(TEXTS[0])
    engine.submit([long, other])
    lost, *rest = long.sentences
    sentences.cancel([lost])
    lost.fail(Seq2SeqError("given up"))
    ended = []
    while engine.busy:
        ended += engine.advance()
    assert ended == [long, other] and str(long.error) == "given up"
    assert {sentence.status for sentence in rest} == {Status.CANCELLED}
    assert other.result.translations and not sentences.busy
    with pytest.raises(Seq2SeqError, match="the text: given up"):
        list(warn_of_problems([long], lenient=True))


def test_places_are_joined_without_repetition() -> None:
    assert join_places(["line 1", "line 3", "b.txt, line 4", "b.txt, line 5", "line 6"]) == (
        "line 1, 3, b.txt, line 4, 5, line 6"
    )


@pytest.mark.filterwarnings("ignore:line .* is longer than", "ignore:cut off at the length")
def test_an_overlong_word_is_copied_and_reported(translator: Translator) -> None:
    endless = "Ein " + "xy" * 500 + " Hund"
    texts = [TEXTS[0], endless, "x " * 300]
    requests = [TranslationRequest(text, place=f"line {n}") for n, text in enumerate(texts, 1)]
    engine = translator.text_engine(Engine(translator.model, Greedy()))
    with pytest.warns(UserWarning, match="line 2 has a word of .* pieces: copied") as told:
        plain, copied, words = warn_of_problems(engine.translate(requests))
    # The text before and after it is translated as usual.
    around = [TranslationRequest(text) for text in ("Ein", "Hund")]
    first, last = (each.result.translations[0].text for each in engine.translate(around))
    assert [each.text for each in copied.result.translations] == [f"{first} {'xy' * 500} {last}"]
    assert [each.is_flawed for each in (plain, copied, words)] == [False, True, False]
    assert not any(str(each.message).startswith("line 3 has a word") for each in told)
    # Languages without spaces between words have no overlong words.
    assert [*engine.codec.endless_words(copied)] == ["xy" * 500]
    copied.direction = copied.direction._replace(source="zh")
    assert not engine.codec.endless_words(copied)


@pytest.mark.filterwarnings("ignore:cut off at the length")
def test_a_sentence_with_an_overlong_address_is_translated_around_it(
    translator: Translator,
) -> None:
    """The address alone, beside a placeholder, in several translations, and while streaming."""
    word = "https://mail.example.org/?u=" + "aB3" * 200
    rules = Rules(placeholders=Placeholders(re.compile(PLACEHOLDERS)))
    engine = translator.text_engine(Beam(beam_size=2, length_extra=20), rules=rules)
    texts = [f"{word} - {word}", f"{{n}} {TEXTS[0]} {word} .", f"{word} {TEXTS[0]} {word}"]
    requests = [TranslationRequest(text, checked=True) for text in texts]
    engine.submit(requests)
    assert engine.best_so_far(requests[2]).startswith(f"{word} ")
    while engine.busy:
        engine.advance()
    alone, placed, between = ([t.text for t in each.result.translations] for each in requests)
    assert alone == [texts[0]] and min(len(placed), len(between)) > 1
    assert all(text.endswith(f" {word} .") for text in placed) and placed[0].count("{n}") == 1
    assert all(text.startswith(f"{word} ") and text.endswith(f" {word}") for text in between)
    for request in requests:
        assert [each.kind for each in request.result.problems] == ["copied"]


def test_a_translation_has_no_spaces_around_it(translator: Translator) -> None:
    codec = translator.text_engine(Engine(translator.model, Greedy())).codec
    request = TranslationRequest("Ein Hund.")
    assert codec.join(request, [" A dog. "]) == "A dog."
    assert codec.join(request, [" A. ", " B. "]) == "A. B."


@pytest.mark.parametrize("search", [Greedy(), Beam(beam_size=2, length_ratio=0, length_extra=3)])
def test_a_placeholder_that_cannot_be_kept_is_a_flaw(
    translator: Translator, search: Search
) -> None:
    """Once no search has to copy it, and once the length has no room for it."""
    text = f"{TEXTS[0]} {{some_very_long_name}} {TEXTS[0]}"
    beams = search.beams > 1
    rules = Rules(placeholders=Placeholders(re.compile(PLACEHOLDERS))) if beams else None
    request = TranslationRequest(text, checked=not beams)
    list(translator.text_engine(search, rules=rules).translate([request]))
    (problem,) = (each for each in request.result.problems if each.kind != "truncated")
    assert problem.kind == "lost" and "left out: '{some_very_long_name}'" in problem.message
    assert request.is_flawed
    free = TranslationRequest(text)
    list(translator.text_engine(search).translate([free]))
    assert not free.is_flawed
