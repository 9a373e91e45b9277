"""Searches with required, banned and initial text, compared with a search of all texts."""

import random
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from helpers.builders import small_model, source_batch, translate_copies
from helpers.random_constraints import obeys, occurrences, random_constraint
from helpers.table_model import NextLogP, TableModel, assert_same, every_hypothesis, make_requests

from seq2seq.base.symbols import EOS, UNK
from seq2seq.decoding import Beam, DiverseBeam, Engine, Greedy, Sample, Search, decode
from seq2seq.decoding.beam import round_robin_order
from seq2seq.decoding.constraints.lexical import Constraint, Term, Vocabulary
from seq2seq.text.tokenization.words import CharacterLevel

TOKENIZER = CharacterLevel().train(["ab c"] * 3)
V = TOKENIZER.size  # the symbols and four characters


@pytest.fixture(scope="module", params=[False, True], ids=["words", "spaceless"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return Vocabulary(TOKENIZER, request.param)


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_all_texts_that_obey(vocabulary: Vocabulary, seed: int) -> None:
    model, limit, generator = TableModel(V, seed), 4, random.Random(seed)
    constraint = random_constraint(generator)
    search = Beam(beam_size=5**limit, length_ratio=0.0, length_extra=limit, length_penalty=0.0)
    source, guide = source_batch(2), vocabulary.guide(constraint)
    (hypotheses,) = decode(model, source, search, guides=[guide])
    everything = every_hypothesis(model.next_logp(int(source[0, 0])), V, limit)
    texts = TOKENIZER.decode_batch([h.ids for h in everything])
    expected = [
        h
        for h, text in zip(everything, texts, strict=True)
        if not h.truncated and obeys(text, constraint, vocabulary.spaceless)
    ]
    assert_same([h for h in hypotheses if not h.truncated], expected)


def naive_greedy(logp: NextLogP, constraint: Constraint, limit: int, spaceless: bool) -> list[int]:
    """The best token at each step that does not make too many occurrences certain."""
    ids: list[int] = []
    while len(ids) < limit:
        values = logp(ids)
        for token in sorted(range(EOS, V), key=lambda token: -values[token]):
            text = TOKENIZER.decode_batch([[*ids, token]])[0]
            # A letter may follow, so an occurrence at the end is not certain yet.
            certain = text if token == EOS else f"{text}x"
            few = all(
                sum(occurrences(p, certain, spaceless or term.anywhere) for p in term.phrases)
                <= term.maximum
                for term in constraint.terms
            )
            if token != UNK and few and (token != EOS or obeys(text, constraint, spaceless)):
                break
        ids.append(token)
        if token == EOS:
            break
    return ids


@pytest.mark.parametrize("seed", range(8))
def test_greedy_search_avoids_banned_text(vocabulary: Vocabulary, seed: int) -> None:
    generator, model, limit = random.Random(seed), TableModel(V, seed), 12
    phrases = generator.sample(["a", "b", "ab", "a b", "c"], 2)
    constraint = Constraint(tuple(Term((phrase,), 0, seed % 2, seed > 5) for phrase in phrases))
    source, search = source_batch(2), Greedy(length_ratio=0.0, length_extra=limit)
    guide = vocabulary.guide(constraint)
    ((best,),) = decode(model, source, search, guides=[guide])
    logp = model.next_logp(int(source[0, 0]))
    expected = naive_greedy(logp, constraint, limit, vocabulary.spaceless)
    assert [*best.ids, *[EOS] * (not best.truncated)] == expected
    drawn = decode(model, source, Sample(samples=20, length_extra=limit), guides=[guide])[0]
    for text in TOKENIZER.decode_batch([h.ids for h in drawn if not h.truncated]):
        assert obeys(text, constraint, vocabulary.spaceless)


@pytest.mark.parametrize(
    ("beams", "groups"),
    [(3, 1), (4, 2), (3, 3), *(pytest.param(k, 1, marks=pytest.mark.slow) for k in (2, 5))],
)
@pytest.mark.parametrize("cache", ["dense", "paged"])
def test_constrained_sentences_do_not_change_their_neighbours(
    cache: Literal["dense", "paged"], beams: int, groups: int
) -> None:
    generator, model = random.Random(beams), small_model("transformer")
    letters = "ab cdefghijklmnopqrstuvwxyz"[: model.embeddings.output.out_features - 4]
    tokenizer = CharacterLevel().train([letters])
    vocabulary = Vocabulary(tokenizer, False)

    def search(i: int) -> Search:
        options: dict[str, Any] = {"beam_size": beams, "length_extra": 9}
        options["no_repeat_ngram"] = 2 * (i % 2)
        if groups == 1:
            return Beam(**options)
        return DiverseBeam(beam_groups=groups, diversity_penalty=(0.0, 0.5, 2.0)[i % 3], **options)

    requests = [
        replace(
            request,
            prefix=[5, 6] if i % 4 == 1 else (),
            constraint=random_constraint(generator) if i % 4 > 1 else None,
            search=search(i),
        )
        for i, request in enumerate(make_requests(range(2, 14)))
    ]
    engine = Engine(model, search(0), vocabulary.guide, cache=cache, rows=4 * beams, page_size=4)
    for request, hypotheses in zip(requests, translate_copies(engine, requests), strict=True):
        guides = None if request.constraint is None else [vocabulary.guide(request.constraint)]
        source = torch.tensor([request.source])
        (alone,) = decode(
            model, source, request.search or search(0), [request.prefix], guides=guides
        )
        assert_same(hypotheses, alone)
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses)
        if request.constraint is not None:
            texts = tokenizer.decode_batch([h.ids for h in hypotheses if not h.truncated])
            assert all(obeys(text, request.constraint, False) for text in texts)


def test_continuations_of_each_progress_take_turns() -> None:
    values = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -torch.inf, -5.0]])
    progress = torch.tensor([[0, 0, 2, 1, 2, 2]])
    assert round_robin_order(values, progress).tolist() == [[2, 3, 0, 5, 1, 4]]
    assert round_robin_order(values, progress * 0).tolist() == [[0, 1, 2, 3, 5, 4]]
