"""`seq2seq quantize`: the same model with matrices of a quarter of the size, and files that are
none.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from helpers.commands import Command, refused
from helpers.tiny_runs import TINY_MODEL, save_model
from torch import nn

from seq2seq import checkpoint
from seq2seq.base.errors import CheckpointError, DataError
from seq2seq.checkpoint.folder import load_archive, save_archive
from seq2seq.checkpoint.quantize import quantize_checkpoint
from seq2seq.decoding.calibration import input_maxima
from seq2seq.decoding.precision import with_precision
from seq2seq.functional.int8 import quantize_matrix
from seq2seq.models.layers.input_scale import input_scale_of

MODELS = [
    TINY_MODEL,
    (*TINY_MODEL, "model.tie=none", "attn=performer", "position=learned"),
    ("model=rnn", "model.dim=32", "model.cell=lstm"),
]


def quantize_model(folder: Path, *overrides: str) -> tuple[Path, Path]:
    """Files of an untrained model and of the same in 8 bits."""
    save_model(folder / "a.ckpt", *overrides)
    quantize_checkpoint(folder / "a.ckpt", folder / "b.ckpt")
    return folder / "a.ckpt", folder / "b.ckpt"


@pytest.mark.parametrize("overrides", MODELS, ids=" ".join)
def test_matrices_move_by_half_a_step_and_nothing_else_moves(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    before, after = (checkpoint.read(file).build() for file in quantize_model(tmp_path, *overrides))
    of_after = dict(after.named_parameters())  # tied ones once: they are still tied
    assert of_after.keys() == dict(before.named_parameters()).keys()
    for name, x in before.named_parameters():
        error = (x - of_after[name]).abs()
        step = x.abs().amax(-1, keepdim=True) / 127 if x.dim() > 1 else torch.zeros(1)
        assert (error <= step * 0.5001).all(), name
    buffers = dict(after.named_buffers())
    assert all(torch.equal(x, buffers[name]) for name, x in before.named_buffers())


@pytest.mark.parametrize("overrides", MODELS, ids=" ".join)
def test_rounding_twice_gives_the_same_bits_as_rounding_once(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    _, once = quantize_model(tmp_path, *overrides)
    quantize_checkpoint(once, tmp_path / "c.ckpt")
    assert (tmp_path / "c.ckpt").read_bytes() == once.read_bytes()


def test_the_file_is_compressed(tmp_path: Path) -> None:
    _, file = quantize_model(tmp_path, *TINY_MODEL)
    with ZipFile(file) as archive:
        assert file.stat().st_size < 0.9 * sum(each.file_size for each in archive.infolist())


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-29, 1e-3, 1.0, 1e30])
def test_integers_times_scales_round_to_the_same_integers_and_scales(size: float) -> None:
    integers, scale = quantize_matrix(torch.randn(400, 90) * size)
    again = quantize_matrix(integers * scale)
    assert torch.equal(again[0], integers) and torch.equal(again[1], scale)


def test_int8_computes_with_the_integers_of_the_file(tmp_path: Path) -> None:
    """They are those that it finds in the model of floating-point numbers, too."""
    before, after = quantize_model(tmp_path, *TINY_MODEL)
    state = load_archive(after)["state_dict"]
    for file in (before, after):
        for name, layer in checkpoint.read(file).build().named_modules():
            if isinstance(layer, torch.nn.Linear):
                stored = state[f"{checkpoint.PREFIX}{name}.weight"]
                assert torch.equal(quantize_matrix(layer.weight)[0], stored), name


@pytest.mark.parametrize("overrides", [("model=transformer",), ("model=rnn",)], ids=str)
def test_the_file_is_at_most_three_tenths_of_float32(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    before, after = quantize_model(tmp_path, *overrides, "model.dim=256")
    assert after.stat().st_size <= 0.3 * before.stat().st_size


def test_numbers_that_are_not_finite_are_not_rounded(tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    content = torch.load(tmp_path / "a.ckpt", weights_only=True)
    content["state_dict"]["model.decoder.1.feed.up.weight"][3, 4] = torch.inf
    torch.save(content, tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match=r"decoder\.1\.feed\.up\.weight cannot be rounded"):
        quantize_checkpoint(tmp_path / "a.ckpt", tmp_path / "b.ckpt")
    assert not (tmp_path / "b.ckpt").exists()


NAME = "encoder.0.feed.up.weight"  # (32, 32)
EDITS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "no scale": lambda _, scales: scales.pop(NAME),
    "too few scales": lambda _, scales: scales.update({NAME: scales[NAME][1:]}),
    "scales as a matrix": lambda _, scales: scales.update({NAME: scales[NAME][:, None]}),
    "an infinite scale": lambda _, scales: scales[NAME].fill_(torch.inf),
    "a scale that is none": lambda _, scales: scales[NAME].fill_(torch.nan),
    "scales of zero": lambda _, scales: scales[NAME].zero_(),
    "scales below zero": lambda _, scales: scales[NAME].neg_(),
    "scales as integers": lambda _, scales: scales.update({NAME: scales[NAME].int() + 1}),
    "scales as a list": lambda _, scales: scales.update({NAME: [1.0] * 32}),
    "scales of nothing": lambda _, scales: scales.update(other=torch.ones(32)),
    "scales of float32": lambda state, _: state.update({f"model.{NAME}": torch.ones(32, 32)}),
    "a vector in 8 bits": lambda state, scales: (
        state.update({"model.decoder_norm.bias": torch.ones(32, dtype=torch.int8)}),
        scales.update({"decoder_norm.bias": torch.ones(32)}),
    ),
    "a row that repeats": lambda state, _: state.update(
        {f"model.{NAME}": torch.ones(32, 1, dtype=torch.int8).expand(32, 32)}
    ),
    "a view of others": lambda state, _: state.update(
        {f"model.{NAME}": torch.ones(32, 64, dtype=torch.int8)[:, 32:]}
    ),
    "tied in another shape": lambda state, scales: (
        state.update({f"model.{NAME}": state["model.decoder.0.feed.up.weight"].view(16, 64)}),
        scales.update({NAME: scales[NAME][:16].clone()}),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_integers_and_scales_that_do_not_match_count_as_damage(tmp_path: Path, edit: str) -> None:
    _, file = quantize_model(tmp_path, *TINY_MODEL)
    content = torch.load(file, weights_only=True)
    EDITS[edit](content["state_dict"], content["seq2seq"]["row_scales"])
    save_archive(content, file)
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.read(file)


@pytest.mark.parametrize("wrong", [None, 3, [1], {"model": 1}], ids=str)
def test_scales_that_are_not_tensors_count_as_damage(tmp_path: Path, wrong: Any) -> None:
    _, file = quantize_model(tmp_path, *TINY_MODEL)
    content = torch.load(file, weights_only=True)
    content["seq2seq"]["row_scales"] = wrong
    save_archive(content, file)
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.read(file)


@pytest.mark.parametrize(
    "wrong",
    [None, 3, [1.0], {NAME: "1"}, {1: 1.0}, *({NAME: x} for x in (0.0, -1.0, 1, torch.nan))],
    ids=str,
)
def test_invalid_scales_of_inputs_count_as_damage(tmp_path: Path, wrong: Any) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, input_scales=wrong)
    with pytest.raises(CheckpointError, match="is damaged: its input scales"):
        checkpoint.read(tmp_path / "a.ckpt")


@pytest.mark.parametrize("name", ["encoder.9.feed.up", "encoder.0", "embeddings.source", ""])
def test_scales_of_unknown_layers_count_as_damage(tmp_path: Path, name: str) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, input_scales={name: 0.1})
    with pytest.raises(CheckpointError, match=f"it has a scale for '{name}'"):
        checkpoint.read(tmp_path / "a.ckpt").build()


@pytest.mark.parametrize("overrides", [TINY_MODEL, MODELS[-1]], ids=" ".join)
def test_no_input_of_the_calibration_text_exceeds_its_scale(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    file, output = tmp_path / "a.ckpt", tmp_path / "b.ckpt"
    model = save_model(file, *overrides)
    quantize_checkpoint(file, output, ["Ein Hund.", "", "Hund " * 999])
    saved = checkpoint.read(output)
    maxima = input_maxima(model, saved.source.encode_batch(["Ein Hund."]))
    assert saved.input_scales == {name: x / 127 for name, x in maxima.items() if x}
    layers = dict(saved.build().named_modules())
    assert {name: input_scale_of(layers[name]) for name in saved.input_scales} == pytest.approx(
        saved.input_scales, rel=1e-6
    )


def test_scales_of_inputs_are_kept_if_a_file_is_rounded_again(tmp_path: Path) -> None:
    file, output = quantize_model(tmp_path, *TINY_MODEL)
    quantize_checkpoint(file, output, ["Ein Hund."])
    quantize_checkpoint(output, tmp_path / "c.ckpt")
    assert (tmp_path / "c.ckpt").read_bytes() == output.read_bytes()


@pytest.mark.parametrize("texts", [[], [""], ["Hund " * 999]], ids=["none", "blank", "too long"])
def test_without_a_sentence_nothing_is_calibrated(tmp_path: Path, texts: list[str]) -> None:
    file, output = quantize_model(tmp_path, *TINY_MODEL)
    with pytest.raises(DataError, match="no sentence to calibrate with"):
        quantize_checkpoint(file, output, texts)


def test_a_quantized_model_translates(seq2seq: Command, tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    (tmp_path / "a.de").write_text("Ein Hund.\n")
    ended = seq2seq("quantize", tmp_path / "a.ckpt", "--calibrate", tmp_path / "a.de")
    assert ended.code == 0 and ended.lines[0].startswith(f"{tmp_path / 'int8.ckpt'}: 0.")
    for precision in ("float32", "int8"):
        options = "--precision", precision, "--workers", 1
        ended = seq2seq("translate", tmp_path / "int8.ckpt", "Ein Hund.", *options)
        assert ended.code == 0 and len(ended.lines) == 1


def test_a_quantized_model_never_overwrites_its_source(seq2seq: Command, tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    ended = seq2seq("quantize", tmp_path / "a.ckpt", "-o", tmp_path / "a.ckpt")
    assert "which is read: give another name" in refused(ended)


def test_a_file_in_8_bits_and_int8_of_the_original_differ_in_embeddings_alone(
    tmp_path: Path,
) -> None:
    """What docs/speed.md says of the two."""
    paths = quantize_model(tmp_path, *TINY_MODEL, "model.tie=none")
    original, rounded = (checkpoint.read(path).build() for path in paths)
    exact_by_name = original.embeddings.state_dict()
    both = [with_precision(model, "int8").embeddings.state_dict() for model in (original, rounded)]
    assert both[0]
    for name, kept in both[0].items():  # all but the output matrix, which is a linear map
        exact = exact_by_name[name]
        assert torch.equal(kept, exact)
        integers, scale = quantize_matrix(exact)
        assert torch.equal(both[1][name], integers * scale) and not exact.equal(both[1][name])
    for one, two in zip(original.modules(), rounded.modules(), strict=True):
        if type(one) is nn.Linear:
            of_one, of_two = quantize_matrix(one.weight), quantize_matrix(two.weight)
            assert all(map(torch.equal, of_one, of_two))
