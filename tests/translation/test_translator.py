import math
import random
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle, takewhile
from pathlib import Path

import pytest
import torch
from helpers.tiny_runs import TINY_MODEL, demo_lines, demo_run, metrics, save_model

from seq2seq.base.errors import CheckpointError, ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.decoding import (
    Beam,
    Engine,
    Greedy,
    Hypothesis,
    SentenceRequest,
    build_search,
    workers,
)
from seq2seq.decoding.precision import find_device
from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.metrics.registry import build_bleu
from seq2seq.text.tokenization.splitting import split_into_parts
from seq2seq.translation.request import Result, Translation, TranslationRequest
from seq2seq.translation.translator import Translator

SENTENCES = demo_lines("test", "de", 40)


def assert_same(actual: list[Result], expected: list[Result]) -> None:
    """The same hypotheses in the same order, with scores that agree up to rounding."""
    for (some, _), (others, _) in zip(actual, expected, strict=True):
        assert [t.text for t in some] == [t.text for t in others]
        assert [t.score for t in some] == pytest.approx([t.score for t in others], abs=1e-4)


def test_translations_differ_so_that_a_mix_up_would_be_noticed(translator: Translator) -> None:
    assert len(set(translator.translate(SENTENCES))) > len(SENTENCES) / 2


@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_translation_does_not_depend_on_its_neighbours_and_their_order(
    translator: Translator, beam_size: int
) -> None:
    search = translator.search(beam_size=beam_size)
    together = list(translator.stream(SENTENCES, search))
    assert_same(list(translator.stream(SENTENCES, search, max_unanswered=1)), together)
    order = random.sample(range(len(SENTENCES)), len(SENTENCES))
    shuffled = translator.stream([SENTENCES[i] for i in order], search, max_unanswered=7)
    assert_same(list(shuffled), [together[i] for i in order])


def test_a_line_ending_is_not_part_of_a_text(translator: Translator) -> None:
    """So that an open file can be translated and scored line by line."""
    endings = cycle(("\n", "\r\n"))
    ended = [text + ending for text, ending in zip(SENTENCES, endings, strict=False)]
    search = translator.search()
    translations = translator.stream([*ended, "\n"], search)
    assert_same(list(translations)[:-1], list(translator.stream(SENTENCES, search)))
    assert translator.score(ended, ended) == translator.score(SENTENCES, SENTENCES)


def test_the_model_on_disk_translates_as_the_model_in_training(
    translator: Translator, base: Path
) -> None:
    """The saved model has the BLEU of the best validation."""
    sources, references = (demo_lines("valid", side, 8) for side in ("de", "en"))
    limits = {name: translator.config["decode"][name] for name in ("length_ratio", "length_extra")}
    greedy = build_search({"name": "greedy", **limits})
    written = [best[0].text for best, _ in translator.stream(sources, greedy)]
    bleu = build_bleu("en", [references]).corpus_score(written, None)
    best = max(metrics(demo_run(base), "valid/bleu"))
    assert best > 0
    assert bleu.score == pytest.approx(best, abs=1e-4)


def test_there_are_as_many_translations_as_texts(translator: Translator) -> None:
    texts = ["", "Ein Hund läuft.", " \t\u2028\x85", "Ja.", "\n", ""]
    results = translator.stream(texts, translator.search(), max_unanswered=2)
    found = [bool(result.translations) for result in results]
    assert found == [False, True, False, True, False, False]
    assert translator.translate([]) == []


def test_texts_are_read_as_they_are_needed(translator: Translator) -> None:
    texts = iter(["Ja."] * 100)
    next(translator.stream(texts, translator.search(beam_size=1), max_unanswered=10))
    assert len(list(texts)) == 90


@pytest.mark.parametrize(
    "text",
    [
        "Ein Hund.\u2028Eine Katze.",
        "Ein\x85Hund\x0bund\x0ceine\rKatze",
        "Ein\x00Hund",
        "👋🏽 𝒳 \ufffd \u202eHund",
        "</s> <s> <pad> <unk>",
        "x" * 10_000,
        "中" * 1_000,
        "Der Hund läuft. " * 1_250,
    ],
    ids=[
        "U+2028",
        "separators",
        "NUL",
        "rare",
        "symbols",
        "one huge word",
        "Chinese",
        "5000 words",
    ],
)
@pytest.mark.filterwarnings("ignore:line 1 is longer than", "ignore:line 1 has a word of")
def test_any_text_has_one_translation(translator: Translator, text: str) -> None:
    search = build_search({"name": "greedy", "length_ratio": 0.1, "length_extra": 1})
    ((translations, _),) = translator.stream([text], search)
    assert len(translations) == 1


def test_a_long_text_is_translated_sentence_by_sentence(translator: Translator) -> None:
    sentences = SENTENCES[:3]
    longest = max(len(ids) for ids in translator.source.encode_batch(sentences))
    search = translator.search()
    with pytest.warns(UserWarning, match="line 1 is longer than .* translated in 3 parts"):
        ((translations, _),) = translator.stream(
            [" ".join(sentences)], search, max_source=longest + 4
        )
    # A part keeps the space after its last sentence.
    parts = [f"{sentences[0]} ", f"{sentences[1]} ", sentences[2]]
    expected = [best[0] for best, _ in translator.stream(parts, search)]
    best = translations[0]
    assert best.text == " ".join(part.text.strip() for part in expected)
    assert best.score == pytest.approx(sum(part.score for part in expected) / 3, abs=1e-4)


def test_white_space_that_fills_a_part_is_not_translated(translator: Translator) -> None:
    text = "Ja." + " " * 200 + "Ja."
    parts = split_into_parts(text, translator.source, 19)
    real = [part for part in parts if part.strip()]
    assert 1 < len(real) < len(parts)
    with pytest.warns(UserWarning, match=f"line 1 is longer .* {len(real)} parts"):
        ((translations, _),) = translator.stream([text], translator.search(), max_source=20)
    assert translations[0].text == " ".join(part.strip() for part in translator.translate(real))


RNN = "model=rnn", "model.dim=32"
MIXED = "attn@cross_attn=linformer", "cross_attn.rank=4"


@pytest.mark.parametrize(
    "typed",
    [
        (*TINY_MODEL, "position=learned", "position.length=30"),
        (*TINY_MODEL, *MIXED),
        (*RNN, *MIXED),
    ],
    ids=["positions", "attention", "rnn"],
)
def test_a_source_is_cut_to_what_the_model_can_read_even_if_more_is_allowed(
    tmp_path: Path, typed: tuple[str, ...]
) -> None:
    save_model(tmp_path / "best.ckpt", *typed, "data.max_length=30")
    short, text = Translator.load(tmp_path, device="cpu"), " ".join(SENTENCES[:4])
    with pytest.warns(UserWarning, match="line 1 is longer than 30 pieces"):
        ((translations, _),) = short.stream([text], short.search(), max_source=1000)
    assert len(translations) == 1
    if "position=learned" in typed:
        with pytest.raises(ConfigError, match="longer than the 30 positions"):
            short.align(text, "A dog.")


class Echo(SentenceEngine):
    """An engine that returns each source as its translation, after reading `window` requests."""

    waiting = busy = False
    active_rows = 0

    def __init__(self, window: int = 1):
        self.window = window
        self.heard: list[SentenceRequest] = []

    def check(self, request: SentenceRequest) -> None:
        """Accept every request."""

    def submit(self, requests: Sequence[SentenceRequest]) -> None:
        self.heard += requests
        for request in requests:
            source, log_probabilities = request.source, [-0.5] * len(request.source)
            request.finish([Hypothesis(source[:-1], -1.0, -2.0, token_logp=log_probabilities)])

    def cancel(self, requests: Iterable[SentenceRequest]) -> None:
        """Do nothing: every request has already ended."""

    def advance(self) -> list[SentenceRequest]:
        return []


def test_only_unanswered_texts_are_kept_in_memory(translator: Translator) -> None:
    class Text(str):
        __slots__ = ("__weakref__",)

    alive: weakref.WeakSet[Text] = weakref.WeakSet()
    read, peak = 0, 0

    def texts() -> Iterator[Text]:
        nonlocal read, peak
        for i in range(20_000):
            text = Text(f"{i}" if i % 3 else "")
            alive.add(text)
            peak = max(peak, len(alive))
            yield text
            read += 1

    for i, (translations, _) in enumerate(translator.stream(texts(), Echo(50))):
        assert [f.text for f in translations] == ([str(i)] if i % 3 else [])
        assert read - i <= 50
    assert i == 19_999
    assert peak <= 50 + 3


def test_a_file_of_empty_lines_needs_no_engine_and_no_memory(translator: Translator) -> None:
    engine = Echo()
    read = count()
    texts = ("" for _ in takewhile(lambda n: n < 1_000, read))
    results = translator.stream(texts, engine, max_unanswered=10)
    assert next(results) == ([], [])
    assert next(read) <= 11
    assert list(results) == [([], [])] * 998 and not engine.heard  # `read` was asked once more here


def test_a_slow_writer_is_answered_before_the_next_line(translator: Translator) -> None:
    asked = []

    def texts() -> Iterator[TranslationRequest]:
        for text in ("Ja.", "", "Nein."):
            asked.append(text)
            yield TranslationRequest(text)

    ended = translator.text_engine(Echo(100)).translate(texts(), ready=lambda: False)
    for i, text in enumerate(("Ja.", "", "Nein.")):
        assert [f.text for f in next(ended).result.translations] == ([text] if text else [])
        assert len(asked) == i + 1


def test_one_huge_line_costs_what_its_parts_cost(translator: Translator) -> None:
    ordinary = SENTENCES * 25  # 1,000
    huge = ("Der Hund läuft. " * 1_250)[:20_000]
    alone, among = Echo(64), Echo(64)
    expected = list(translator.stream(ordinary, alone))
    with pytest.warns(UserWarning, match="line 501 is longer than 128 pieces") as warned:
        results = list(translator.stream([*ordinary[:500], huge, *ordinary[500:]], among))
    assert len(warned) == 1
    assert results[:500] + results[501:] == expected
    pieces = len(translator.source.encode_batch([huge])[0])
    of_huge = among.heard[500 : 500 + len(among.heard) - len(alone.heard)]
    assert [r.source for r in alone.heard[500:]] == [
        r.source for r in among.heard[500 + len(of_huge) :]
    ]
    assert all(len(r.source) <= 128 for r in of_huge)
    assert sum(len(r.source) for r in of_huge) == pytest.approx(pieces, rel=0.05)
    # Each has its own id, which random draws depend on.
    assert [r.draw_id for r in among.heard] == list(range(len(among.heard)))


def test_a_prefix_begins_only_the_first_part_of_a_translation(
    translator: Translator,
) -> None:
    engine = Echo()
    with pytest.warns(UserWarning, match="line 2 is longer"):
        list(translator.stream(["Ja.", "Ja. " * 20, ""], engine, "A dog ", max_source=60))
    begin = translator.target.encode_batch(["A dog"])[0]
    assert [r.prefix for r in engine.heard] == [begin, begin, *[[]] * (len(engine.heard) - 2)]
    assert len(engine.heard) > 2
    # The model writes a space with the word that follows, so the prefix contains no space.
    whole = translator.target.encode_batch(["A dog runs."])[0]
    assert whole[: len(begin)] == begin

    engine = Echo()
    list(translator.stream(["Ja.", "Nein."], engine, ["", "No"]))
    (open_word,) = translator.target.encode_batch(["No"])  # whose last piece may grow
    assert [r.prefix for r in engine.heard] == [[], open_word[:-1]]
    assert engine.heard[1].constraint.beginning.endswith(b"No")
    with pytest.raises(ValueError, match="shorter"):
        list(translator.stream(["Ja.", "Nein."], engine, ["A"]))


def test_a_prefix_that_the_model_cannot_write_is_refused(tmp_path: Path) -> None:
    save_model(
        tmp_path / "best.ckpt",
        *TINY_MODEL,
        "position=learned",
        "position.length=9",
        "data.max_length=9",
    )
    short = Translator.load(tmp_path, device="cpu")
    with pytest.raises(ConfigError, match="line 2: the prefix has .* at most 9"):
        list(short.stream(["Ja."] * 2, Echo(), ["x", "x y z u v w"]))


def test_a_translation_has_the_probability_of_each_piece(translator: Translator) -> None:
    ((translations, _),) = translator.stream(["Ja."], Echo())
    ids = translator.source.encode_batch(["Ja."])[0]
    assert translations == [Translation("Ja.", -1.0, [*ids, EOS], (-0.5,) * (len(ids) + 1))]
    assert translations[0].confidence == pytest.approx(math.exp(-0.5))
    assert Translation("", 0.0).confidence == 1


def test_workers_translate_as_one_process_does(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SHARE", 8)
    several = translator.engine(workers=2)
    assert isinstance(several, workers.Workers)
    translations = list(translator.stream(SENTENCES, several))
    several.close()
    alone = translator.engine(workers=1)
    assert isinstance(alone, Engine)
    assert_same(translations, list(translator.stream(SENTENCES, alone)))


def test_options_of_an_engine_are_checked(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="workers=-1 should be auto, or from 1"):
        translator.engine(workers=-1)
    with pytest.raises(ConfigError, match="float33"):
        translator.engine(precision="float33")


def test_a_limit_without_room_for_a_piece_is_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="max-source 1 leaves no room"):
        next(translator.stream(["Ja."], translator.search(), max_source=1))


def test_the_parts_of_a_text_are_joined_rank_by_rank(translator: Translator) -> None:
    codec = translator.text_engine(Echo()).codec
    a, b, c, d, e = (
        codec.tokenizers.target.encode_batch([x])[0] for x in ("A ", "B", "C", "D", "E")
    )
    first = [Hypothesis(a, -1.0, -1.0), Hypothesis(b, -2.0, -2.0)]
    second = [Hypothesis(ids, score, score) for ids, score in ((c, -3.0), (d, -5.0), (e, -6.0))]
    request = TranslationRequest("A B.")
    joined = codec.translations_of(request, [first, second])
    assert [(t.text, t.score) for t in joined] == [("A C", -2.0), ("B D", -3.5)]
    assert joined[0].ids == [*a, EOS, *c, EOS]
    alone = codec.translations_of(request, [first])
    assert [(t.text, t.score) for t in alone] == [("A", -1.0), ("B", -2.0)]
    assert codec.translations_of(request, []) == []


def test_options_of_a_search_override_those_of_the_model(
    translator: Translator,
) -> None:
    assert translator.search().beams == 3
    assert translator.search(beam_size=2).beams == 2
    assert translator.search(length_penalty=0.0).beams == 3
    with pytest.raises(ConfigError, match="beam_size=0"):
        translator.search(beam_size=0)
    assert isinstance(translator.search(length_extra=3), Beam)
    assert isinstance(translator.search("greedy"), Greedy)
    assert translator.search("greedy").length_ratio == 0.5  # as configured
    with pytest.raises(ConfigError, match="unknown option decode.beam_sizes; did you mean"):
        translator.search(beam_sizes=2)


def test_a_model_configured_greedy_can_search_with_beams(tmp_path: Path) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL)
    greedy = Translator.load(tmp_path, device="cpu")
    assert greedy.search().beams == 1
    assert greedy.search(beam_size=4).beams == 4


def test_a_device_that_cannot_be_used_is_refused_by_name() -> None:
    for name in ("nonsense", "meta", "cpu:x", "cuda:99"):
        with pytest.raises(ConfigError, match=f"device '{name}' cannot be used here"):
            find_device(name)
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type in ("cpu", "cuda")


def test_a_path_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        Translator.load(tmp_path)
