"""Malicious and broken files end in one message, soon, with no code run and little memory used."""

import io
import json
import pickle
import random
import resource
import shutil
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.interchange_models import marian_folder
from helpers.marian import DESCRIPTION, PIECES, Marian
from helpers.piece_models import model_bytes

from seq2seq import checkpoint
from seq2seq.base.errors import Seq2SeqError
from seq2seq.cli import importing
from seq2seq.cli.main import parse_arguments
from seq2seq.interchange.huggingface import ABSENT

pytest.importorskip("transformers", reason="pip install transformers")
pytest.importorskip("safetensors", reason="pip install safetensors")

FOLLOWED: list[str] = []
SECONDS, BYTES = 20, 2**30  # far more than it takes, far less than what is announced


class Payload:
    """An object that leaves a trace when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return FOLLOWED.append, ("executed",)


def refused(path: Path, *more: object) -> str:
    """The error message of an import, which runs no code and takes little time and memory."""
    words = ["import", path, "-o", path.parent / "never-written", *more]
    arguments = parse_arguments([str(word) for word in words])
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(Seq2SeqError) as caught:
        importing.run(arguments)
    assert time.monotonic() - began < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < BYTES / 1024
    assert not FOLLOWED and not (path.parent / "never-written").exists()
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("healthy")
    marian_folder(path)
    return path


@pytest.fixture
def folder(healthy: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(healthy, tmp_path / "hf"))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def as_bin(folder: Path, content: Any, **options: Any) -> None:
    (folder / "model.safetensors").unlink(missing_ok=True)
    torch.save(content, folder / "pytorch_model.bin", **options)


def state_of(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_of_torch_are_read_in_both_formats(folder: Path, zipped: bool) -> None:
    as_bin(folder, state_of(folder), _use_new_zipfile_serialization=zipped)
    words = ["import", folder, "-o", folder.parent / "run"]
    importing.run(parse_arguments([str(word) for word in words]))
    assert checkpoint.read(folder.parent / "run").build()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_payload_is_not_executed(folder: Path, zipped: bool) -> None:
    as_bin(folder, {"a": Payload()}, _use_new_zipfile_serialization=zipped)
    assert "such as code, which is never run" in refused(folder)


def test_a_plain_pickle_is_not_executed(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))
    assert "pytorch_model.bin" in refused(folder)


def test_a_tensor_that_repeats_one_number_is_refused(folder: Path) -> None:
    as_bin(folder, {"model.shared.weight": torch.zeros(1).expand(10**6, 10**6)})
    assert "each stored in full" in refused(folder)


def test_an_old_file_that_announces_more_than_it_holds_is_refused(folder: Path) -> None:
    as_bin(folder, {"a": torch.zeros(7)}, _use_new_zipfile_serialization=False)
    path = folder / "pytorch_model.bin"
    content, small = path.read_bytes(), b"K\x07"  # an integer of one byte
    large = b"\x8a\x06" + (10**12).to_bytes(6, "little")
    assert small in content
    path.write_bytes(content.replace(small, large))
    assert "claims to have 1,000,000,000,000 elements" in refused(folder)


def bomb(path: Path, name: str, count: int = 2**26) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as f:
        for _ in range(count // 2**20):
            f.write(bytes(2**20))


def test_a_zip_bomb_is_not_unpacked(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    bomb(folder / "pytorch_model.bin", "archive/data.pkl")
    assert "not a file of weights" in refused(folder)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2**40) + b"{}",
        struct.pack("<Q", 70)
        + b'{"a":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4]}}\n\n'
        + bytes(4),
    ],
)
def test_a_damaged_safetensors_file_is_refused(folder: Path, header: bytes) -> None:
    (folder / "model.safetensors").write_bytes(header)
    assert "model.safetensors" in refused(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "t5"}, "model_type='t5' should be 'marian'"),
        ({"d_model": 10**12}, "d_model=1000000000000"),
        ({"d_model": "32"}, "d_model='32'"),
        ({"d_model": True}, "d_model=True"),
        ({"encoder_layers": 10**9}, "encoder_layers"),
        ({"encoder_layers": 100}, "lack model.encoder.layers.2"),
        ({"encoder_ffn_dim": 2**20, "decoder_ffn_dim": 2**20}, "fc1"),
        ({"encoder_ffn_dim": 7}, "differ"),
        ({"encoder_attention_heads": 5}, "num_heads=5"),
        ({"activation_function": "gelu_new"}, "'gelu_new'"),
        ({"activation_function": ["swish"]}, "activation_function"),
        *(({name: True}, f"{name}=True is not supported") for name in ABSENT),
        ({"decoder_start_token_id": 5}, "decoder_start_token_id=5"),
        ({"dropout": "x"}, "dropout"),
        ({"dropout": 7}, "dropout=7"),
        ({"_target_": "os.system", "auto_map": {"AutoModel": "x.Y"}, "d_model": 31}, "num_heads"),
    ],
)
def test_a_wrong_description_is_refused_by_name(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    edit(folder / "config.json", **changes)
    assert words in refused(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", b"[" * 10**6, "config.json is not JSON"),
        ("config.json", b"[1]", "should hold a JSON object"),
        ("config.json", b"\xff", "config.json is not JSON"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 5}', "number its pieces 0, 1, 2"),
        ("vocab.json", b'{"</s>": 0, "<unk>": true}', "number its pieces 0, 1, 2"),
        ("vocab.json", b'{"\\ud800": 0, "</s>": 1}', "vocab.json is not JSON"),
        ("vocab.json", b'{"a": 0}', "no </s> and no <unk>"),
        ("source.spm", b"\x00", "source.spm is not a SentencePiece model"),
        ("target.spm", b"", "target.spm is not a SentencePiece model"),
        ("generation_config.json", b'{"num_beams": 1e9}', "num_beams"),
        ("generation_config.json", b'{"length_penalty": []}', "length_penalty=a list"),
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, content: bytes, words: str) -> None:
    (folder / name).write_bytes(content)
    message = refused(folder)
    assert words in message and len(message) < 1000


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_missing_file_or_a_link_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    assert name.partition(".")[0] in refused(folder)
    (folder / name).symlink_to(folder.parent / "elsewhere")
    assert "is a link to another folder" in refused(folder)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    state = state_of(folder)
    name = "model.encoder.layers.0.fc1.weight"
    for wrong in (state[name].T, state[name].to(torch.int64)):
        as_bin(folder, {**state, name: wrong.clone()})
        assert f"{name} is" in refused(folder)
    lacking = {key: value for key, value in state.items() if key != name}
    as_bin(folder, lacking)
    assert f"lack {name}" in refused(folder)


def test_damage_anywhere_in_a_folder_gives_a_message_or_a_run(folder: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    files = ["config.json", "vocab.json", "source.spm", "model.safetensors"]
    for step in range(16):
        path = folder / files[step % len(files)]
        whole = path.read_bytes()
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(3):
            if damaged:
                damaged[chance.randrange(min(len(damaged), 3000))] = chance.randrange(256)
        path.write_bytes(damaged)
        arguments = parse_arguments(["import", str(folder), "-o", str(tmp_path / f"run{step}")])
        try:
            importing.run(arguments)
        except Seq2SeqError as error:
            assert str(error)
        path.write_bytes(whole)


# Archives of Marian.


def archive(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> tuple[Path, Path]:
    marian = Marian()
    path = marian.write(folder)
    arrays = dict(np.load(path))
    change(arrays)
    np.savez(path, **arrays)
    return path, folder / "vocab.spm"


def described(text: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[DESCRIPTION] = np.frombuffer(text.encode() + b"\0", np.int8)

    return change


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('!!python/object/apply:os.system ["true"]', "is not plain YAML"),
        ("!!python/name:os.system", "is not plain YAML"),
        ("a: &a [x]\nb: *c", "is not plain YAML"),
        ("[" * 500, "is not plain YAML"),
        ("a: 1\n" * 2**15, "is missing, or too large"),
        ("just text", "should hold options"),
        ("type: s2s", "type='s2s'"),
        ("dim-emb: .inf", "dim-emb"),
    ],
)
def test_a_description_with_yaml_tags_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path, vocabulary = archive(tmp_path, described(text))
    assert words in refused(path, "--vocab", vocabulary)


def test_references_to_references_take_no_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path, vocabulary = archive(tmp_path, described("\n".join([*lines, "type: *a11"])))
    assert len(refused(path, "--vocab", vocabulary)) < 10_000


def test_objects_in_an_archive_are_not_unpickled(tmp_path: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["Wemb"] = np.array([Payload()], dtype=object)

    path, vocabulary = archive(tmp_path, change)
    assert "is not an archive of arrays" in refused(path, "--vocab", vocabulary)


def test_an_array_that_announces_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    path, vocabulary = archive(tmp_path, lambda arrays: None)
    with zipfile.ZipFile(path) as before:
        entries = {name: before.read(name) for name in before.namelist()}
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(file, header)
    entries["Wemb.npy"] = file.getvalue() + bytes(64)
    with zipfile.ZipFile(path, "w") as after:
        for name, content in entries.items():
            after.writestr(name, content)
    assert "is not an archive of arrays" in refused(path, "--vocab", vocabulary)


def test_a_broken_archive_or_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    path, vocabulary = tmp_path / "model.npz", tmp_path / "vocab.spm"
    vocabulary.write_bytes(model_bytes(PIECES))
    for content in (b"", b"PK\x03\x04", b"\x93NUMPY" * 9):
        path.write_bytes(content)
        assert "is not an archive of arrays" in refused(path, "--vocab", vocabulary)
    bomb(path, "Wemb.npy")
    assert "not a file of weights" in refused(path, "--vocab", vocabulary)
    path, _ = archive(tmp_path, lambda arrays: None)
    path.write_bytes(path.read_bytes()[:-100])
    assert "is not an archive of arrays" in refused(path, "--vocab", vocabulary)


def test_a_checkpoint_imports_nothing_that_it_names(folder: Path, tmp_path: Path) -> None:
    arguments = parse_arguments(["import", str(folder), "-o", str(tmp_path / "run")])
    importing.run(arguments)
    content = torch.load(tmp_path / "run" / "best.ckpt", weights_only=True)
    for node, part in (("model", None), ("position", None), ("attention", "cross")):
        broken = json.loads(json.dumps(content[checkpoint.ENTRY]["config"]))
        (broken[node][part] if part else broken[node])["name"] = "this.module"
        changed = {**content[checkpoint.ENTRY], "config": broken}
        torch.save({**content, checkpoint.ENTRY: changed}, tmp_path / "x.ckpt")
        with pytest.raises(Seq2SeqError, match="this.module"):
            checkpoint.read(tmp_path / "x.ckpt").build()
