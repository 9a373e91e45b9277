"""Runs with trainer.packed=true learn, save and resume as runs without it, and what they cannot do
is refused.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.compared_runs import TWENTY, assert_resumed_exactly
from helpers.tiny_runs import metrics, tiny_overrides, train_again, train_tiny
from helpers.train_options import complaint

from seq2seq.base.errors import ConfigError
from seq2seq.training.config.packing import check_packed_device

# Adam divides a gradient by its size: where the true one is zero, rounding would become a step.
COMPARED = ("model.dropout=0", "optimizer.eps=1e-3", "data.max_tokens=256")
PACKED = "trainer.packed=true"


def shape_of(content: Any) -> Any:
    """A checkpoint with the types of its numbers, and the shapes of its tensors."""
    if isinstance(content, torch.Tensor):
        return content.dtype, content.shape
    if isinstance(content, dict):
        return {key: shape_of(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [shape_of(value) for value in content]
    return type(content) if isinstance(content, float) else content


def last_of(folder: Path) -> Any:
    content = torch.load(folder / "last.ckpt", weights_only=True)
    names = "state_dict", "optimizer_states", "lr_schedulers", "loops", "global_step"
    return {name: content[name] for name in names}


def test_packed_and_padded_runs_learn_the_same_and_share_their_files(base: Path) -> None:
    """Each also resumes the other's last.ckpt."""
    typed = (*COMPARED, "trainer.accumulate_grad_batches=2", "checkpoint.ema=0.9")
    ways = ("trainer.packed=false", PACKED)
    padded, packed = (
        train_tiny(base, *typed, way, "trainer.max_steps=10", "trainer.val_check_interval=5")
        for way in ways
    )
    losses = metrics(padded, "train/loss")
    assert len(losses) == 10
    for folder, way in ((padded, PACKED), (packed, ways[0])):
        further = f"resume={folder / 'last.ckpt'}"
        mixed = train_tiny(base, *typed, way, "trainer.max_steps=15", further)
        losses += metrics(mixed, "train/loss")
    assert metrics(packed, "train/loss") == pytest.approx(losses[:10], abs=1e-4)
    assert losses[10:15] == pytest.approx(losses[15:], abs=1e-4)
    for name in ("valid/loss", "valid/bleu"):
        assert metrics(packed, name) == pytest.approx(metrics(padded, name), abs=1e-4)
    one, other = last_of(packed), last_of(padded)
    assert shape_of(one) == shape_of(other)
    assert (
        one["optimizer_states"][0]["param_groups"] == other["optimizer_states"][0]["param_groups"]
    )
    assert one["lr_schedulers"] == other["lr_schedulers"]


def test_an_interrupted_packed_run_ends_as_one_that_was_not(base: Path) -> None:
    typed = tuple(each for each in TWENTY if not each.startswith("attn.dropout"))
    more = ("trainer.accumulate_grad_batches=2", "checkpoint.ema=0.9")
    assert_resumed_exactly(base, *typed, *more, PACKED, stops=(7,), end=12)


def test_a_packed_run_can_be_tried(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tiny_overrides(base)
    train_again(base / "tried", *plan, PACKED, "trainer.max_steps=4", "dry_run=true")
    assert "speed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("loss.r_drop=5", "loss.r_drop=5"),
        ("loss.simcut=3", "loss.simcut=3"),
        ("guided.links=links.txt", "guided.links=links.txt"),
        ("model.unpositioned='<*>'", "model.unpositioned=<*>"),
        ("attn=hierarchical_context data.groups=words", "attention like Hierarchical"),
        ("model=rnn", "model=rnn"),
        ("position=alibi", "position=alibi"),
        ("position=t5", "position=t5"),
        ("attn=linear", "attention like Linear in the encoder self-attention"),
        ("attn=additive", "the score Additive in the cross-attention"),
        ("attn=gaussian", "the score Gaussian"),
        ("attn=flash", "kernel=flash in the decoder self-attention"),
        ("model.attention_dropout=0.1", "dropout=0.1 in the encoder self-attention"),
        ("trainer.precision=16-mixed", "trainer.precision=16-mixed"),
        ("trainer.precision=int8-aware", "trainer.precision=int8-aware"),
    ],
)
def test_what_packed_tokens_cannot_do_is_refused(typed: str, words: str) -> None:
    said = complaint(PACKED, *typed.split())
    assert "trainer.packed=true does not support" in said
    assert words in said
    assert "type trainer.packed=false" in said


def test_several_devices_are_refused(base: Path) -> None:
    with pytest.raises(ConfigError, match="does not support 2 devices: type trainer.devices=1"):
        train_tiny(base, PACKED, "trainer.devices=2", "trainer.strategy=ddp")


def test_a_gpu_needs_16_bits_and_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    with pytest.raises(ConfigError, match="type trainer.precision=bf16-mixed"):
        check_packed_device(1, gpu, "32-true")
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.9.1"))
    with pytest.raises(ConfigError, match=r"a GPU with torch 2.9.1: install torch 2.11 or later"):
        check_packed_device(1, gpu, "bf16-mixed")
    check_packed_device(1, torch.device("cpu"), "32-true")
