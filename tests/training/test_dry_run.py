"""The check before a long run."""

import re
from pathlib import Path

import pytest
import torch
from helpers.tiny_runs import plan_of, tiny_overrides, train_tiny

from seq2seq.base.errors import ConfigError
from seq2seq.data.prepare import prepare
from seq2seq.training import dry_run as module
from seq2seq.training.dry_run import largest_batches, sample_batches, valid_batches
from seq2seq.training.loaders import train_loader


@pytest.mark.parametrize(
    "typed", ["trainer.accumulate_grad_batches=1", "trainer.accumulate_grad_batches=2"]
)
@pytest.mark.parametrize(
    "dropout",
    ["tokenizer.dropout=0.1", pytest.param("tokenizer.dropout=0", marks=pytest.mark.slow)],
)
def test_a_dry_run_says_what_the_largest_batches_take_and_writes_nothing(
    base: Path, capsys: pytest.CaptureFixture[str], typed: str, dropout: str
) -> None:
    folder = train_tiny(base, "dry_run=true", typed, dropout)
    assert list(folder.iterdir()) == []
    out = capsys.readouterr().out
    assert "on one of 1 device(s)" in out
    assert all(word in out for word in ("memory ", "speed ", "epoch "))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU says exactly what was allocated")
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_dry_run_says_between_what_bounds_the_peak_of_a_run_will_lie(
    base: Path, capsys: pytest.CaptureFixture[str], precision: str
) -> None:
    train_tiny(base, "dry_run=true", f"trainer.precision={precision}")
    match = re.search(r"memory   (\S+) to (\S+) GB at the peak, of", capsys.readouterr().out)
    assert match is not None
    low, high = map(float, match.groups())
    assert 0.1 < low < high <= 1.5 * low


def test_a_dry_run_meets_all_sizes_of_batches_and_the_largest_of_validation(base: Path) -> None:
    plan = plan_of(base, *tiny_overrides(base))
    prepared = prepare(plan.data, plan.tokenizer)
    epoch = list(train_loader(plan, prepared).batches(0))
    sizes, tried = sorted(map(len, epoch)), sorted(map(len, sample_batches(epoch)))
    assert (tried[0], tried[-1]) == (sizes[0], sizes[-1]) and len(set(tried)) > 4
    largest, longest = valid_batches(prepared.valid, plan.data.max_tokens, world=1)
    assert len(largest.indices) > len(longest.indices) and max(longest.indices) < 40
    assert longest.source.shape[1] == prepared.valid.source_lengths[longest.indices].max() + 1
    lengths = prepared.valid.source_lengths, prepared.valid.target_lengths
    assert max(longest.source.shape[1], longest.target.shape[1] - 1) == max(map(max, lengths)) + 1


def test_the_largest_batches_hold_the_longest_row(base: Path) -> None:
    plan = plan_of(base, *tiny_overrides(base))
    prepared = prepare(plan.data, plan.tokenizer)
    corpus, loader = prepared.train, train_loader(plan, prepared)
    longer = [max(s, t) for s, t in zip(corpus.source_lengths, corpus.target_lengths, strict=True)]
    batches = largest_batches(loader.lengths(0), list(loader.batches(0)))
    assert 1 <= len(batches) <= 2
    assert max(longer[row] for batch in batches for row in batch) == max(longer)


def test_what_does_not_fit_is_refused_with_what_would(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is told to have 100 MB, and the gradients need 250."""
    monkeypatch.setattr(module, "available_memory", lambda: 100 * 2**20)
    with pytest.raises(ConfigError, match=r"does not fit into memory: take data.max_tokens=256"):
        train_tiny(base, "dry_run=true", "model.ffn_dim=500000", "model.decoder_layers=1")


def test_the_machine_says_how_much_memory_is_left_where_it_can() -> None:
    available = module.available_memory()
    assert available is None or available > 2**20
