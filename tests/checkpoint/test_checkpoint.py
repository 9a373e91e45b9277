import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.tiny_runs import TINY_MODEL, demo_run, save_model, tokenizer

from seq2seq import __version__, checkpoint
from seq2seq.base.errors import CheckpointError
from seq2seq.checkpoint import FORMAT, INT8_FORMAT, folder
from seq2seq.checkpoint.folder import find_checkpoint


@pytest.fixture
def run(base: Path) -> Path:
    return demo_run(base)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint of a tiny model."""
    save_model(tmp_path / "tiny.ckpt", *TINY_MODEL)
    return tmp_path / "tiny.ckpt"


def test_checkpoints_of_a_run_load_without_running_code(run: Path) -> None:
    for name in ("best.ckpt", "last.ckpt"):
        torch.load(run / name, weights_only=True)


def test_a_checkpoint_records_format_version_and_configuration(run: Path) -> None:
    entry = torch.load(run / "best.ckpt", weights_only=True)["seq2seq"]
    assert entry["format"] == FORMAT and entry["version"] == __version__
    assert set(entry["config"]) == {
        *("model", "position", "attention", "decode", "data", "order", "update", "guided"),
        *("monitor", "mode", "sharpest_layer"),
    }
    assert set(entry["tokenizer"]) == {"source", "target"}


def test_the_description_holds_only_plain_values(run: Path) -> None:
    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(type(key) is str and plain(item) for key, item in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return value is None or type(value) in (bool, int, float, str)

    assert plain(torch.load(run / "best.ckpt", weights_only=True)["seq2seq"])


@pytest.mark.parametrize(
    "overrides",
    [
        (*TINY_MODEL, "attn=gqa", "position=rope"),
        (*TINY_MODEL, "attn=fixed", "model.tie=none"),
        ("model=rnn", "model.dim=32", "model.cell=lstm", "model.layers=2"),
    ],
    ids=" ".join,
)
def test_a_model_read_from_a_file_computes_the_same(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    model = save_model(tmp_path / "any.ckpt", *overrides)
    again = checkpoint.read(tmp_path / "any.ckpt").build()
    source, target = torch.randint(4, tokenizer().size, (2, 3, 7))
    assert not again.training
    expected = model.embeddings.output(model(source, target).hidden)
    assert torch.equal(again.embeddings.output(again(source, target).hidden), expected)


def test_tokenizers_read_from_a_file_encode_as_the_saved_ones(path: Path) -> None:
    saved = checkpoint.read(path)
    texts = ["Ein Hund läuft.", " <s> 中文 ", ""]
    for side in (saved.source, saved.target):
        assert side.encode_batch(texts) == tokenizer().encode_batch(texts)


def test_a_folder_means_its_best_checkpoint_or_else_its_last(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").touch()
    assert find_checkpoint(tmp_path) == tmp_path / "last.ckpt"
    (tmp_path / "best.ckpt").touch()
    assert find_checkpoint(tmp_path) == tmp_path / "best.ckpt"
    assert find_checkpoint(tmp_path / "last.ckpt") == tmp_path / "last.ckpt"


def test_a_folder_of_runs_names_the_run_that_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "demo" / "first").mkdir(parents=True)
    (tmp_path / "demo" / "first" / "best.ckpt").touch()
    with pytest.raises(CheckpointError, match="did you mean .*demo/first/best.ckpt"):
        checkpoint.read(tmp_path)


class Foreign:
    """An object that cannot be loaded without running code."""


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def torch_bytes(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


NO_CHECKPOINTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is not a checkpoint"),
    "text": (lambda: b"Ein Hund.\n" * 100, "is not a checkpoint"),
    "pickle": (lambda: pickle.dumps({"state_dict": {}}), "is not a checkpoint"),
    "first half": (lambda: cut(torch_bytes(torch.zeros(9999))), "only the first part of one"),
    "another archive": (lambda: archive(letter=b"Dear Ada"), "damaged"),
    "objects": (lambda: torch_bytes({"model": Foreign()}), "more than numbers and text"),
    "weights alone": (lambda: torch_bytes({"weight": torch.ones(2)}), "not written by seq2seq"),
    "a tensor": (lambda: torch_bytes(torch.ones(2)), "not written by seq2seq"),
}


@pytest.mark.parametrize("kind", NO_CHECKPOINTS)
def test_a_file_that_is_not_a_checkpoint_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    make, words = NO_CHECKPOINTS[kind]
    path = tmp_path / "other.ckpt"
    path.write_bytes(make())
    with pytest.raises(CheckpointError, match=words) as raised:
        checkpoint.read(path)
    assert str(path) in str(raised.value)


def test_a_path_without_a_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds neither best.ckpt nor last.ckpt"):
        checkpoint.read(tmp_path)
    with pytest.raises(CheckpointError, match="there is no .*nowhere: give a .ckpt file"):
        checkpoint.read(tmp_path / "nowhere")


def test_a_file_of_a_later_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "later.ckpt"
    save_model(path, *TINY_MODEL, format=INT8_FORMAT + 1, version="9.8.7")
    words = rf"by seq2seq 9\.8\.7 in format {INT8_FORMAT + 1}.* up to format {INT8_FORMAT}"
    with pytest.raises(CheckpointError, match=words):
        checkpoint.read(path)


def test_damage_to_any_byte_of_the_description_gives_one_message(path: Path) -> None:
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        (name,) = (name for name in file.namelist() if name.endswith("data.pkl"))
        description = file.read(name)
    start = whole.index(description)
    refused = 0
    for position in range(start, start + len(description), len(description) // 250):
        changed = bytearray(whole)
        changed[position] ^= 0x41
        path.write_bytes(changed)
        try:
            checkpoint.read(path)
        except CheckpointError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 100  # other bytes give a valid file with other pieces or numbers


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "1"},
        {"version": None},
        {"config": []},
        {"config": {"model": {}}},
        {"config": {"model": "rnn", "position": {}, "attention": {}, "decode": {}, "data": {}}},
        {"tokenizer": "{}"},
        {"tokenizer": {"source": "{}"}},
        {"tokenizer": {"source": "{}", "target": "{}"}},
    ],
    ids=str,
)
def test_a_description_with_wrong_parts_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "damaged.ckpt"
    save_model(path, *TINY_MODEL, **changes)
    with pytest.raises(CheckpointError, match="damaged.ckpt is damaged"):
        checkpoint.read(path)


@pytest.mark.parametrize("state", [None, [], {"model.weight": 1}, {1: torch.ones(2)}], ids=str)
def test_a_file_without_weights_is_refused(path: Path, state: Any) -> None:
    content = torch.load(path, weights_only=True)
    torch.save({**content, "state_dict": state}, path)
    with pytest.raises(CheckpointError, match="holds no named weights"):
        checkpoint.read(path)


def test_only_part_of_a_large_tree_is_searched_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path such as `/` must not start a walk over all disks, and folders may vanish meanwhile."""
    monkeypatch.setattr(folder, "MAX_ENTRIES", 10)
    for run in range(20):
        (tmp_path / f"{run:02}" / "deep").mkdir(parents=True)
        (tmp_path / f"{run:02}" / "deep" / "best.ckpt").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    looked = []
    scandir = os.scandir

    def vanishing(folder: Path) -> Any:
        looked.append(folder)
        if len(looked) == 2:
            raise FileNotFoundError(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", vanishing)
    with pytest.raises(CheckpointError, match=r"holds neither best\.ckpt nor last\.ckpt$"):
        find_checkpoint(tmp_path)
    looked.clear()
    monkeypatch.setattr(folder, "MAX_ENTRIES", 100)
    with pytest.raises(CheckpointError, match=r"did you mean .*deep/best\.ckpt"):
        find_checkpoint(tmp_path)


def test_weights_that_do_not_fit_their_checksum_are_not_loaded(path: Path) -> None:
    """Torch itself loads a weight with a flipped bit silently."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda each: each.file_size)
    # The bytes of an entry follow its header of 30 bytes, its name and its extra field.
    name, extra = (
        int.from_bytes(content[entry.header_offset + at : entry.header_offset + at + 2], "little")
        for at in (26, 28)
    )
    content[entry.header_offset + 30 + name + extra + 1] ^= 1
    path.write_bytes(content)
    torch.load(path, weights_only=True)
    with pytest.raises(CheckpointError, match="tiny.ckpt is damaged.*checksum.*copy it again"):
        checkpoint.read(path)


def test_the_verified_content_is_loaded_even_if_the_file_is_replaced_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.parent / "other"
    expected = checkpoint.read(path)
    verify = zipfile.ZipFile.testzip

    def verify_and_replace(archive: zipfile.ZipFile) -> str | None:
        other.write_bytes(b"not verified")
        other.replace(path)
        return verify(archive)

    monkeypatch.setattr(zipfile.ZipFile, "testzip", verify_and_replace)
    again = checkpoint.read(path).weights
    assert all(torch.equal(again[name], value) for name, value in expected.weights.items())


def test_parameters_share_the_memory_of_the_file_and_draw_no_random_numbers(run: Path) -> None:
    saved = checkpoint.read(run)
    before = torch.get_rng_state()
    model = saved.build()
    assert torch.equal(torch.get_rng_state(), before)
    places = {name: value.data_ptr() for name, value in saved.weights.items()}
    names = dict(model.named_parameters(remove_duplicate=False))
    assert all(parameter.data_ptr() == places[name] for name, parameter in names.items())
    assert model.embeddings.output.weight is model.embeddings.target.weight  # tied, as in training


def test_weights_stay_as_they_were_read_when_the_file_is_overwritten(path: Path) -> None:
    saved = checkpoint.read(path)
    before = {name: value.clone() for name, value in saved.weights.items()}
    path.write_bytes(bytes(path.stat().st_size))
    assert all(torch.equal(saved.weights[name], value) for name, value in before.items())


def test_weights_of_other_types_and_compressed_weights_are_read(path: Path) -> None:
    other = path.parent / "other.ckpt"
    content = torch.load(path, weights_only=True)
    state = {name: value.double() for name, value in content["state_dict"].items()}
    torch.save({**content, "state_dict": state}, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    for file in (path, other):
        weights = checkpoint.read(file).build().state_dict()
        for name, value in state.items():
            found = weights[name.removeprefix(checkpoint.PREFIX)]
            assert found.dtype == torch.float32
            assert torch.equal(found, value.float())


def test_a_small_file_that_would_fill_the_memory_is_refused(path: Path) -> None:
    other = path.parent / "zeros.ckpt"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        new.writestr(f"{name.partition('/')[0]}/more", bytes(20_000_000))
    assert other.stat().st_size < 1_000_000
    with pytest.raises(CheckpointError, match=r"zeros\.ckpt is damaged: .* bytes would become 20,"):
        checkpoint.read(other)


def test_a_file_that_repeats_its_parts_is_refused(path: Path) -> None:
    """Otherwise a small file could fill the memory: here each tensor also claims the next one."""
    other = path.parent / "repeated.ckpt"
    state = {str(n): torch.full((1000,), float(n)) for n in range(3)}
    torch.save({**torch.load(path, weights_only=True), "state_dict": state}, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry.filename, content[:8] if len(content) == 4000 else content)
        new.writestr(f"{entry.filename.partition('/')[0]}/padding", bytes(8000))
    with pytest.raises(CheckpointError, match="overlap in the file"):
        checkpoint.read(other)


DAMAGED = [
    *(f"config.{node}" for node in ("model", "position", "attention", "decode", "data")),
    *("config.attention.cross", "config.attention.cross.name", "config.decode.name"),
    *("config.model.name", "config.position.name", "config.model.dim"),
    "config.data.max_length",
    *("tokenizer.source", "config.order", "config.update"),
]


@pytest.mark.parametrize("wrong", [None, -3, [1]], ids=str)
@pytest.mark.parametrize("name", DAMAGED)
def test_a_missing_or_mistyped_entry_is_called_damage(
    run: Path, monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any
) -> None:
    """The entry is removed, or replaced by a value of another type."""
    content = torch.load(run / "last.ckpt", weights_only=True)
    *above, last = name.split(".")
    node = content["seq2seq"]
    for key in above:
        node = node[key]
    node.pop(last)
    if wrong is not None:
        node[last] = wrong
    elif name in ("config.order", "config.update"):
        return  # older ones lack them
    monkeypatch.setattr(checkpoint, "load_archive", lambda file: content)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.read(run / "last.ckpt").build()


@pytest.mark.parametrize("role", ["encoder", "name"])
def test_a_name_in_place_of_a_mechanism_is_called_by_its_key(
    run: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    content = torch.load(run / "last.ckpt", weights_only=True)
    content["seq2seq"]["config"]["attention"][role] = "multihead"
    monkeypatch.setattr(checkpoint, "load_archive", lambda file: content)
    with pytest.raises(CheckpointError, match=rf"damaged: attention\.{role} should be"):
        checkpoint.read(run / "last.ckpt").build()


HUGE = [
    ("model.dim", 10**6, TINY_MODEL),
    ("model.dim", 10**9, TINY_MODEL),  # more than a machine has
    ("model.ffn_dim", 10**7, TINY_MODEL),
    ("model.encoder_layers", 10**6, TINY_MODEL),
    ("model.decoder_layers", 10**9, TINY_MODEL),
    ("model.layers", 10**6, ("model=rnn", "model.dim=32")),
    ("position.num_buckets", 10**7, (*TINY_MODEL, "position=t5", "position.max_distance=10000000")),
    ("position.length", 10**7, (*TINY_MODEL, "position=learned")),
    ("attention.encoder.latent_dim", 10**7, (*TINY_MODEL, "attn=mla")),
    ("attention.encoder.num_features", 10**7, (*TINY_MODEL, "attn=performer")),
    ("attention.encoder.rounds", 10**6, (*TINY_MODEL, "attn=reformer")),
    ("attention.encoder.length", 10**7, (*TINY_MODEL, "attn=linformer")),
]


@pytest.mark.parametrize(("name", "value", "overrides"), HUGE, ids=[f"{n}={v}" for n, v, _ in HUGE])
def test_a_description_larger_than_the_weights_is_refused_before_memory_is_taken(
    tmp_path: Path, name: str, value: int, overrides: tuple[str, ...]
) -> None:
    save_model(tmp_path / "any.ckpt", *overrides)
    saved = checkpoint.read(tmp_path / "any.ckpt")
    *above, last = name.split(".")
    node = saved.config
    for key in above:
        node = node[key]
    assert last in node
    node[last] = value
    with pytest.raises(CheckpointError, match="a larger model than the file has weights for"):
        saved.build()


def test_repeated_elements_of_a_tensor_do_not_count_as_weights(path: Path) -> None:
    """A file of a few bytes can hold a tensor of any shape."""
    saved = checkpoint.read(path)
    saved.config["model"]["ffn_dim"] = 10**7
    for name, value in saved.weights.items():
        if "feed.up" in name:
            saved.weights[name] = value[:1].expand(10**7, *value.shape[1:])
        if "feed.down.weight" in name:
            saved.weights[name] = value[:, :1].expand(-1, 10**7)
    with pytest.raises(CheckpointError, match="a larger model than the file has weights for"):
        saved.build()


def test_weights_of_another_shape_than_described_are_refused(path: Path) -> None:
    saved = checkpoint.read(path)
    saved.config["model"]["ffn_dim"] += 1
    with pytest.raises(CheckpointError, match="the weights do not fit the model"):
        saved.build()
