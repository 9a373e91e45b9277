"""Trainings with a guided head: that it learns to align, and what else must hold of it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.builders import error_rate
from helpers.compared_runs import (
    ON_ANY_DEVICES,
    TWO_PROCESSES,
    assert_learnt_the_same,
    assert_resumed_exactly,
)
from helpers.tiny_runs import (
    DEMO,
    TINY_MODEL,
    corpus,
    demo_lines,
    demo_run,
    metrics,
    save_model,
    tiny_overrides,
    train_again,
    train_command,
    train_tiny,
)

from seq2seq import checkpoint
from seq2seq.alignment.choice import GUIDED_NEAR, Choice, choice_of_guided_head
from seq2seq.alignment.links import parse_links
from seq2seq.base.errors import ConfigError
from seq2seq.models import PassOptions, Seq2Seq
from seq2seq.training.loss import batch_loss
from seq2seq.translation.translator import Translator


def links_options(base: Path) -> list[str]:
    """The reference links of the tiny corpus, written once."""
    for part, count in (("train", 300), ("valid", 40)):
        file = corpus(base) / f"{part}.align"
        if not file.exists():
            lines = demo_lines(part, "align", count)
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    folder = corpus(base)
    return [f"guided.links={folder / 'train.align'}", f"guided.valid={folder / 'valid.align'}"]


def backwards(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """A language that says another one backwards: sources, targets, links, written to files."""
    random = torch.Generator().manual_seed(1)
    sources, targets, links = [], [], []
    for _ in range(400):
        count = int(torch.randint(3, 7, (), generator=random))
        letters = [chr(97 + int(n)) for n in torch.randint(12, (count,), generator=random)]
        sources.append(" ".join(letters))
        targets.append(" ".join(letter.upper() for letter in reversed(letters)))
        links.append(" ".join(f"{i}-{count - 1 - i}" for i in range(count)))
    for name, lines in (("de", sources), ("en", targets), ("align", links)):
        (folder / f"back.{name}").write_text("".join(f"{line}\n" for line in lines))
    return sources, targets, links


@pytest.mark.parametrize(
    "options", ["guided.layer=1", pytest.param("model=rnn", marks=pytest.mark.slow)]
)
def test_a_guided_head_learns_to_align(base: Path, tmp_path: Path, options: str) -> None:
    sources, targets, lines = backwards(tmp_path)
    plain = [o for o in tiny_overrides(base) if not o.startswith("model.")]
    model = TINY_MODEL if "rnn" not in options else ("model.dim=32",)
    file = tmp_path / "back.align"
    typed = [*plain, *options.split(), *model, "tokenizer=word", "model.dropout=0"]
    typed += [f"data.train={tmp_path / 'back'}", f"data.valid={tmp_path / 'back'}"]
    typed += [f"guided.links={file}", f"guided.valid={file}", "guided.weight=1"]
    typed += ["trainer.max_steps=120", "optimizer.lr=1e-2", "validation.sentences=5"]
    typed += ["data.max_tokens=384", "trainer.val_check_interval=30"]
    train_again(tmp_path / "run", *typed)
    translator = Translator.load(tmp_path / "run" / "last.ckpt")
    choice = choice_of_guided_head(translator.config)
    assert choice is not None
    alignments = translator.alignments(zip(sources, targets, strict=True))
    predicted = [set() if a is None else a.links(choice) for a in alignments]
    reference = [parse_links(line).sure for line in lines]
    assert error_rate(predicted, reference, reference) < 0.1
    for name in ("train/align_loss", "valid/align_loss"):
        values = metrics(tmp_path / "run", name)
        assert values[-1] < 0.3 * values[0]


def test_the_configuration_says_which_head_was_trained(base: Path) -> None:
    options = links_options(base)
    folder = train_tiny(base, *options, "guided.head=3", "trainer.max_steps=1")
    config = checkpoint.read(folder).config
    assert choice_of_guided_head(config) == Choice(0, 1, 2, near=GUIDED_NEAR, competing=False)
    assert config["guided"]["links"] == str(corpus(base) / "train.align")
    assert (config["guided"]["layer"], config["guided"]["head"]) == (2, 3)
    assert choice_of_guided_head(checkpoint.read(demo_run(base)).config) is None


def test_an_older_checkpoint_has_no_guided_head(tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt")
    assert choice_of_guided_head(checkpoint.read(tmp_path / "a.ckpt").config) is None


@pytest.fixture(scope="session")
def guided_alone(base: Path) -> Path:
    """Trained by one process that takes each batch in one piece."""
    return train_tiny(base, *ON_ANY_DEVICES, *links_options(base))


def assert_aligned_the_same(folder: Path, other: Path) -> None:
    assert_learnt_the_same(folder, other)
    losses, expected = (metrics(each, "valid/align_loss") for each in (folder, other))
    assert losses == pytest.approx(expected, abs=1e-5) and len(losses) == 2


@pytest.mark.slow
def test_pieces_of_batches_guide_a_head_as_whole_ones_do(base: Path, guided_alone: Path) -> None:
    accumulate = "trainer.accumulate_grad_batches=3"
    folder = train_tiny(base, *ON_ANY_DEVICES, *links_options(base), accumulate)
    assert_aligned_the_same(folder, guided_alone)


@pytest.mark.slow
def test_two_processes_guide_a_head_as_one_does(
    base: Path, guided_alone: Path, tmp_path: Path
) -> None:
    command = train_command(base, tmp_path, *ON_ANY_DEVICES, *TWO_PROCESSES, *links_options(base))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert_aligned_the_same(tmp_path, guided_alone)


@pytest.mark.slow
def test_the_comparison_would_see_a_head_that_is_not_guided(base: Path, guided_alone: Path) -> None:
    """With another weight of the alignment's loss the model learns something else."""
    other = train_tiny(base, *ON_ANY_DEVICES, *links_options(base), "guided.weight=0.1")
    with pytest.raises(AssertionError):
        assert_aligned_the_same(other, guided_alone)


@pytest.mark.slow
def test_a_guided_run_that_was_interrupted_ends_as_one_that_was_not(base: Path) -> None:
    options = (*links_options(base), "model.dropout=0.2", "attn.dropout=0.1", "schedule.steps=8")
    assert_resumed_exactly(base, *options, stops=(5,), end=8)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["guided.weight=0.1"], "guided.weight was 0.5 and is 0.1 now"),
        (["guided.head=2"], "guided.head was 0 and is 1 now"),
        (["guided.links=null", "guided.valid=null"], r"guided.links holds other links"),
    ],
)
def test_a_guided_run_goes_on_only_as_it_began(
    base: Path, changed: list[str], words: str, guided_alone: Path
) -> None:
    resume = f"resume={guided_alone / 'last.ckpt'}"
    with pytest.raises(ConfigError, match=words):
        train_tiny(base, *ON_ANY_DEVICES, *links_options(base), *changed, resume)


def test_other_links_are_noticed_when_a_run_goes_on(
    base: Path, tmp_path: Path, guided_alone: Path
) -> None:
    lines = demo_lines("train", "align", 300)
    (tmp_path / "other.align").write_text("".join(f"{line}\n" for line in ["0-0", *lines[1:]]))
    resume = f"resume={guided_alone / 'last.ckpt'}"
    with pytest.raises(ConfigError, match=r"guided.links holds other links"):
        other = f"guided.links={tmp_path / 'other.align'}"
        train_tiny(base, *ON_ANY_DEVICES, *links_options(base), other, resume)


def test_without_links_no_weights_are_written_out(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "seq2seq.training.module.batch_loss",
        lambda model, *rest, **more: batch_loss(Spy(model, asked), *rest, **more),  # type: ignore[arg-type]
    )
    train_tiny(base, "trainer.max_steps=1")
    assert asked and not any(asked)
    train_tiny(base, *links_options(base), "trainer.max_steps=1")
    assert asked[-1] == (1,)


class Spy:
    """A model that notes which weights it is asked for."""

    def __init__(self, model: Seq2Seq, asked: list[Any]):
        self.model, self.asked, self.embeddings = model, asked, model.embeddings

    def __call__(self, source: torch.Tensor, target: torch.Tensor, options: PassOptions) -> Any:
        self.asked.append(options.need_weights)
        return self.model(source, target, options)


def test_a_pair_without_links_and_one_with_them_are_in_one_run(base: Path, tmp_path: Path) -> None:
    """Most batches then have linked pieces, and some have none."""
    lines = [
        line if n % 50 == 0 else "" for n, line in enumerate(demo_lines("train", "align", 300))
    ]
    (tmp_path / "few.align").write_text("".join(f"{line}\n" for line in lines))
    links = f"guided.links={tmp_path / 'few.align'}"
    folder = train_tiny(base, links, "data.max_tokens=192", "trainer.max_steps=12")
    assert 0 < len(metrics(folder, "train/align_loss")) < 12
    assert all(torch.tensor(metrics(folder, "train/loss")).isfinite())
    assert "nan" not in (folder / "metrics.csv").read_text(encoding="utf-8")


def test_a_dry_run_tries_the_guided_head_too(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = train_tiny(base, *links_options(base), "dry_run=true")
    assert list(folder.iterdir()) == []
    assert "memory " in capsys.readouterr().out


def test_the_ledger_names_the_links(base: Path, guided_alone: Path) -> None:
    text = (guided_alone / "data.json").read_text(encoding="utf-8")
    assert str(corpus(base) / "train.align") in text
    assert (DEMO / "train.align").is_file()
