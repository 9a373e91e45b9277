"""Searches in buffers choose what `SearchState` chooses, whatever the candidates are."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from helpers.table_model import assert_same
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.decoding import Hypothesis, Search, build_search
from seq2seq.decoding.device.batch import has_slot_search, slot_search
from seq2seq.decoding.device.buffers import Buffers, Size
from seq2seq.decoding.device.replay import upload
from seq2seq.decoding.diverse import DiverseState
from seq2seq.decoding.search import SearchState, SentenceOptions
from seq2seq.models.candidates import certain, top_candidates

CPU = torch.device("cpu")
KINDS: tuple[dict[str, Any], ...] = (
    {"name": "greedy"},
    {"name": "sample"},
    {"name": "sample", "samples": 3, "top_k": 4},
    {"name": "beam", "beam_size": 1},
    {"name": "beam", "beam_size": 2},
    {"name": "beam", "beam_size": 5},
    {"name": "beam", "beam_size": 4, "stopping": "count"},
    {"name": "beam", "beam_size": 3, "penalty_form": "gnmt"},
    {"name": "diverse", "beam_size": 4, "beam_groups": 2},
    {"name": "diverse", "beam_size": 6, "beam_groups": 2, "stopping": "count"},
    {"name": "diverse", "beam_size": 3},
)


def random_options(kind: dict[str, Any], generator: random.Random) -> dict[str, Any]:
    """Options in which the sentences of a batch may differ."""
    options = dict(kind)
    options["length_ratio"] = generator.choice((0.0, 1.0, 1.5))
    options["length_extra"] = generator.randint(2, 12)
    if generator.random() < 0.3:
        options["min_length_extra"] = 2
    if generator.random() < 0.3:
        options["max_length"] = generator.randint(3, 9)
    if generator.random() < 0.3:
        options["no_repeat_ngram"] = generator.randint(1, 3)
    if kind["name"] in ("beam", "diverse"):
        options["length_penalty"] = generator.choice((0.0, 0.6, 1.0, 2.0))
        options["patience"] = generator.choice((0.4, 1.0, 2.0))
    if kind["name"] == "diverse":
        options["diversity_penalty"] = generator.choice((0.0, 0.5, 3.0))
    if kind["name"] == "sample":
        options |= {"seed": generator.randrange(99), "temperature": generator.choice((0.5, 1.0))}
        options |= {"top_p": generator.choice((0.7, 1.0)), "min_p": generator.choice((0.0, 0.2))}
    return options


def random_sentence(search: Search, V: int, draw_id: int, generator: random.Random) -> Any:
    length = generator.choice((0, 0, 1, 4))
    prefix = [generator.randrange(4, V) for _ in range(length)]
    prefix = [certain(token) if generator.random() < 0.3 else token for token in prefix]
    listed = sorted({EOS, *generator.sample(range(4, V), V // 2)})
    return SentenceOptions(search, prefix, draw_id, tokens=np.array(listed))


def scores(V: int, rows: int, step: int, seed: int) -> Tensor:
    """Scores of all tokens of all rows; those of some steps have few different values."""
    generator = torch.Generator().manual_seed(seed * 1009 + step)
    logits = torch.randn(rows, V, generator=generator, dtype=torch.float64)
    logits[:, EOS] += 1.0
    return logits.round() if seed % 4 == 0 else 2 * logits


class InSlots:
    """The searches of some sentences in buffers, the first of which is not in the first slot."""

    def __init__(self, search: Search, state: SearchState) -> None:
        self.state, B = state, len(state.limits)
        self.buffers = Buffers(search.beams, CPU)
        self.choices = slot_search(search, self.buffers)
        self.B = B // self.choices.groups
        self.size = self.choices.size_for(state)._replace(slots=self.B + 3, room=64)
        self.buffers.tensors = self.buffers.allocate(self.size)
        self.slots = torch.arange(self.B).flip(0) + 1
        values = {name: upload(x, CPU) for name, x in self.choices.first_values(state).items()}
        self.buffers.put(self.slots, values)

    def rows(self, x: Tensor) -> Tensor:
        """The rows of the sentences, in their order."""
        return x.view(self.size.slots, -1, *x.shape[1:])[self.slots].flatten(0, 1)

    def advance(self, logits: Tensor) -> None:
        spread = torch.zeros(self.size.slots, self.choices.beams, logits.shape[1]).double()
        spread[self.slots] = logits.view(self.B, -1, logits.shape[1])
        request = self.choices.request(self.size)
        self.choices.advance(top_candidates(spread.flatten(0, 1), request))

    def results(self) -> list[list[Hypothesis]]:
        held = {name: self.buffers[name][self.slots].numpy() for name in self.choices.kept}
        hypotheses: list[list[Hypothesis]] = self.choices.results(
            [(self.state, i) for i in range(self.B)], held
        )
        return hypotheses


def compare(kind: dict[str, Any], B: int, seed: int, lists: bool) -> None:
    generator, V = random.Random(seed), 23
    searches = [build_search(random_options(kind, generator)) for _ in range(B)]
    sentences = [random_sentence(s, V, i, generator) for i, s in enumerate(searches)]
    if not lists:
        sentences = [each._replace(tokens=np.zeros(0, dtype=np.int64)) for each in sentences]
    lengths = torch.tensor([generator.randint(1, 12) for _ in range(B)])
    search = searches[0].kind
    expected = search.start(lengths, sentences, 40)
    slots = InSlots(search, search.start(lengths, sentences, 40))
    done = np.zeros(B, dtype=bool)
    results: dict[int, list[Hypothesis]] = {}
    for step in range(64):
        logits = scores(V, B * search.beams, step, seed)
        choice = expected.advance(*top_candidates(logits.clone(), expected.request()))
        slots.advance(logits)
        for i in np.flatnonzero(choice.done & ~done):
            results[int(i)] = expected.results([int(i)])[0]
        done |= choice.done
        assert slots.buffers["done"][slots.slots].tolist() == done.tolist()
        open_rows = torch.from_numpy(~done).repeat_interleave(search.beams)
        if isinstance(expected, DiverseState):  # a group that is over reads anything
            open_rows &= torch.from_numpy((expected.total > -np.inf).ravel())
        tokens = slots.rows(slots.buffers.rows("tokens"))
        assert torch.equal(tokens[open_rows], choice.tokens[open_rows])
        if done.all():
            break
    assert done.all()
    for i, hypotheses in enumerate(slots.results()):
        assert [(h.ids, h.truncated) for h in hypotheses] == [
            (h.ids, h.truncated) for h in results[i]
        ]
        assert_same(hypotheses, results[i])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_searches_in_buffers_find_what_search_states_find(kind: dict[str, Any]) -> None:
    for seed in range(4):
        compare(kind, B=24, seed=seed, lists=seed % 2 == 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_ten_thousand_streams_of_candidates_give_equal_results(kind: dict[str, Any]) -> None:
    for seed in range(4, 24):
        compare(kind, B=48, seed=seed, lists=seed % 2 == 1)


def test_a_search_that_reads_weights_is_not_covered() -> None:
    assert has_slot_search(build_search({"name": "beam", "beam_size": 2}))
    assert not has_slot_search(build_search({"name": "beam", "beam_size": 2, "coverage": 0.5}))


def test_unused_symbols_never_appear() -> None:
    """The tokens of sentences are those of texts: scores favour symbols, and none is chosen."""
    search = build_search({"name": "beam", "beam_size": 3})
    slots = InSlots(search, search.start(torch.tensor([3, 4]), max_length=9))
    for step in range(9):
        logits = scores(12, 6, step, 1)
        logits[:, [PAD, BOS, UNK]] += 50.0
        slots.advance(logits)
    assert slots.buffers["done"].all()
    for hypotheses in slots.results():
        assert all({PAD, BOS, UNK}.isdisjoint(h.ids) for h in hypotheses)


def test_buffers_that_move_to_another_class_keep_their_values() -> None:
    search = build_search({"name": "beam", "beam_size": 3})
    slots = InSlots(search, search.start(torch.tensor([9, 8, 7]), max_length=30))
    for step in range(4):
        slots.advance(scores(12, 9, step, 1))
    before = {name: x[slots.slots].clone() for name, x in slots.buffers.tensors.items()}
    for size in (Size(8, 128, 16, 128), Size(3, 8, 16, 64)):
        slots.buffers.move(slots.buffers.allocate(size), slots.slots)
        slots.slots = torch.arange(3)
        for name, x in slots.buffers.tensors.items():
            common = tuple(
                slice(0, min(pair)) for pair in zip(x.shape, before[name].shape, strict=True)
            )
            assert torch.equal(x[:3][common], before[name][common]), name
