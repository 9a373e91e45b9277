"""A run that was interrupted ends as one that was not, to the last bit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.compared_runs import (
    TWENTY,
    assert_identical,
    assert_resumed_exactly,
    state_of,
)
from helpers.tiny_runs import (
    corpus,
    demo_run,
    metrics,
    plan_of,
    prepared_for,
    tiny_overrides,
    train_again,
    train_tiny,
    weights,
)

from seq2seq.base.errors import CheckpointError, ConfigError
from seq2seq.checkpoint.average import average
from seq2seq.training.checkpointing import LastCheckpoint
from seq2seq.training.loaders import train_loader
from seq2seq.training.resume import AGREED_PATH, agree_on_path


def updates_of_epoch(base: Path, *options: str) -> int:
    plan = plan_of(base, *tiny_overrides(base), *options)
    loader = train_loader(plan, prepared_for(plan))
    return len(loader) // plan.trainer.accumulate_grad_batches


@pytest.mark.parametrize(
    "typed",
    [
        "loss.simcut=3 loss.simcut_p=0.2",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                "",
                "data.augment.upper=0.2 data.augment.noise=0.2 tokenizer.dropout=0.1",
                "tokenizer.dropout=0.1",
                "trainer.accumulate_grad_batches=2",
                "trainer.precision=int8-aware",
                "loss.r_drop=5",
            )
        ),
    ],
)
def test_a_run_interrupted_twice_ends_as_one_that_was_not(base: Path, typed: str) -> None:
    """In the middle of an epoch, and at its end."""
    options = (*TWENTY, *typed.split())
    epoch = updates_of_epoch(base, *options)
    assert 7 < epoch < 20
    assert_resumed_exactly(base, *options, stops=(7, epoch), end=20)


@pytest.mark.slow
def test_stages_and_augmented_pairs_go_on_where_a_run_was_interrupted(base: Path) -> None:
    """Within both stages and at their border; passes over the text are no epochs here."""
    folder = corpus(base)
    train = f"{{web: {{path: {folder / 'train'}}}, clean: {{path: {folder / 'valid'}}}}}"
    options = [o for o in tiny_overrides(base) if not o.startswith("data.train=")]
    options += [*TWENTY, f"data.train={train}", "data.augment.upper=0.2", "data.augment.typos=0.3"]
    options += ["tokenizer.dropout=0.1"]
    options += ["data.stages=[{until: 14, weights: {web: 1}}, {weights: {web: 0.3, clean: 1}}]"]
    whole, parts = base / "staged-whole", base / "staged-parts"
    train_again(whole, *options, "trainer.max_steps=20", "trainer.val_check_interval=9")
    for end in (7, 14, 18, 20):
        train_again(parts, *options, f"trainer.max_steps={end}", "resume=auto")
    assert_identical(state_of(parts), state_of(whole))
    with pytest.raises(ConfigError, match=r"data.stages differs"):
        other = "data.stages=[{weights: {web: 1, clean: 1}}]"
        train_again(parts, *options[:-1], other, "trainer.max_steps=25", "resume=auto")


@pytest.mark.slow
def test_a_line_of_curves_goes_on_where_a_run_was_interrupted(base: Path) -> None:
    """The first line after update 7 is over updates 1 to 10."""
    lines = (*TWENTY, "trainer.log_every_n_steps=10")
    whole = train_tiny(base, *lines, "trainer.max_steps=20")
    before = train_tiny(base, *lines, "trainer.max_steps=7")
    after = train_tiny(base, *lines, "trainer.max_steps=20", f"resume={before / 'last.ckpt'}")
    assert metrics(after, "train/loss") == metrics(whole, "train/loss")


def test_the_same_command_line_trains_the_same_weights_and_another_seed_others(base: Path) -> None:
    first, second, other = (
        weights(train_tiny(base, *TWENTY, "trainer.max_steps=3", f"seed={seed}"))
        for seed in (1, 1, 2)
    )
    assert_identical(second, first)
    assert not any(torch.equal(other[name], first[name]) for name in first if "embed" in name)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("model.num_heads=2", "model.num_heads was 4 and is 2 now"),
        ("model.dim=64", "model.dim was 32 and is 64 now"),
        ("model.word_dropout=0.1", "model.word_dropout was 0.0 and is 0.1 now"),
        ("tokenizer.dropout=0.1", "tokenizer.dropout was 0.0 and is 0.1 now"),
        ("data.augment.upper=0.1", "the probabilities of data.augment differ"),
        ("loss.r_drop=5", "loss.r_drop was 0.0 and is 5 now"),
        ("loss.simcut=4", "loss.simcut was 0.0 and is 4 now"),
        ("loss.simcut=4", "loss.simcut_p was None and is 0.05 now"),
        ("attn=gqa", "attention.encoder.num_kv_heads was 4 and is None now"),
        ("attn=fixed", "attention.cross.name was 'multihead' and is 'fixed' now"),
        ("position=rope", "position.name was 'sinusoidal' and is 'rope' now"),
        ("data.vocab_size=500", "the tokenizer of the source differs"),
        ("data.max_length=60", "data.max_length was 128 and is 60 now"),
        ("optimizer.lr=1", "optimizer.lr was 0.01 and is 1 now"),
        ("trainer.precision=bf16-mixed", "trainer.precision was '32-true'"),
        ("checkpoint.ema=0.9", "checkpoint.ema was None and is 0.9 now"),
    ],
)
def test_a_run_goes_on_only_as_it_began(base: Path, changed: str, words: str) -> None:
    resume = f"resume={demo_run(base) / 'last.ckpt'}"
    with pytest.raises(ConfigError, match=words):
        train_tiny(base, "optimizer.lr=1e-2", changed, resume)


def test_a_run_from_before_there_was_an_option_goes_on(base: Path, tmp_path: Path) -> None:
    folder = train_tiny(base, "trainer.max_steps=1", "schedule.steps=2")
    content = torch.load(folder / "last.ckpt", weights_only=True)
    for option in ("word_dropout", "attention_dropout", "activation_dropout"):
        del content["seq2seq"]["config"]["model"][option]
    torch.save(content, tmp_path / "older.ckpt")
    typed = ("trainer.max_steps=2", "schedule.steps=2", f"resume={tmp_path / 'older.ckpt'}")
    train_tiny(base, *typed)
    with pytest.raises(ConfigError, match=r"model.word_dropout was 0.0 and is 0.1 now"):
        train_tiny(base, *typed, "model.word_dropout=0.1")


def test_a_run_goes_on_only_with_batches_as_they_were(base: Path) -> None:
    before = train_tiny(base, "data.max_tokens=256", "trainer.max_steps=25")
    with pytest.raises(ConfigError, match=r"data.max_tokens was 256 and is 1024 now"):
        train_tiny(base, "data.max_tokens=1024", f"resume={before / 'last.ckpt'}")


def test_a_run_goes_on_only_with_the_text_it_began_with(base: Path, tmp_path: Path) -> None:
    """The same lines in another order give the same tokenizer, and other batches."""
    for side in ("de", "en"):
        lines = (corpus(base) / f"train.{side}").read_text(encoding="utf-8").splitlines()
        text = "".join(f"{line}\n" for line in reversed(lines))
        (tmp_path / f"train.{side}").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"data.train holds other text"):
        resume = f"resume={demo_run(base) / 'last.ckpt'}"
        train_tiny(base, "optimizer.lr=1e-2", f"data.train={tmp_path / 'train'}", resume)


def test_a_refusal_says_what_the_run_was_started_with(base: Path) -> None:
    before = train_tiny(base, "attn=gqa", "trainer.max_steps=1")
    (before / ".hydra").mkdir()
    typed = "- attn=gqa\n- hydra.run.dir=x\n- run_name=two words\n"
    (before / ".hydra" / "overrides.yaml").write_text(typed)
    with pytest.raises(ConfigError, match="It was started with: attn=gqa 'run_name=two words'$"):
        train_tiny(base, f"resume={before / 'last.ckpt'}")


def test_auto_begins_where_there_is_nothing_and_goes_on_where_there_is(base: Path) -> None:
    options = (*tiny_overrides(base), *TWENTY, "resume=auto")
    whole = train_tiny(base, *TWENTY, "trainer.max_steps=12")
    folder = train_tiny(base, *options, "trainer.max_steps=7")
    train_again(folder, *options, "trainer.max_steps=12")
    assert_identical(state_of(folder), state_of(whole))
    assert metrics(folder, "train/loss") == metrics(whole, "train/loss")[7:]
    with pytest.raises(ConfigError, match=r"last.ckpt continues only the same run: seed was 1"):
        train_again(folder, *options, "seed=2")
    assert not (folder / "metrics-2.csv").exists()  # nothing was moved by the one refused


class Launched:
    """A run of two processes, as one of them sees it."""

    world_size = 2

    def __init__(self, external: bool = True, first: str | None = None):
        self.strategy = self.cluster_environment = self
        self.creates_processes_externally, self.first = external, first
        self.set_up = False

    def setup_environment(self) -> None:
        self.set_up = True

    def broadcast(self, path: str | None) -> str | None:
        assert self.set_up
        return self.first


@pytest.mark.parametrize("first", ["run/last.ckpt", None])
def test_the_first_process_decides_where_all_go_on(
    monkeypatch: pytest.MonkeyPatch, first: str | None
) -> None:
    """Its word reaches those that it starts, and those that others started."""
    started_elsewhere: Any = Launched(first=first)
    assert agree_on_path(started_elsewhere, "what this one sees") == first
    monkeypatch.setenv(AGREED_PATH, "to be restored")
    monkeypatch.delenv(AGREED_PATH)
    starts_others: Any = Launched(external=False)
    assert agree_on_path(starts_others, first) == first
    started_by_it: Any = Launched(first="is not asked")
    assert agree_on_path(started_by_it, "what this one sees") == first


class KilledError(Exception):
    """Stands for a signal that nothing can catch."""


@pytest.mark.parametrize("step", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_killed_run_repeats_no_validation_and_leaves_none_out(
    base: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Validations are at 2, 4, 6; the run is killed as soon as the state of a step is written."""
    options = ("checkpoint.every=1", "trainer.val_check_interval=2", "trainer.max_steps=6")
    options = (*options, "schedule.steps=6", "checkpoint.monitor=loss", "optimizer.lr=1e-2")
    whole = train_tiny(base, *options)
    folders = []
    save = LastCheckpoint._save

    def save_and_die(self: LastCheckpoint, trainer: Any) -> None:
        save(self, trainer)
        if trainer.global_step == step:
            folders.append(self.file.parent)
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(LastCheckpoint, "_save", save_and_die)
        with pytest.raises(KilledError):
            train_tiny(base, *options)
    (first,) = folders
    second = train_tiny(base, *options, f"resume={first / 'last.ckpt'}")
    for name in ("valid/loss", "valid/bleu"):
        assert metrics(first, name) + metrics(second, name) == metrics(whole, name)
    assert_identical(state_of(second), state_of(whole))
    best = [torch.load(f / "best.ckpt", weights_only=True)["global_step"] for f in (second, whole)]
    assert best[0] == best[1]


def test_the_best_model_is_carried_over_to_the_folder_where_a_run_goes_on(base: Path) -> None:
    """A validation that is no better than before does not become the best of the new folder."""
    options = ("checkpoint.monitor=loss", "trainer.val_check_interval=2", "schedule.steps=9")
    first = train_tiny(base, *options, "trainer.max_steps=4")
    content = torch.load(first / "last.ckpt", weights_only=True)
    for state in content["callbacks"].values():
        if state.get("best_model_score") is not None:
            state["best_model_score"] = torch.tensor(0.0)  # no loss will ever be better
    torch.save(content, first / "last.ckpt")
    resume = f"resume={first / 'last.ckpt'}"
    second = train_tiny(base, *options, "trainer.max_steps=8", resume)
    assert min(metrics(second, "valid/loss")) > 0
    steps = [torch.load(f / "best.ckpt", weights_only=True)["global_step"] for f in (first, second)]
    assert steps == [4, 4]


def test_what_is_no_checkpoint_cannot_be_resumed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Ja.")
    with pytest.raises(CheckpointError, match="notes.txt is not a checkpoint"):
        train_tiny(base, f"resume={tmp_path / 'notes.txt'}")


def test_weights_alone_cannot_be_resumed(base: Path, tmp_path: Path) -> None:
    average([demo_run(base) / "last.ckpt"], tmp_path / "mean.ckpt")
    with pytest.raises(ConfigError, match=r"without the state of its training.*init="):
        train_tiny(base, "optimizer.lr=1e-2", f"resume={tmp_path / 'mean.ckpt'}")


def test_a_run_that_had_ended_says_where_it_stands(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("trainer.max_steps=150", "optimizer.lr=1e-2")
    train_tiny(base, *options, f"resume={demo_run(base) / 'last.ckpt'}")
    assert "training ended at step 150\n" in capsys.readouterr().out


def test_a_resumed_run_says_from_which_update(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = train_tiny(base, "trainer.max_steps=2", "schedule.steps=3")
    assert "resumed" not in capsys.readouterr().out
    train_tiny(base, "trainer.max_steps=3", "schedule.steps=3", f"resume={first / 'last.ckpt'}")
    assert "\nresumed after step 2 of 3\n" in capsys.readouterr().out


@pytest.mark.slow
def test_the_time_of_a_run_is_that_of_all_its_parts(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = train_tiny(base, "trainer.max_steps=2", "schedule.steps=4")
    content = torch.load(first / "last.ckpt", weights_only=True)
    content["callbacks"]["Timer"]["time_elapsed"]["train"] = 7200.0
    torch.save(content, first / "last.ckpt")
    resume = ("trainer.max_steps=4", f"resume={first / 'last.ckpt'}")
    second = train_tiny(base, *resume)
    assert 7200 < json.loads((second / "result.json").read_text())["seconds"] < 10_800
    capsys.readouterr()
    train_tiny(base, *resume, "trainer.max_time=00:02:00:00")
    assert (
        "training ended at step 2: trainer.max_time=00:02:00:00, resumed parts included, is used up"
        in capsys.readouterr().out
    )
    train_tiny(base, *resume, "trainer.max_time=00:03:00:00")
    assert "training ended at step 4\n" in capsys.readouterr().out
