"""Texts that are submitted, cancelled and streamed on one engine are translated as if alone."""

import random
import re
from itertools import islice
from typing import Any

import pytest
from tiny_runs import demo_lines, demo_run

from seq2seq.constraints.lexical import Constraint, Term
from seq2seq.constraints.placeholders import PLACEHOLDERS, Placeholders
from seq2seq.constraints.request import Rules, TextRequest
from seq2seq.constraints.spelling import count_occurrences
from seq2seq.decoding import Beam, Engine, Greedy, Request, Search
from seq2seq.errors import ConfigError
from seq2seq.symbols import EOS
from seq2seq.text_engine import Translation
from seq2seq.translator import Translator

LIMIT = 24  # pieces of a part
TEXTS = [*demo_lines("test", "de", 8), "", " ".join(demo_lines("test", "de", 4)), "  "]
SEARCHES = (Greedy(), Beam(beam_size=2), Beam(beam_size=2, length_penalty=0.0))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    translator = Translator.load(demo_run(tmp_path_factory.getbasetemp()), device="cpu")
    translator.model.double()
    return translator


def plain(translations: list[Translation] | None) -> list[tuple[str, Any]]:
    assert translations is not None
    return [(t.text, pytest.approx(t.score, abs=1e-9)) for t in translations]


@pytest.mark.filterwarnings("ignore:line .* is longer than")
@pytest.mark.parametrize(
    "cache, calls",
    [
        ("paged", 80),
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
    submitted: list[dict[int, tuple[int, int]]] = [{}, {}]  # of each caller: id -> search, text
    answered: list[set[int]] = [set(), set()]
    stream = enumerate(
        translator.stream(TEXTS * (1 + calls // 100), sentences, "A", max_source=LIMIT)
    )
    generator = random.Random(0)

    def step(which: int) -> None:
        for i, translations in callers[which].step():
            search, text = submitted[which][i]
            assert i not in answered[which]
            answered[which].add(i)
            assert plain(translations) == expected[search][text]

    for _ in range(calls):
        which, choice = generator.randrange(2), generator.randrange(5)
        if choice < 2:
            search, text = generator.randrange(len(SEARCHES)), generator.randrange(len(TEXTS))
            i = callers[which].submit(TEXTS[text], "A", SEARCHES[search])
            submitted[which][i] = search, text
        elif choice == 2 and submitted[which]:
            i = generator.choice([*submitted[which]])
            callers[which].cancel(i)
            if i not in answered[which]:
                del submitted[which][i]
        elif choice == 3:
            step(which)
        elif choice == 4:
            for place, translations in islice(stream, 1):
                assert plain(translations) == expected[0][place % len(TEXTS)]
    for place, translations in stream:
        assert plain(translations) == expected[0][place % len(TEXTS)]
    while any(caller.busy for caller in callers):
        step(0)
        step(1)
    assert answered == [set(ids) for ids in submitted]
    assert not sentences.busy


def test_a_text_becomes_requests_and_hypotheses_become_text(translator: Translator) -> None:
    codec = translator.text_engine(Engine(translator.model, Greedy()), LIMIT).codec

    def requests(text: str, prefix: str = "", ids: list[int] | None = None) -> list[Request]:
        return codec.requests_of(codec.requirements(TextRequest(text, prefix)), ids)

    assert requests("") == requests(" \n") == []
    short, long = requests("Ja."), requests(TEXTS[-2], "A dog ")
    assert len(short) == 1 < len(long) and all(len(r.source) <= LIMIT for r in long)
    # Encoded with others, it is the same.
    assert requests("Ja.", ids=codec.encode([TEXTS[1], "Ja."])[1]) == short
    begin = codec.tokenizers.target.encode_batch(["A dog"])[0]
    assert [r.prefix for r in long] == [begin, *[[]] * (len(long) - 1)]


def test_a_model_is_converted_once_for_each_precision(translator: Translator) -> None:
    first, again = (translator.engine(precision="int8", workers=1) for _ in range(2))
    assert isinstance(first, Engine) and isinstance(again, Engine)
    assert first.model is again.model is not translator.model
    assert translator.engine(workers=1).model is not first.model  # type: ignore[union-attr]


def test_options_out_of_range_are_refused_from_python_too(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="decode.beam_size=0 should be at least 1"):
        Beam(beam_size=0)


def texts_of(translator: Translator, requests: list[TextRequest], **options: Any) -> list[str]:
    search = Beam(beam_size=4)
    return [best[0].text for best in translator.stream(requests, search, **options) if best]


def test_a_translation_obeys_what_is_asked_of_it(translator: Translator) -> None:
    sources, banned = demo_lines("test", "de", 12), ("The", "not", "s")
    words = [re.findall(r"\w+", text) for text in demo_lines("test", "en", 12)]
    asked = [
        TextRequest(source, must=((last,), (first, "xyzzy")), must_not=banned)
        for source, (first, *_, last) in zip(sources, words, strict=True)
        if not {first, last}.intersection(banned)
    ]
    obeying = texts_of(translator, asked)
    for request, text in zip(asked, obeying, strict=True):
        assert all(any(count_occurrences(word, text) for word in group) for group in request.must)
        assert not any(count_occurrences(word, text) for word in banned)
    # Beside others, all are the same.
    plain = texts_of(translator, [TextRequest(source) for source in sources])
    both = texts_of(translator, [*asked, *(TextRequest(source) for source in sources)])
    assert len(asked) > 5 and both == [*obeying, *plain]


def test_what_no_translation_can_contain_is_said_and_left_out(translator: Translator) -> None:
    source = demo_lines("test", "de", 1)[0]
    alone = texts_of(translator, [TextRequest(source, must=(("dog",),))])
    huge = " ".join(["dog"] * 200)
    request = TextRequest(source, must=(("dog",), ("cat",), (huge,)), must_not=("cat",))
    with pytest.warns(
        UserWarning, match="line 1 has no translation that obeys what is asked of 'cat' and 'dog "
    ):
        (best,) = translator.stream([request], Beam(beam_size=4))
    assert best is not None and best[0].unsatisfied == ("cat", huge)
    assert "cat" not in best[0].text and [best[0].text] == alone
    with pytest.raises(ConfigError, match="several beams: decode.beam_size=5"):
        next(translator.stream([request], Greedy()))


@pytest.mark.parametrize("word", ["café", "Łódź", "日本", "😀"])
def test_letters_of_several_pieces_are_required_and_banned(
    translator: Translator, word: str
) -> None:
    source = demo_lines("test", "de", 1)[0]
    (text,) = texts_of(translator, [TextRequest(source, must=((word,),))])
    assert count_occurrences(word, text) == 1
    guide = translator.vocabulary.guide(Constraint((Term((word,), 0, 0),)))
    state = 0
    for piece in translator.target.encode_batch([word])[0]:
        if piece in guide.next_tokens(state).banned.tolist():
            return
        state = guide.next_state(state, piece)
    assert EOS in guide.next_tokens(state).banned.tolist()


def test_what_the_beginning_breaks_is_left_out_alone(translator: Translator) -> None:
    source = demo_lines("test", "de", 1)[0]
    request = TextRequest(source, "A small dog ", (("puppy",),), ("dog", "the"))
    with pytest.warns(UserWarning, match="obeys what is asked of 'dog': left out"):
        (text,) = texts_of(translator, [request])
    assert text.startswith("A small dog ") and count_occurrences("puppy", text)
    assert not count_occurrences("the", text)


@pytest.mark.parametrize("search", [Greedy(), Beam(beam_size=3)], ids=["greedy", "beam"])
def test_a_beginning_is_continued_as_it_is_typed(translator: Translator, search: Search) -> None:
    generator = random.Random(1)
    sources, references = (demo_lines("test", language, 25) for language in ("de", "en"))
    cut = [text[: generator.randrange(1, len(text))] for text in references]
    answers = list(translator.stream(sources, search, cut))
    for beginning, best in zip(cut, answers, strict=True):
        assert best is not None and best[0].text.startswith(beginning)
    # With a space it closes a word: nothing else can follow the words before it.
    closed = [f"{text.split(' ')[0]} " for text in references]
    for beginning, best in zip(closed, translator.stream(sources, search, closed), strict=True):
        assert best is not None and best[0].text.startswith(beginning)


def test_alternatives_differ_after_the_beginning_and_the_first_is_the_best(
    translator: Translator,
) -> None:
    source, search = demo_lines("test", "de", 1)[0], Beam(beam_size=4)
    ((best, *_),) = translator.stream([source], search)  # type: ignore[misc]
    beginning = f"{best.text.split(' ')[0]} "
    found = translator.alternatives(source, beginning, 3, search)
    assert len(found) == 3 == len({each.text for each in found})
    assert all(each.text.startswith(beginning) for each in found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    ((expected, *_),) = translator.stream([source], search, beginning)  # type: ignore[misc]
    assert found[0].score >= expected.score - 1e-9
    with pytest.raises(ConfigError, match="one sentence"):
        translator.alternatives("")


@pytest.mark.filterwarnings("ignore:line 1 has no translation that obeys")
def test_placeholders_that_no_search_had_to_copy_are_named_if_they_are_missing(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.constraints.placeholders.MAX_REQUIRED", 1)
    text = TEXTS[0].removesuffix(".") + " %s %d." + " {never}" * 2
    rules = Rules(placeholders=Placeholders(re.compile(PLACEHOLDERS)))
    [found] = translator.stream([text], Beam(beam_size=2), rules=rules)
    assert found
    for translation in found:
        missing = {p for p in ("%s", "%d", "{never}") if p not in translation.text}
        assert "%d" in missing and set(translation.unsatisfied) == missing
