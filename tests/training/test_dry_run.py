"""The look before a long run."""

from pathlib import Path

import pytest
from tiny_runs import plan_of, tiny_overrides, train_tiny

from seq2seq.data.prepare import prepare
from seq2seq.errors import ConfigError
from seq2seq.training import dry_run as module
from seq2seq.training.dry_run import first_loader, largest_batches


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


@pytest.mark.parametrize(
    "typed", ["trainer.accumulate_grad_batches=1", "trainer.accumulate_grad_batches=2"]
)
@pytest.mark.parametrize("dropout", ["tokenizer.dropout=0", "tokenizer.dropout=0.1"])
def test_a_dry_run_says_what_the_largest_batches_take_and_writes_nothing(
    base: Path, capsys: pytest.CaptureFixture[str], typed: str, dropout: str
) -> None:
    folder = train_tiny(base, "dry_run=true", typed, dropout)
    assert list(folder.iterdir()) == []
    out = capsys.readouterr().out
    assert "on one of 1 device(s)" in out
    assert all(word in out for word in ("memory ", "speed ", "epoch "))


def test_the_largest_batches_are_those_with_most_cells_and_with_the_longest_row(base: Path) -> None:
    plan = plan_of(base, *tiny_overrides(base))
    prepared = prepare(plan.data, plan.tokenizer)
    corpus, loader = prepared.train, first_loader(plan, prepared, None, world=1)
    longer = [max(s, t) for s, t in zip(corpus.source_lengths, corpus.target_lengths, strict=True)]
    batches = largest_batches(loader.lengths, list(loader.batches(0)))
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
