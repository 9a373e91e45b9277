"""Folders of Hugging Face, compared with transformers: the same logits and translations."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.interchange_models import marian_folder, texts_of

from seq2seq.base.errors import DataError
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.data.batches.padding import pad_rows
from seq2seq.functional.positions import sinusoid
from seq2seq.interchange.agreement import search_as_theirs
from seq2seq.interchange.files import Folder
from seq2seq.interchange.huggingface import read_vocabularies
from seq2seq.interchange.huggingface_folder import read_folder
from seq2seq.interchange.imported import ImportedModel, build_side_tokenizer

pytest.importorskip("transformers", reason="pip install transformers")
pytest.importorskip("safetensors", reason="pip install safetensors")

NONE = (None, None)
STACKS = ("encoder", "decoder")
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"encoder_layers": 1, "decoder_layers": 3, "activation_function": "relu", "separate": True},
    {"scale_embedding": False, "activation_function": "gelu", "decoder_attention_heads": 2},
]
every_configuration = pytest.mark.parametrize("changes", CONFIGURATIONS, ids=str)
some_searches = pytest.mark.parametrize(
    ("changes", "beams"),
    [
        (CONFIGURATIONS[0], 5),
        (CONFIGURATIONS[1], 5),
        *(
            pytest.param(CONFIGURATIONS[i], beams, marks=pytest.mark.slow)
            for i, beams in ((0, 1), (1, 1), (2, 1), (2, 5))
        ),
    ],
    ids=str,
)


def their_ids(imported: ImportedModel) -> list[torch.Tensor]:
    """For each side, the id in transformers of each of our ids."""
    return [torch.tensor(each.ids) for each in imported.maps]


def sources(imported: ImportedModel, count: int) -> list[list[int]]:
    return imported.saved.source.encode_batch(texts_of(3, count))


@every_configuration
@torch.no_grad()
def test_states_and_logits_are_those_of_transformers(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    theirs = marian_folder(tmp_path / "hf", **changes)
    imported = read_folder(tmp_path / "hf", NONE)
    model, ids = imported.saved.build(), their_ids(imported)
    source = pad_rows([[*row, EOS] for row in sources(imported, 20)])
    target = torch.cat((torch.full((20, 1), BOS), torch.randint(4, len(ids[1]), (20, 12))), 1)
    mask = source != PAD
    out = theirs(ids[0][source], attention_mask=mask, decoder_input_ids=ids[1][target])
    states = model.encode(source).states
    torch.testing.assert_close(states[mask], out.encoder_last_hidden_state[mask], atol=1e-5, rtol=0)
    logits = model.logits(model(source, target).hidden)
    expected = out.logits[..., ids[1]]
    others = torch.arange(len(ids[1])) != BOS
    torch.testing.assert_close(logits[..., others], expected[..., others], atol=1e-5, rtol=1e-5)
    assert (logits[..., BOS] < -9000).all()


@some_searches
@torch.no_grad()
def test_hypotheses_are_those_of_transformers(
    changes: dict[str, Any], beams: int, tmp_path: Path
) -> None:
    theirs = marian_folder(tmp_path / "hf", **changes)
    imported = read_folder(tmp_path / "hf", NONE)
    model, ids = imported.saved.build(), their_ids(imported)
    rows, lengths = sources(imported, 200), set()
    source = pad_rows([[*row, EOS] for row in rows])
    never = [[int(ids[1][symbol])] for symbol in (PAD, UNK)]
    found = theirs.generate(
        ids[0][source],
        attention_mask=source != PAD,
        num_beams=beams,
        max_new_tokens=20,
        max_length=None,
        length_penalty=1.0,
        early_stopping=beams > 1,
        do_sample=False,
        bad_words_ids=never,
    )
    ours = search_as_theirs(model, rows, beams, 20)
    for row, mine in zip(found[:, 1:].tolist(), ours, strict=True):
        their = row[: row.index(0) + 1] if 0 in row else row
        assert their == ids[1][torch.tensor(mine, dtype=torch.int64)].tolist()
        lengths.add(len(mine))
    assert len(lengths) > 2


def rewritten(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file({n: x.contiguous() for n, x in tensors.items()}, folder / "model.safetensors")


def edited(folder: Path, name: str, **changes: Any) -> None:
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**content, **changes}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    marian_folder(tmp_path / "hf", encoder_layers=3, decoder_layers=2)
    return tmp_path / "hf"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encoder_layers": 2}, r"16 tensor.s. are not used.* model\.encoder\.layers\.2\."),
        ({"decoder_layers": 1}, r"26 tensor.s. are not used.* model\.decoder\.layers\.1\."),
        ({"share_encoder_decoder_embeddings": False}, r"lack model\.decoder\.embed_tokens\.weight"),
    ],
)
def test_tensors_that_a_description_leaves_out_are_named(
    change: dict[str, Any], words: str, folder: Path
) -> None:
    edited(folder, "config.json", **change)
    with pytest.raises(DataError, match=words):
        read_folder(folder, NONE)


def test_derived_tensors_are_compared_with_what_they_derive_from(folder: Path) -> None:
    usual = read_folder(folder, NONE)
    table = sinusoid(torch.arange(128), 32)
    derived = {f"model.{side}.embed_positions.weight": table.half() for side in STACKS}
    copies = ["lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in STACKS)]

    def add(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({**derived, **{n: tensors["model.shared.weight"].clone() for n in copies}})

    rewritten(folder, add)
    again = read_folder(folder, NONE)
    assert all(torch.equal(again.saved.weights[name], x) for name, x in usual.saved.weights.items())
    for name in [*derived, *copies]:
        rewritten(folder, lambda tensors, n=name: tensors[n][5, 3].add_(0.25))
        with pytest.raises(DataError, match=name):
            read_folder(folder, NONE)
        rewritten(folder, lambda tensors, n=name: tensors[n][5, 3].sub_(0.25))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(value: float, folder: Path) -> None:
    name = "model.decoder.layers.1.fc2.bias"
    rewritten(folder, lambda tensors: tensors[name][3].fill_(value))
    with pytest.raises(DataError, match=f"{name} has values that are not finite"):
        read_folder(folder, NONE)
    rewritten(
        folder, lambda tensors: tensors.update({name: torch.zeros(32), "extra": torch.ones(2)})
    )
    with pytest.raises(DataError, match="1 tensor.s. are not used, such as extra"):
        read_folder(folder, NONE)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("name", ["pad_token_id", "eos_token_id", "decoder_start_token_id"])
def test_symbols_with_two_ids_are_named(file: str, name: str, folder: Path) -> None:
    edited(folder, file, **{name: 7})
    with pytest.raises(DataError, match=rf"{file}: {name}=7 should be \d+, the id of <"):
        read_folder(folder, NONE)
    edited(folder, file, **{name: None})
    if name != "pad_token_id":
        assert read_folder(folder, NONE)


def test_an_index_that_lists_no_files_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(DataError, match="should hold the file of each tensor in a weight_map"):
        read_folder(folder, NONE)


def test_ids_are_those_of_the_tokenizer_of_transformers(folder: Path) -> None:
    pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    pytest.importorskip("sacremoses", reason="pip install sacremoses")  # else it warns
    from transformers import MarianTokenizer

    ids = json.loads((folder / "vocab.json").read_text())
    more = ["\u4e2d", "\u4e2d\u6587", "\u03b1", "\u00e9!", "\u2581\u4e2d"]  # not in source.spm
    del ids["<pad>"]
    ids = {name: i for i, name in enumerate([*ids, *more, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    files = {side: str(folder / f"{side}.spm") for side in ("source", "target")}
    theirs = MarianTokenizer(
        source_spm=files["source"], target_spm=files["target"], vocab=str(folder / "vocab.json")
    )
    source, _ = read_vocabularies(Folder(folder))
    rows = source._replace(start=ids["<pad>"]).map_rows()
    tokenizer, chance, found = build_side_tokenizer(source, rows), random.Random(1), set()
    letters = "abcdefgh" * 2 + "\u4e2d\u6587\u03b1\u00e9!z?"
    for _ in range(500):
        words = ("".join(chance.choices(letters, k=chance.randint(1, 4))) for _ in range(5))
        text = " ".join(words)
        [row] = tokenizer.encode_batch([text])
        mine = [rows.ids[i] for i in row]
        assert mine == theirs(text)["input_ids"][:-1], text
        found |= {*mine}
    assert {ids[name] for name in more[:4]} <= found
