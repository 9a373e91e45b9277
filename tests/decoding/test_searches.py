"""All searches and all their options against the naive ones, alone and in changing company."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers.builders import small_model, source_batch
from helpers.naive import Case, naive, some_options
from helpers.searches import Run, table_cases
from helpers.toys import assert_same, next_logp
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS
from seq2seq.decoding import build_search, decode
from seq2seq.models import PassOptions, Seq2Seq

every_seed = pytest.mark.parametrize("seed", range(2))


@every_seed
@pytest.mark.parametrize("which", range(len(some_options(0))))
def test_sentences_of_any_age_in_any_company_are_translated_as_if_alone(
    which: int, seed: int
) -> None:
    options = some_options(seed)[which]
    cases = table_cases(seed, 12, eos=(-2.0, 0.0, 1.0, 2.0)[seed])
    rng = random.Random(seed)
    waiting = rng.sample(cases, len(cases))
    run = Run(build_search(options), options)
    while waiting or run.cases:
        if waiting and (not run.cases or rng.random() < 0.5):
            count = rng.randint(1, 3)
            run.arrive(waiting[:count])
            waiting = waiting[count:]
        run.step()
    for case in cases:
        assert_same(run.results[case.draw_id], naive(case, options))


def model_case(model: Seq2Seq, source: Tensor, layer: int = -1, prefix: Sequence[int] = ()) -> Case:
    @torch.no_grad()
    def looks(ids: list[int]) -> list[float]:
        weights = model(
            source[None], torch.tensor([[BOS, *ids]]), PassOptions(need_weights=True)
        ).weights
        assert weights is not None
        return weights[layer, 0, :, -1].mean(0).tolist()

    return Case(next_logp(model, source), len(source) - 1, list(prefix), looks)


@pytest.mark.parametrize(
    "variant",
    [
        "transformer",
        "transformer attn=gqa position=rope",
        "transformer attn=mla",
        "transformer attn=fixed",
        "rnn",
        "rnn attn=dot model.cell=lstm model.layers=2",
        "rnn_luong",
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {"name": "greedy", "min_length_ratio": 1.0, "min_length_extra": 1},
        pytest.param(
            {"name": "beam", "beam_size": 2, "length_ratio": 1.0, "length_extra": 3},
            marks=pytest.mark.slow,
        ),
        {"name": "beam", "beam_size": 5, "length_penalty": 0.0, "min_length_extra": 3},
        {"name": "beam", "beam_size": 4, "coverage": 0.5, "coverage_layer": 0, "patience": 1.5},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
@pytest.mark.parametrize(
    "prefixes", [[[5, 6], [], [7, 7, 4, 3]], pytest.param(None, marks=pytest.mark.slow)]
)
def test_a_search_on_a_model_is_the_naive_one(
    variant: str, options: dict[str, Any], prefixes: list[list[int]] | None
) -> None:
    options = {"length_ratio": 1.0, "length_extra": 4, **options}
    if options.get("coverage") and variant.endswith("fixed"):
        pytest.skip("it has no weights")
    model, lengths = small_model(*variant.split()), (5, 2, 3)
    source = source_batch(*lengths)
    results = decode(model, source, build_search(options), prefixes)
    for row, hypotheses in enumerate(results):
        prefix = prefixes[row] if prefixes else []
        case = model_case(
            model, source[row, : lengths[row]], options.get("coverage_layer", -1), prefix
        )
        assert_same(hypotheses, naive(case, options))


@pytest.mark.parametrize("variant", ["transformer", "rnn"])
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_single_precision_only_changes_near_ties(name: str, variant: str) -> None:
    model, source = small_model(variant), source_batch(*(9, 1, 5, 14, 3, 7, 12, 2))
    options = {"name": name, "length_ratio": 1.0, "length_extra": 4}
    exact = decode(model, source, build_search(options))
    single = decode(model.float(), source, build_search(options))
    for row, (actual, expected) in enumerate(zip(single, exact, strict=True)):
        assert actual[0].score == pytest.approx(expected[0].score, abs=1e-4)
        if actual[0].ids != expected[0].ids:  # then the other must have been as good
            target = torch.tensor([[BOS, *actual[0].ids]])
            with torch.no_grad():
                hidden = model.double()(source[row : row + 1], target).hidden
                logp = model.logits(hidden).log_softmax(-1)[0]
            written = actual[0].ids if actual[0].truncated else [*actual[0].ids, EOS]
            total = sum(logp[i, token].item() for i, token in enumerate(written))
            assert total / len(written) == pytest.approx(expected[0].score, abs=1e-4)
