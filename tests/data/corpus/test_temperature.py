"""The share of each direction in training, as the temperature says."""

import json
from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import pytest
from helpers.tiny_runs import demo_lines, plan_of, prepared_for, tiny_overrides

from seq2seq.data.batches.batch import Batch
from seq2seq.data.batches.batch_loader import BatchLoader
from seq2seq.data.corpus.corpus import Share, temper
from seq2seq.data.prepare import Prepared
from seq2seq.training.config.plan import Plan
from seq2seq.training.loaders import train_loader

SIZES = {"a": 240, "b": 60, "c": 15}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three corpora of different sizes."""
    folder = tmp_path_factory.mktemp("three")
    for name, size in SIZES.items():
        for side in ("de", "en"):
            text = "".join(f"{line}\n" for line in demo_lines("train", side, size))
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    return folder


def made(base: Path, folder: Path, *typed: str, weight: float = 1) -> tuple[Plan, Prepared]:
    corpora = [f"{name}: {{path: {folder / name}, weight: 1}}" for name in SIZES]
    train = ", ".join(corpora).replace("b, weight: 1", f"b, weight: {weight}")
    overrides = "data.languages=[de,en]", f"data.train={{{train}}}", *typed
    plan = plan_of(base, *tiny_overrides(base), *overrides)
    return plan, prepared_for(plan)


def count_rows(data: tuple[Plan, Prepared], batches: Iterable[Batch]) -> list[int]:
    """Number of rows of each component."""
    rows = Counter(chain.from_iterable(batch.indices.tolist() for batch in batches))
    shares = data[1].train.shares
    return [sum(rows[row] for row in range(share.start, share.stop)) for share in shares]


def expected(temperature: float, weight: float = 1) -> list[float]:
    """Rows of a pass by the formula, of both directions of each corpus."""
    weights = [1, weight, 1]
    sizes = SIZES.values()
    total = 2 * sum(w * n for w, n in zip(weights, sizes, strict=True))
    parts = [w * n ** (1 / temperature) for w, n in zip(weights, sizes, strict=True)] * 2
    return [total * part / sum(parts) for part in parts]


@pytest.mark.parametrize(("temperature", "weight"), [(1, 1), (2, 1), (5, 1), (100, 1), (5, 3.5)])
def test_the_loader_draws_the_rows_that_the_temperature_says(
    base: Path, folder: Path, temperature: float, weight: float
) -> None:
    data = made(base, folder, f"data.temperature={temperature}", weight=weight)
    assert [share.stop - share.start for share in data[1].train.shares] == [*SIZES.values()] * 2
    counted = count_rows(data, train_loader(*data))
    wanted = expected(temperature, weight)
    assert counted == pytest.approx(wanted, abs=0.5001)
    ledger = json.loads(json.dumps(data[1].ledger))["parts"]["train"]["corpora"]
    assert [entry["rows"] for entry in ledger] == counted
    assert [entry["share"] for entry in ledger] == pytest.approx(
        [count / sum(counted) for count in counted]
    )
    assert [entry["direction"] for entry in ledger] == ["de-en"] * 3 + ["en-de"] * 3


def test_two_processes_and_a_resumed_run_draw_the_same_rows(base: Path, folder: Path) -> None:
    data = made(base, folder, "data.temperature=5")
    whole = train_loader(*data)
    passes = [list(whole) for _ in range(2)]
    wanted = [count_rows(data, of_pass) for of_pass in passes]
    assert wanted[0] == wanted[1]
    # Other pairs of the corpus that is visited in part are drawn in each pass.
    rows = [{row for batch in each for row in batch.indices.tolist()} for each in passes]
    assert rows[0] != rows[1]
    ranks = [train_loader(*data, rank=rank, world=2) for rank in range(2)]
    assert count_rows(data, chain.from_iterable(ranks)) == wanted[0]
    killed: BatchLoader = train_loader(*data)
    before = list(islice(killed, 4))
    resumed = train_loader(*data)
    resumed.load_state_dict(killed.state_dict())
    assert count_rows(data, [*before, *resumed]) == wanted[0]


def test_stages_follow_the_temperature_too(base: Path, folder: Path) -> None:
    stages = "data.stages=[{until: 5, weights: {a: 1, b: 1}}, {weights: {b: 1, c: 1}}]"
    data = made(base, folder, "data.temperature=2", stages)
    last = {share.start: share for share in data[1].stages[-1].shares}
    assert len(last) == 4
    b, c = (share for share in islice(last.values(), 2))
    assert b.samples / c.samples == pytest.approx((60 / 15) ** 0.5, rel=0.02)
    assert all("share" not in each for each in data[1].ledger["parts"]["train"]["corpora"])


def test_the_tokenizer_is_learnt_from_text_in_the_same_proportions(
    base: Path, tmp_path: Path
) -> None:
    """A word that is frequent only in the small corpus becomes a piece only if that is read often
    enough.
    """
    for name, size, word in (("large", 400, "ananas"), ("small", 4, "kokosnuss")):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_text(f"{word}\n" * size, encoding="utf-8")
    corpora = (f"{name}: {{path: {tmp_path / name}}}" for name in ("large", "small"))
    train = f"data.train={{{', '.join(corpora)}}}"

    def symbols(temperature: int) -> list[str]:
        limits = "data.vocab_size=262", f"data.temperature={temperature}"
        plan = plan_of(base, *tiny_overrides(base), "data.languages=[de,en]", train, *limits)
        return prepared_for(plan).tokenizers.target.symbols()

    found = [{piece for piece in symbols(t) if piece[0] != "<" and len(piece) > 1} for t in (1, 50)]
    assert [any("k" in piece for piece in pieces) for pieces in found] == [False, True]


def test_weights_stay_as_they_are_at_temperature_one() -> None:
    shares = [Share(0, 7, 1.0), Share(7, 10, 2.5)]
    assert temper(shares, 1) == shares
