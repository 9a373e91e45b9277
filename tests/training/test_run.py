"""One training run from end to end: the files that it leaves, and that it learns."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_runs import (
    corpus,
    demo_lines,
    demo_run,
    metrics,
    plan_of,
    tiny_overrides,
    train_again,
    train_tiny,
    weights,
)
from sacrebleu.metrics.bleu import BLEU

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.cli.files import find_run
from seq2seq.data.corpus import cache
from seq2seq.data.corpus.ragged_array import RaggedArray
from seq2seq.data.prepare import prepare
from seq2seq.data.text import formats
from seq2seq.data.text import lines as text
from seq2seq.training.config.plan import check_nodes
from seq2seq.training.module import TrainingModule
from seq2seq.training.run import train
from seq2seq.training.trainer import build_trainer
from seq2seq.translation.translator import Translator


def test_a_run_leaves_the_model_its_last_state_curves_and_translations(base: Path) -> None:
    left = {path.name for path in demo_run(base).iterdir()}
    files = {"best.ckpt", "last.ckpt", "metrics.csv", "samples.txt", "data.json", "result.json"}
    assert left == files


def test_the_loss_falls(base: Path) -> None:
    train, valid = (metrics(demo_run(base), f"{part}/loss") for part in ("train", "valid"))
    assert len(train) == 150 and len(valid) == 3
    assert valid == sorted(valid, reverse=True)
    assert sum(train[-10:]) < 0.7 * sum(train[:10])


def test_the_first_loss_is_that_of_a_guess_among_all_pieces(base: Path) -> None:
    first = metrics(demo_run(base), "train/loss")[0]
    vocabulary = checkpoint.read(demo_run(base)).target.size
    assert first == pytest.approx(torch.tensor(float(vocabulary)).log().item(), rel=0.15)


def test_the_best_checkpoint_is_of_the_validation_with_the_best_score(base: Path) -> None:
    folder = demo_run(base)
    best = torch.load(folder / "best.ckpt", weights_only=True)
    scores = metrics(folder, "valid/bleu")
    assert best["global_step"] == 50 * (1 + scores.index(max(scores)))
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 150


PAIRS = {"de": ["Ein Hund läuft.", "Die Katze schläft."], "en": ["A dog runs.", "A cat sleeps."]}


def by_heart(base: Path, folder: Path, *overrides: str) -> Path:
    """The run of a model that learns these pairs, from files in a folder."""
    for side, lines in PAIRS.items():
        (folder / f"two.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return train_tiny(
        base,
        *(f"data.train={folder / 'two'}", f"data.valid={folder / 'two'}"),
        *("trainer.max_steps=80", "optimizer.lr=1e-2", "model.dropout=0", "decode.length_ratio=2"),
        *overrides,
    )


def test_a_model_learns_two_sentences_by_heart(base: Path, tmp_path: Path) -> None:
    folder = by_heart(base, tmp_path)
    assert Translator.load(folder).translate(PAIRS["de"]) == PAIRS["en"]
    assert metrics(folder, "valid/bleu") == [pytest.approx(100)]


def test_validation_writes_as_much_as_later_translations_must(base: Path, tmp_path: Path) -> None:
    folder = by_heart(base, tmp_path, "decode.min_length_extra=60", "decode.length_extra=60")
    assert Translator.load(folder).translate(PAIRS["de"]) != PAIRS["en"]
    assert metrics(folder, "valid/bleu")[0] < 50


@pytest.mark.parametrize(
    "tokenizer", ["bpe", *(pytest.param(each, marks=pytest.mark.slow) for each in ("word", "char"))]
)
def test_bleu_is_that_of_translations_and_text_as_the_files_hold_it(
    base: Path, tmp_path: Path, tokenizer: str
) -> None:
    """Some words are unknown, and the pairs left out shift the rows against the lines."""
    (tmp_path / "valid.de").write_text("\n".join(["", "Der " * 200, *PAIRS["de"]]), "utf-8")
    references = ["A dog runs, running on and on.", "Ach, a cat sleeps: Ω."]
    (tmp_path / "valid.en").write_text("\n".join(["A.", "The.", *references]), "utf-8")
    valid = f"data.valid={tmp_path / 'valid'}"
    folder = by_heart(base, tmp_path, valid, f"tokenizer={tokenizer}", "tokenizer.vocab_size=400")
    lines = Translator.load(folder).translate(PAIRS["de"], name="greedy")
    expected = BLEU().corpus_score(lines, [references]).score
    assert metrics(folder, "valid/bleu") == [pytest.approx(expected, rel=1e-6)]
    shown = (folder / "samples.txt").read_text(encoding="utf-8").splitlines()[1:-1]
    assert shown[0::3] == [f"  source       {source}" for source in PAIRS["de"]]
    assert shown[2::3] == [f"  reference    {reference}" for reference in references]


@pytest.mark.parametrize("options", ["attn=additive", "attn=fixed", "attn=dot model.cell=lstm"])
def test_a_recurrent_model_trains_as_the_transformer_does(base: Path, options: str) -> None:
    overrides = [o for o in tiny_overrides(base) if not o.startswith("model.")]
    plan = plan_of(
        base / f"rnn-{options[5:8]}",
        *(*overrides, "model=rnn", "model.dim=32", "trainer.max_steps=3", *options.split()),
    )
    assert train(plan, prepare(plan.data, plan.tokenizer)) is not None
    assert Translator.load(plan.folder).translate(["Ja."])


def test_bleu_is_of_the_first_sentences_and_the_loss_of_all(base: Path) -> None:
    options = "trainer.max_steps=30", "optimizer.lr=1e-2"
    few = train_tiny(base, *options, "validation.sentences=2", "validation.samples=9")
    every = train_tiny(base, *options, "validation.sentences=null", "validation.samples=0")
    assert metrics(few, "valid/loss") == metrics(every, "valid/loss")
    assert (few / "samples.txt").read_text(encoding="utf-8").count("  source ") == 2
    assert (every / "samples.txt").read_text(encoding="utf-8").count("  source ") == 0


class BegunError(Exception):
    """The first step begins."""


def test_setting_up_a_run_walks_its_text_once(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a warm cache: the validation text is read for its references, and nothing else."""
    monkeypatch.setattr(cache, "SETTLED_NS", -1)  # files may be remembered at once
    train_tiny(base, "trainer.max_steps=1")
    read, rows = Counter[str](), Counter[tuple[int, int, int]]()
    read_lines, row = text.read_lines, RaggedArray.__getitem__

    def read_and_noted(path: Path) -> Iterator[str]:
        read[path.name] += 1
        return read_lines(path)

    def row_and_noted(side: RaggedArray, index: int) -> np.ndarray:
        rows[len(side.lengths), id(side), index] += 1
        return row(side, index)

    def begin(*_: object) -> None:
        raise BegunError

    for module in (formats, text):
        monkeypatch.setattr(module, "read_lines", read_and_noted)
    monkeypatch.setattr(RaggedArray, "__getitem__", row_and_noted)
    monkeypatch.setattr(TrainingModule, "training_step", begin)
    with pytest.raises(BegunError):
        train_tiny(base, "trainer.max_steps=1")
    assert read == {"valid.de": 1, "valid.en": 1}
    assert {pairs for pairs, _, _ in rows} == {300}  # those of training alone
    assert set(rows.values()) == {1}  # the first batches, some of them made ahead


def test_the_learning_rate_is_the_peak_times_the_schedule(base: Path) -> None:
    options = "schedule=inverse_sqrt", "schedule.warmup=4", "optimizer.lr=1e-2"
    folder = train_tiny(base, *options, "trainer.max_steps=9")
    state = torch.load(folder / "last.ckpt", weights_only=True)["lr_schedulers"][0]
    assert state["_last_lr"] == [pytest.approx(1e-2 * (4 / 10) ** 0.5)]  # the tenth would come


def test_gradients_are_clipped_to_the_largest_norm(base: Path) -> None:
    """The first update of Adam with a large eps is lr * gradient / eps."""
    adam = "optimizer.eps=1e4", "optimizer.lr=1e4", "schedule=constant", "schedule.warmup=1"
    options = (*adam, "model.dropout=0", "trainer.max_steps=1")
    before = weights(train_tiny(base, *options, "optimizer.lr=0"))
    norms = []
    for limit in (1e-2, 2e-2, "null"):
        after = weights(train_tiny(base, *options, f"trainer.gradient_clip_val={limit}"))
        moved = [(after[n] - before[n]).flatten() for n in after if "embeddings.output" not in n]
        norms.append(torch.cat(moved).norm().item())
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-2)
    assert norms[2] > 5 * norms[1]


def test_training_ends_after_validations_without_a_better_one(base: Path) -> None:
    """With a rate of zero the loss never falls: the second validation is the last."""
    folder = train_tiny(
        base,
        *("optimizer.lr=0", "checkpoint.monitor=loss", "checkpoint.patience=1"),
        *("trainer.max_steps=10", "trainer.val_check_interval=1"),
    )
    assert len(metrics(folder, "valid/loss")) == 2
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 2


@pytest.mark.parametrize(
    ("max_steps", "accumulate", "expected"),
    [(7, 1, [3, 6, 7]), (6, 1, [3, 6]), (2, 1, [2]), (4, 3, [3, 4])],
)
def test_the_last_update_is_validated(
    base: Path, max_steps: int, accumulate: int, expected: list[int]
) -> None:
    folder = train_tiny(
        base,
        *(f"trainer.max_steps={max_steps}", "trainer.val_check_interval=3"),
        *(f"trainer.accumulate_grad_batches={accumulate}", "checkpoint.monitor=loss"),
        *("checkpoint.keep_last=9", "validation.sentences=2"),
    )
    losses = metrics(folder, "valid/loss")
    steps = [int(path.stem[-7:]) for path in sorted((folder / "kept").iterdir())]
    assert steps == expected and len(losses) == len(expected)
    best = torch.load(folder / "best.ckpt", weights_only=True)
    assert best["global_step"] == expected[losses.index(min(losses))]


def test_the_end_of_the_last_epoch_is_validated(base: Path) -> None:
    limits = "trainer.max_steps=-1", "trainer.max_epochs=1", "trainer.val_check_interval=1000"
    folder = train_tiny(base, *limits, "schedule=constant", "validation.sentences=2")
    updates = json.loads((folder / "result.json").read_text())["steps"]
    assert len(metrics(folder, "valid/loss")) == 1
    assert torch.load(folder / "best.ckpt", weights_only=True)["global_step"] == updates


def test_what_is_trained_is_said_in_one_line(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = train_tiny(base, "attn=fixed", "trainer.max_steps=1")
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("transformer | "))
    saved = checkpoint.read(folder)
    total = sum(p.numel() for p in saved.build().parameters()) / 1e6
    assert "encoder mha (fixed is not defined there)" in line and "cross fixed" in line
    assert f"{total:.2f} M parameters" in line
    assert line.endswith(str(folder))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("trainer.devices=0", "devices=0"),
        ("trainer.devices=many", "devices"),
    ],
)
def test_devices_that_are_not_here_are_refused_in_words(base: Path, typed: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"trainer do not suit this machine.*{words}"):
        build_trainer(plan_of(base, *tiny_overrides(base), typed).trainer, [], [], False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_here_is_refused_in_words(base: Path) -> None:
    typed = (*tiny_overrides(base), "trainer.accelerator=gpu")
    with pytest.raises(ConfigError, match="gpu"):
        build_trainer(plan_of(base, *typed).trainer, [], [], False)


def test_a_node_that_nothing_reads_is_refused(base: Path) -> None:
    with pytest.raises(ConfigError, match="unknown option extra"):
        check_nodes({"extra": 1})


def write(folder: Path, de: bytes, en: bytes) -> str:
    (folder / "bad.de").write_bytes(de)
    (folder / "bad.en").write_bytes(en)
    return f"data.train={folder / 'bad'}"


@pytest.mark.parametrize(
    ("de", "en", "words"),
    [
        (b"", b"A.\n", "bad.de is empty"),
        (b"A.\nB.\n", b"A.\n", r"bad.de has 2 line.*bad.en 1"),
        (b"\x89PNG\r\n\x1a\n", b"A.\nB.\n", "bad.de, line 1, byte 1: 0x89 is not UTF-8"),
        (b"A " * 500, b"A.\n", r"1 pair read, 0 kept; left out: 1 longer than 128 pieces"),
        (b"\n\n", b"A.\nB.\n", "0 kept; left out: 2 with an empty side"),
    ],
    ids=["empty", "unequal", "binary", "too long", "blank"],
)
def test_text_that_cannot_be_trained_on_is_refused_in_words(
    base: Path, tmp_path: Path, de: bytes, en: bytes, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        train_tiny(base, write(tmp_path, de, en))


def test_a_cache_that_cannot_be_written_is_refused_in_words(base: Path) -> None:
    with pytest.raises(DataError, match="cannot be written.* data.cache=FOLDER"):
        train_tiny(base, f"data.cache={corpus(base) / 'train.de'}")


def test_one_pair_is_enough_to_train_on(base: Path, tmp_path: Path) -> None:
    train_tiny(base, write(tmp_path, b"Ja.\n", b"Yes.\n"), "trainer.max_steps=2")


def test_samples_show_source_translation_and_reference(base: Path) -> None:
    blocks = (demo_run(base) / "samples.txt").read_text(encoding="utf-8").strip().split("\n\n")
    assert len(blocks) == 3
    sources, references = (demo_lines("valid", side, 3) for side in ("de", "en"))
    for step, block in zip((50, 100, 150), blocks, strict=True):
        figures, *lines = block.split("\n")
        pattern = (
            rf"step {step}  epoch \d+  train loss \d+\.\d{{3}}  valid loss \d+\.\d{{3}}  BLEU "
        )
        assert re.match(pattern, figures)
        assert lines[0::3] == [f"  source       {source}" for source in sources]
        assert all(line.startswith("  translation  ") for line in lines[1::3])
        assert lines[2::3] == [f"  reference    {reference}" for reference in references]


def test_a_new_run_writes_over_nothing_of_the_one_before(base: Path) -> None:
    steps = ("trainer.max_steps=2", "trainer.val_check_interval=2", "checkpoint.keep_last=1")
    folder = train_tiny(base, *steps)
    (folder / "report.html").write_text("about the first run", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    train_again(folder, *tiny_overrides(base), *steps, "seed=2")
    for name in ("best.ckpt", "last.ckpt", "metrics.csv", "samples.txt", "result.json"):
        aside = folder / f"{Path(name).stem}-1{Path(name).suffix}"
        assert aside.read_bytes() == before[name] and find_run(aside) == folder.resolve()
    assert (folder / "kept-1").is_dir()
    assert (folder / "report-1.html").exists() and not (folder / "report.html").exists()
    assert weights(folder).keys() == weights(folder, "last-1.ckpt").keys()
