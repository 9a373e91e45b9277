"""Batches of pairs that augmentation or subword regularization changes, in every process."""

from itertools import chain, islice
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_runs import corpus, demo_lines, plan_of, prepared_for, tiny_overrides

from seq2seq.alignment.links import parse_links, words
from seq2seq.alignment.projection import project_links
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.data.augment.augmentation import RowText
from seq2seq.data.augment.augmented_text import (
    AugmentOptions,
    SentencePair,
    augment,
    draw_kinds,
    draw_numbers,
)
from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.prepare import Prepared
from seq2seq.training.config.plan import Plan
from seq2seq.training.loaders import build_variants, train_loader

RATES = {"upper": 0.1, "title": 0.1, "unpunctuated": 0.3, "typos": 0.2, "noise": 0.1}
MANY = tuple(f"data.augment.{name}={rate}" for name, rate in RATES.items())
REGULARIZED = ("tokenizer.dropout=0.1",)
BOTH = (*MANY, *REGULARIZED)


def planned(base: Path, *typed: str) -> tuple[Plan, Prepared]:
    plan = plan_of(base, *tiny_overrides(base), *typed)
    return plan, prepared_for(plan)


def loader(base: Path, *typed: str, rank: int = 0, world: int = 1) -> BatchLoader:
    return train_loader(*planned(base, *typed), rank=rank, world=world)


def with_links(base: Path) -> str:
    file = corpus(base) / "augmented.align"
    file.write_text("".join(f"{line}\n" for line in demo_lines("train", "align", 300)), "utf-8")
    return f"guided.links={file}"


def assert_same(one: Batch, other: Batch) -> None:
    assert one.indices.tolist() == other.indices.tolist()
    assert (one.tokens, one.total) == (other.tokens, other.total)
    assert torch.equal(one.source, other.source) and torch.equal(one.target, other.target)
    assert (one.links is None) == (other.links is None)
    if one.links is not None and other.links is not None:
        assert torch.equal(one.links.places, other.links.places)
        assert torch.equal(one.links.shares, other.links.shares)
        assert one.links[2:] == other.links[2:]


def rows_of(batches: list[Batch]) -> dict[int, tuple[list[int], list[int]]]:
    """The pieces of each row, without begin, end and padding."""
    return {
        row: tuple([i for i in ids.tolist() if i not in (BOS, EOS, PAD)] for ids in pair)
        for batch in batches
        for row, *pair in zip(batch.indices, batch.source, batch.target, strict=False)
    }


def test_batches_hold_augmented_text_as_drawn(base: Path) -> None:
    plan, prepared = planned(base, *MANY)
    batches = list(train_loader(plan, prepared))
    rows = rows_of(batches)
    assert sorted(rows) == list(range(300))
    kinds = draw_kinds(AugmentOptions(**plan.data.augment), plan.run.seed, 0, 0, 300)
    sides = [demo_lines("train", side, 300) for side in ("de", "en")]
    changed = 0
    for row, ids in rows.items():
        plain = sides[0][row], sides[1][row]
        pair = SentencePair(plain[0], plain[1], parse_links(""))
        after = augment(pair, int(kinds[row]), draw_numbers(plan.run.seed, 0, row))
        tokenizers = zip(prepared.tokenizers, ids, strict=True)
        texts = tuple(tokenizer.decode_batch([side])[0] for tokenizer, side in tokenizers)
        assert texts in (plain, after[:2])
        changed += texts != plain
    wanted = sum(kinds > 0)
    assert 0.85 * wanted < changed <= wanted
    assert abs(wanted - 300 * 0.592) < 4 * sqrt(300 * 0.592 * 0.408)  # 1 - 0.8 0.7 0.8 0.9


def test_validation_is_never_augmented(base: Path) -> None:
    plain, augmented = (planned(base, *typed)[1].valid for typed in ((), MANY))
    for row in range(len(plain)):
        assert np.array_equal(plain.source(row), augmented.source(row))
        assert np.array_equal(plain.target(row), augmented.target(row))


def test_each_epoch_changes_other_pairs_and_rates_of_zero_change_nothing(base: Path) -> None:
    one = loader(base, *MANY)
    first, second = rows_of(list(one)), rows_of(list(one))
    assert sum(first[row] != second[row] for row in set(first) & set(second)) > 50
    plan, prepared = planned(base)
    assert build_variants(plan, prepared) is None
    named = f"data.train={{all: {{path: {corpus(base) / 'train'}, augment: {{upper: 0}}}}}}"
    zero = loader(base, *(f"data.augment.{name}=0" for name in RATES), named)
    for plain, same in zip(train_loader(plan, prepared), zero, strict=True):
        assert_same(plain, same)
    assert zero.state_dict() == {"epoch": 0, "position": len(zero)}


@pytest.mark.parametrize("typed", [MANY, REGULARIZED, BOTH])
def test_no_batch_and_no_sentence_exceeds_its_bound(base: Path, typed: tuple[str, ...]) -> None:
    for batch in loader(base, *typed, "data.max_length=40", "data.max_tokens=300"):
        for width in (batch.source.shape[1], batch.target.shape[1] - 1):
            assert width <= 40 and width * len(batch.indices) <= 300


@pytest.mark.parametrize(
    ("typed", "world", "steps"),
    [pytest.param(MANY, 1, 3, marks=pytest.mark.slow), (REGULARIZED, 3, 2), (BOTH, 2, 2)],
)
def test_ranks_and_accumulation_steps_share_the_batches_of_one_process(
    base: Path, typed: tuple[str, ...], world: int, steps: int
) -> None:
    accumulate = f"trainer.accumulate_grad_batches={steps}"
    ranks = [list(loader(base, *typed, accumulate, rank=n, world=world)) for n in range(world)]
    for index, batch in enumerate(loader(base, *typed)):
        pieces = [p for part in ranks for p in part[index * steps : (index + 1) * steps]]
        assert {piece.total for piece in pieces} == {batch.total}
        assert rows_of(pieces) == rows_of([batch])


@pytest.mark.parametrize(
    ("typed", "steps"),
    [pytest.param(BOTH, 1, marks=pytest.mark.slow), (REGULARIZED, 2), ((*MANY, "links"), 3)],
)
def test_a_loader_continues_wherever_it_was_killed(
    base: Path, typed: tuple[str, ...], steps: int
) -> None:
    """Where augmentation makes epochs unequal, passes end at other batches than epochs; states
    around both ends are tried.
    """
    asked = [with_links(base) if word == "links" else word for word in typed]
    asked.append(f"trainer.accumulate_grad_batches={steps}")
    data = planned(base, *asked)
    whole = train_loader(*data)
    batches, states = [], []
    for _ in range(4):
        for batch in whole:
            batches.append(batch)
            states.append(whole.state_dict())
    assert any("pass" in state for state in states) == (typed != REGULARIZED)
    for killed in range(0, len(batches), len(batches) // 4):
        resumed = train_loader(*data)
        resumed.load_state_dict(states[killed])
        rest = list(islice(chain(resumed, resumed), 4))
        for one, other in zip(rest, batches[killed + 1 :], strict=False):
            assert_same(one, other)


def test_links_of_augmented_pairs_follow_their_text(base: Path) -> None:
    """Compare with the links of the text of each row, projected to pieces again."""
    plan, prepared = planned(base, *MANY, with_links(base))
    epoch = train_loader(plan, prepared)
    view = epoch.rows(0)
    assert view.links is not None and prepared.word_links is not None
    lines = demo_lines("train", "align", 300)
    kinds = draw_kinds(AugmentOptions(**plan.data.augment), plan.run.seed, 0, 0, 300)
    text = RowText(prepared.train, prepared.tokenizers, prepared.word_links, True)
    for row in range(300):
        restored = text.read(row)
        assert restored is not None and restored.links == parse_links(lines[row])
        sides = list(view.source(row)), list(view.target(row))
        pair = augment(restored, int(kinds[row]), draw_numbers(plan.run.seed, 0, row))
        if sides[0] == prepared.train.source(row).tolist() and pair.target != restored.target:
            pair = restored  # had no room
        tokenizers = prepared.tokenizers
        spans = tokenizers.source.spans(pair.source), tokenizers.target.spans(pair.target)
        known = words(pair.source), words(pair.target)
        shares = project_links(pair.links, spans, known, to_end=True)
        dense = torch.zeros_like(shares)
        for target, source, share in view.links.row(row).tolist():
            dense[target, source] = share
        assert torch.equal(dense, shares)
    rows = np.arange(300)
    assert view.links.count_linked(rows) == sum(len(set(view.links.row(r)["target"])) for r in rows)


def test_a_tag_stays_before_its_augmented_source(base: Path) -> None:
    spec = f"{{a: {{path: {corpus(base) / 'train'}, tag: de}}}}"
    _, prepared = planned(base, f"data.train={spec}", *MANY)
    tag = prepared.tokenizers.source.tag_id("de")
    for batch in loader(base, f"data.train={spec}", "data.augment.upper=1"):
        assert (batch.source[:, 0] == tag).all()


def test_each_corpus_has_its_own_probabilities(base: Path, tmp_path: Path) -> None:
    spec = (
        f"{{a: {{path: {corpus(base) / 'train'}, augment: {{upper: 1}}}}, "
        f"b: {{path: {corpus(base) / 'valid'}}}}}"
    )
    typed = f"data.train={spec}", "data.augment.noise=0.5", "data.max_tokens=2048"
    _, prepared = planned(base, *typed)
    sources = {row: ids[0] for row, ids in rows_of(list(loader(base, *typed))).items()}
    texts = dict(
        zip(sources, prepared.tokenizers.source.decode_batch(list(sources.values())), strict=True)
    )
    capitals = [texts[row].isupper() for row in range(300)]
    assert sum(capitals) > 280
    assert not any(texts[row].isupper() for row in range(300, 340))
    a, b = prepared.ledger["parts"]["train"]["corpora"]
    assert (a["augment"]["upper"], a["augment"]["noise"]) == (1, 0.5)
    assert (b["augment"]["upper"], b["augment"]["noise"]) == (0, 0.5)
    assert "augment" not in prepared.ledger["parts"]["valid"]["corpora"][0]


@pytest.mark.parametrize("kind", ["word", "char", "unigram"])
def test_no_augmented_pair_has_unknown_pieces(base: Path, kind: str) -> None:
    tokenizer = f"tokenizer={kind}"
    plain = rows_of(list(loader(base, tokenizer)))
    augmented = rows_of(list(loader(base, tokenizer, *MANY, "data.augment.upper=0.8")))
    for row, ids in augmented.items():
        assert ids == plain[row] or UNK not in (*ids[0], *ids[1])
    changed = sum(ids != plain[row] for row, ids in augmented.items())
    assert changed < 60 if kind == "word" else changed > 150


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["data.augment.upper=2"], r"data.augment.upper=2 should be at least 0 and at most 1"),
        (
            ["data.train={a: {path: x, augment: {upper: 0.8}}}", "data.augment.title=0.5"],
            r"data.train.a.augment.upper=0.8 and data.train.a.augment.title=0.5 exclude each other",
        ),
        (
            ["data.train={a: {path: x, augment: {uper: 1}}}"],
            r"unknown option data.train.a.augment.uper; did you mean 'upper'",
        ),
        (["data.train={a: {path: x, augment: 0.1}}"], r"data.train.a.augment=0.1 should be"),
        (
            ["data.valid={a: {path: x, augment: {upper: 1}}}"],
            r"data.valid.a.augment: only training text is augmented; leave it out",
        ),
    ],
)
def test_faulty_options_are_refused(base: Path, typed: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_of(base, *tiny_overrides(base), *typed)
