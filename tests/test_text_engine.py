"""Texts that are submitted, cancelled and streamed on one engine are translated as if alone."""

import random
from itertools import islice
from typing import Any

import pytest
from tiny_runs import demo_lines, demo_run

from seq2seq.decoding import Beam, Engine, Greedy
from seq2seq.errors import ConfigError
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
@pytest.mark.parametrize("cache", ["paged", pytest.param("dense", marks=pytest.mark.slow)])
def test_every_caller_gets_its_texts_once(translator: Translator, cache: str) -> None:
    expected = [
        [plain(answer) for answer in translator.stream(TEXTS, search, "A", max_source=LIMIT)]
        for search in SEARCHES
    ]
    sentences = Engine(translator.model, SEARCHES[0], cache=cache, rows=8)
    callers = [translator.text_engine(sentences, LIMIT) for _ in range(2)]
    submitted: list[dict[int, tuple[int, int]]] = [{}, {}]  # of each caller: id -> search, text
    answered: list[set[int]] = [set(), set()]
    stream = enumerate(translator.stream(TEXTS * 3, sentences, "A", max_source=LIMIT))
    generator = random.Random(0)

    def step(which: int) -> None:
        for i, translations in callers[which].step():
            search, text = submitted[which][i]
            assert i not in answered[which]
            answered[which].add(i)
            assert plain(translations) == expected[search][text]

    for _ in range(300):
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
    assert codec.requests_of("") == codec.requests_of(" \n") == []
    short, long = codec.requests_of("Ja."), codec.requests_of(TEXTS[-2], "A dog")
    assert len(short) == 1 < len(long) and all(len(r.source) <= LIMIT for r in long)
    # Encoded with others, it is the same.
    assert codec.requests_of("Ja.", ids=codec.encode([TEXTS[1], "Ja."])[1]) == short
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
