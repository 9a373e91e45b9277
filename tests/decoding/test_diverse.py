"""Diverse beam search, compared with `Beam`; test_searches compares it with a naive search."""

import random
from typing import Any

import pytest
import torch
from helpers.builders import small_model, source_batch
from helpers.naive_search import Case, naive
from helpers.random_constraints import random_constraint
from helpers.table_model import TableModel, assert_same

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import options_of
from seq2seq.cli.main import parse_arguments
from seq2seq.decoding import SEARCHES, Beam, DiverseBeam, build_search, decode
from seq2seq.decoding.constraints.lexical import Vocabulary
from seq2seq.text.tokenization.words import CharacterLevel


@pytest.mark.parametrize("seed", range(6))
def test_a_group_sees_enough_of_a_large_vocabulary(seed: int) -> None:
    """What is penalised falls behind, so the last group needs more than its 2 K / G best."""
    options = {"name": "diverse", "beam_size": 8, "beam_groups": 4, "diversity_penalty": 2.0}
    model, source = TableModel(200, seed, spread=1.0), source_batch(4, 2)
    for row, result in zip(source, decode(model, source, build_search(options)), strict=True):
        pieces = int((row > 0).sum()) - 1
        assert_same(result, naive(Case(model.next_logp(int(row[0])), pieces), options))


every_kind = pytest.mark.parametrize(
    "options",
    [{}, {"stopping": "count"}, {"patience": 2.0, "length_penalty": 0.0}, {"no_repeat_ngram": 1}],
    ids=str,
)


@every_kind
@pytest.mark.parametrize("variant", ["table", "transformer", "rnn"])
def test_one_group_is_beam_search_to_the_bit(variant: str, options: dict[str, Any]) -> None:
    source = source_batch(7, 1, 4, 9)
    model = TableModel(9, eos=-1.0) if variant == "table" else small_model(variant)
    expected = decode(model, source, Beam(beam_size=3, **options))
    diverse = DiverseBeam(beam_size=3, beam_groups=1, diversity_penalty=0.7, **options)
    assert decode(model, source, diverse) == expected


@every_kind
def test_without_a_penalty_all_groups_are_the_same_beam_search(options: dict[str, Any]) -> None:
    source, model = source_batch(7, 1, 4, 9), TableModel(9, eos=-1.0)
    expected = decode(model, source, Beam(beam_size=2, **options))
    diverse = DiverseBeam(beam_size=6, beam_groups=3, diversity_penalty=0.0, **options)
    assert decode(model, source, diverse) == expected


def test_with_a_high_penalty_no_group_takes_a_token_of_an_earlier_one() -> None:
    model, source = TableModel(60, eos=-50.0), source_batch(5, 8)
    search = DiverseBeam(beam_size=6, beam_groups=3, diversity_penalty=1000.0, stopping="count")
    search_state = search.start(torch.tensor([5, 8]))
    logp, ids = torch.log_softmax(model.table[:12], -1).topk(search.group.candidates)
    for _ in range(4):
        choice = search_state.advance(logp, ids)
        for tokens in choice.tokens.view(2, 3, 2).tolist():
            groups = [set(group) for group in tokens]
            assert len(set().union(*groups)) == sum(map(len, groups))
    for hypotheses in decode(model, source, search):
        assert len({h.ids[0] for h in hypotheses}) >= 3  # each group began in its own way


@pytest.mark.parametrize("seed", range(8))
def test_one_group_with_constraints_is_beam_search(seed: int) -> None:
    tokenizer = CharacterLevel().train(["ab c"] * 3)
    guide = Vocabulary(tokenizer, False).guide(random_constraint(random.Random(seed)))
    model, source = TableModel(tokenizer.size, seed), source_batch(6)
    one, beam = (
        decode(model, source, search, guides=[guide])
        for search in (DiverseBeam(beam_size=4, beam_groups=1), Beam(beam_size=4))
    )
    assert one == beam


@pytest.mark.parametrize("penalty", [0.5, 2.0])
@pytest.mark.parametrize("seed", range(12))
def test_each_group_follows_the_progress_of_its_own_hypotheses(seed: int, penalty: float) -> None:
    """With as many candidates as pieces, required pieces are always among them."""
    tokenizer = CharacterLevel().train(["ab c"] * 3)
    guide = Vocabulary(tokenizer, False).guide(random_constraint(random.Random(seed)))
    model, source = TableModel(tokenizer.size, seed, eos=-1.0), source_batch(5, 2)
    options = {"name": "diverse", "beam_size": 6, "beam_groups": 2, "diversity_penalty": penalty}
    results = decode(model, source, build_search(options), guides=[guide, None])
    for row, one, result in zip(source, (guide, None), results, strict=True):
        case = Case(model.next_logp(int(row[0])), int((row > 0).sum()) - 1)
        assert_same(result, naive(case, options, one))


def test_states_of_groups_of_other_sizes_do_not_merge() -> None:
    two, four = (DiverseBeam(beam_size=n, beam_groups=n // 2) for n in (2, 4))
    with pytest.raises(ValueError, match="one kind"):
        two.start(torch.tensor([3])).merge(four.start(torch.tensor([3])))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"beam_size": 6, "beam_groups": 4},
            "beam_groups=4 should divide the 6 beams into groups of equal size: 1, 2, 3, 6",
        ),
        ({"beam_size": 2, "beam_groups": 3}, "beam_groups=3 should divide the 2 beams"),
        ({"beam_groups": 0}, "decode.beam_groups=0 should be at least 1"),
        ({"diversity_penalty": -0.5}, "decode.diversity_penalty=-0.5 should be at least 0"),
    ],
)
def test_beams_that_do_not_divide_into_groups_are_refused(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        build_search({"name": "diverse", **options})


def test_its_options_choose_diverse_search_unless_tokens_are_sampled() -> None:
    typed = ["translate", "RUN", "--beam-groups", "2", "--diversity-penalty", "0.3"]
    given = parse_arguments(typed).search.best
    assert given == {"beam_groups": 2, "diversity_penalty": 0.3}
    for name in given:
        assert [n for n in SEARCHES if name in options_of(SEARCHES.find(n))] == ["diverse"]
    for option in ("--beam-groups=2", "--diversity-penalty=0"):
        with pytest.raises(ConfigError, match=f"{option[:-2]} is for beam search"):
            parse_arguments(["translate", "RUN", option, "--sample"])
