"""Small training runs and checkpoints, for tests that need a trained model.

A tiny Transformer on the first 300 pairs of data/demo: a second or two for a hundred updates.
"""

import csv
import sys
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from hydra import compose, initialize_config_dir

from helpers.builders import CONF
from seq2seq import checkpoint
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.models import Seq2Seq, build_model
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers
from seq2seq.training.config.plan import Plan, check_config
from seq2seq.training.dry_run import dry_run
from seq2seq.training.launch import in_full
from seq2seq.training.resume import read_tokenizers
from seq2seq.training.run import plain_values, train

DEMO = CONF.parent / "data" / "demo"
TINY_MODEL = (
    "model.dim=32",
    "model.ffn_dim=32",
    "model.encoder_layers=1",
    "model.decoder_layers=2",
)


def demo_lines(part: str, side: str, count: int) -> list[str]:
    """The first lines of a file of the embedded corpus."""
    with (DEMO / f"{part}.{side}").open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, count)]


@cache
def corpus(base: Path) -> Path:
    """A folder with train.{de,en}, 300 pairs, and valid.{de,en}, 40 pairs.

    Args:
        base: the temporary folder of all tests, `tmp_path_factory.getbasetemp()`.
    """
    folder = base / "tiny-corpus"
    folder.mkdir()
    for part, count in (("train", 300), ("valid", 40)):
        for side in ("de", "en"):
            text = "".join(f"{line}\n" for line in demo_lines(part, side, count))
            (folder / f"{part}.{side}").write_text(text, encoding="utf-8")
    return folder


def tiny_overrides(base: Path) -> list[str]:
    """The overrides of a tiny training for `python train.py`, in float32 on any machine."""
    folder = corpus(base)
    return [
        *("data=files", "data.source=de", "data.target=en", f"data.cache={folder / 'cache'}"),
        *(f"data.train={folder / 'train'}", f"data.valid={folder / 'valid'}"),
        *("data.vocab_size=400", "data.max_length=128", "data.max_tokens=512"),
        *("run_name=tiny", "trainer=cpu", "trainer.precision=32-true", "schedule.warmup=5"),
        "trainer.log_every_n_steps=1",
        *("decode.beam_size=3", "decode.length_ratio=0.5", "decode.length_extra=4"),
        *("validation.sentences=8", *TINY_MODEL),
    ]


def plan_of(folder: Path, *overrides: str) -> Plan:
    """The checked configuration of a command line."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=in_full(overrides))
    return check_config(plain_values(config), folder)


def prepared_for(plan: Plan, given: Tokenizers | None = None) -> Prepared:
    """The data that a run trains on."""
    return prepare(plan.data, plan.tokenizer, given, plan.link_files)


def train_tiny(base: Path, *overrides: str) -> Path:
    """Train in this process. Returns: the folder of the run."""
    folder = Path(mkdtemp(prefix="run-", dir=base))
    train_again(folder, *tiny_overrides(base), *overrides)
    return folder


def train_again(folder: Path, *overrides: str) -> None:
    """Train in this process, in a folder that may hold a run."""
    plan = plan_of(folder, *overrides)
    given = read_tokenizers(plan.tokenizer, plan.resume or plan.init.checkpoint)
    run = dry_run if plan.run.dry_run else train
    run(plan, prepared_for(plan, given))


@cache
def demo_run(base: Path) -> Path:
    """The run that the tests share: 150 updates, with a validation every 50."""
    return train_tiny(
        base, "trainer.max_steps=150", "trainer.val_check_interval=50", "optimizer.lr=1e-2"
    )


def train_command(base: Path, folder: Path, *overrides: str) -> list[str]:
    """The command line of a tiny training in separate processes."""
    script = str(CONF.parent / "train.py")
    return [sys.executable, script, *tiny_overrides(base), *overrides, f"hydra.run.dir={folder}"]


def metrics(folder: Path, name: str) -> list[float]:
    """All values of a column of metrics.csv, in order."""
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        return [float(row[name]) for row in csv.DictReader(file) if row[name]]


def weights(folder: Path, name: str = "last.ckpt") -> dict[str, torch.Tensor]:
    return checkpoint.read(folder / name).weights


@cache
def tokenizer() -> Tokenizer:
    """A tokenizer learnt from a few sentences of both languages."""
    lines = [line for side in ("de", "en") for line in demo_lines("train", side, 100)]
    return ByteLevelBPE(vocab_size=300).train(lines)


def save_model(path: Path, *overrides: str, **changes: Any) -> Seq2Seq:
    """Write a checkpoint of an untrained model, and return the model.

    Args:
        overrides: as on the command line.
        changes: entries of the checkpoint that replace the true ones.
    """
    pieces = tokenizer()
    config = plan_of(path, "run_name=tiny", *overrides).model
    model = build_model(config, pieces.size, pieces.size).eval()
    decode = {"name": "greedy", "length_ratio": 0.5, "length_extra": 3}
    data = {"source": "de", "target": "en", "max_length": 128}
    entry = checkpoint.make_entry({**config, "decode": decode, "data": data}, pieces, pieces)
    state = {f"{checkpoint.PREFIX}{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": state, checkpoint.ENTRY: {**entry, **changes}}, path)
    return model
