"""Stages: the corpora that each stage trains on, the update where it begins, and refusals."""

from collections import Counter
from itertools import chain, islice
from pathlib import Path

import pytest
import torch
from helpers.tiny_runs import corpus, plan_of, prepared_for, tiny_overrides

from seq2seq.base.errors import ConfigError
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.training.loaders import train_loader

FIRST, SECOND = 300, 40  # pairs of the corpora


def overrides(base: Path, stages: str, *typed: str) -> list[str]:
    folder = corpus(base)
    train = f"{{web: {{path: {folder / 'train'}}}, clean: {{path: {folder / 'valid'}}}}}"
    return [*tiny_overrides(base), f"data.train={train}", f"data.stages={stages}", *typed]


def loader(base: Path, stages: str, *typed: str) -> BatchLoader:
    plan = plan_of(base, *overrides(base, stages, *typed))
    return train_loader(plan, prepared_for(plan))


def epochs(batches: BatchLoader, count: int) -> list[Batch]:
    return list(chain.from_iterable(list(batches) for _ in range(count)))


THREE = (
    "[{until: 7, weights: {web: 1}}, {until: 50, weights: {web: 1, clean: 2}}, "
    "{weights: {clean: 1}}]"
)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_stage_begins_exactly_at_its_update(base: Path, steps: int) -> None:
    typed = f"trainer.accumulate_grad_batches={steps}"
    batches = epochs(loader(base, THREE, typed), 6)
    assert len(batches) > 70 * steps
    of_updates = [batches[i : i + steps] for i in range(0, len(batches), steps)]
    rows = [[row for batch in update for row in batch.indices] for update in of_updates]
    assert all(row < FIRST for row in chain.from_iterable(rows[:7]))
    assert all(row >= FIRST for row in chain.from_iterable(rows[50:]))
    middle = Counter(chain.from_iterable(rows[7:50]))
    assert any(row < FIRST for row in middle) and any(row >= FIRST for row in middle)


def test_a_stage_visits_its_corpora_as_often_as_their_weights(base: Path) -> None:
    staged = loader(base, "[{until: 7, weights: {web: 1}}, {weights: {web: 1, clean: 2}}]")
    batches = epochs(staged, 6)
    seen: Counter[int] = Counter()
    for batch in batches[7:]:
        seen.update(batch.indices)
        if all(seen[row] == 1 + (row >= FIRST) for row in range(FIRST + SECOND)):
            break
        assert all(count <= 1 + (row >= FIRST) for row, count in seen.items())
    else:
        pytest.fail("no pass was whole")


def test_a_single_stage_equals_training_with_its_weights(base: Path) -> None:
    folder = corpus(base)
    train = (
        f"{{web: {{path: {folder / 'train'}}}, clean: {{path: {folder / 'valid'}, weight: 2.5}}}}"
    )
    plan = plan_of(base, *tiny_overrides(base), f"data.train={train}")
    plain = train_loader(plan, prepared_for(plan))
    staged = loader(base, "[{weights: {web: 1, clean: 2.5}}]")
    for one, other in zip(epochs(plain, 2), epochs(staged, 2), strict=True):
        assert one.indices.tolist() == other.indices.tolist() and torch.equal(
            one.source, other.source
        )
    assert plain.state_dict() == staged.state_dict() == {"epoch": 1, "position": len(plain)}


@pytest.mark.parametrize("more", [(), ("tokenizer.dropout=0.1", "data.augment.upper=0.2")])
def test_a_loader_continues_wherever_it_was_killed(base: Path, more: tuple[str, ...]) -> None:
    plan = plan_of(base, *overrides(base, THREE, *more))
    data = plan, prepared_for(plan)
    whole = train_loader(*data)
    batches, states = [], []
    for _ in range(5):
        for batch in whole:
            batches.append(batch)
            states.append(whole.state_dict())
    for killed in (0, 6, 48, len(batches) - 2):
        resumed = train_loader(*data)
        resumed.load_state_dict(states[killed])
        rest = list(islice(chain(resumed, resumed), 4))
        for one, other in zip(rest, batches[killed + 1 :], strict=False):
            assert one.indices.tolist() == other.indices.tolist() and one.total == other.total
            assert torch.equal(one.source, other.source)
            assert torch.equal(one.target, other.target)


def test_both_directions_of_a_corpus_have_its_weight(base: Path) -> None:
    stages = "[{until: 5, weights: {web: 1}}, {weights: {clean: 1}}]"
    batches = epochs(loader(base, stages, "data.both_directions=true"), 1)
    # Rows: web, clean, web reversed, clean reversed.
    starts = [0, FIRST, FIRST + SECOND, 2 * FIRST + SECOND, 2 * (FIRST + SECOND)]
    rows = set(chain.from_iterable(batch.indices for batch in batches[5:]))
    assert rows == {*range(starts[1], starts[2]), *range(starts[3], starts[4])}
    rows = set(chain.from_iterable(batch.indices for batch in batches[:5]))
    assert all(row < starts[1] or starts[2] <= row < starts[3] for row in rows)


def test_a_name_may_be_a_number(base: Path) -> None:
    folder = corpus(base)
    train = f"{{2019: {{path: {folder / 'train'}}}, web: {{path: {folder / 'valid'}}}}}"
    stages = "[{until: 7, weights: {2019: 1, web: 1}}, {weights: {2019: 1}}]"
    typed = f"data.train={train}", f"data.stages={stages}"
    plan = plan_of(base, *tiny_overrides(base), *typed)
    batches = epochs(train_loader(plan, prepared_for(plan)), 3)
    assert {row >= FIRST for batch in batches[:7] for row in batch.indices} == {False, True}
    assert all(row < FIRST for batch in batches[7:] for row in batch.indices)


def test_the_ledger_names_the_stages(base: Path) -> None:
    plan = plan_of(base, *overrides(base, THREE))
    stages = prepared_for(plan).ledger["stages"]
    assert [stage.get("until") for stage in stages] == [7, 50, None]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("[]", r"data.stages is empty: null for none, or data.stages="),
        ("[web]", r"data.stages\[0\]='web' should be a stage: data.stages="),
        ("[{weight: {web: 1}}]", r"unknown option data.stages\[0\].weight; did you mean 'weights'"),
        ("[{weights: {}}]", r"data.stages\[0\].weights names no corpus"),
        ("[{weights: {wbe: 1}}]", r"data.stages\[0\].weights.wbe: data.train has no such corpus"),
        ("[{weights: {web: 0, clean: 1}}]", r"data.stages\[0\].weights.web=0 should be a number"),
        ("[{weights: {web: x, clean: 1}}]", r"data.stages\[0\].weights.web='x' should be a number"),
        ("[{weights: {web: 1}}]", r"data.train.clean is in no stage"),
        ("[{until: 5, weights: {web: 1, clean: 1}}]", r"data.stages\[0\].until=5: every stage but"),
        (
            "[{weights: {web: 1}}, {weights: {clean: 1}}]",
            r"data.stages\[0\].until=null: every stage but the last says",
        ),
        (
            "[{until: 5, weights: {web: 1}}, {until: 5, weights: {clean: 1}}, {weights: {web: 1}}]",
            r"data.stages\[1\].until=5 should be at least 6",
        ),
        ("[{until: 0, weights: {web: 1}}, {weights: {clean: 1}}]", r"until=0 should be at least 1"),
        ("[{until: 1.5, weights: {web: 1}}, {weights: {clean: 1}}]", r"until=1.5 should be"),
        ("5", r"data.stages=5 should be a list"),
    ],
)
def test_faulty_stages_are_refused(base: Path, stages: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_of(base, *overrides(base, stages))


def test_stages_need_several_corpora_and_set_all_weights(base: Path) -> None:
    with pytest.raises(ConfigError, match=r"data.train has only one: give"):
        plan_of(base, *tiny_overrides(base), "data.stages=[{weights: {web: 1}}]")
    weighted = "data.train={web: {path: x, weight: 2}}", "data.stages=[{weights: {web: 1}}]"
    with pytest.raises(ConfigError, match=r"data.train.web.weight=2 has no effect with data.stag"):
        plan_of(base, *tiny_overrides(base), *weighted)
