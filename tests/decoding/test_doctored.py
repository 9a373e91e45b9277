"""An edited checkpoint is refused, or translates in the native decoder as on torch; nothing beyond
the model's own memory is read.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.builders import source_batch
from helpers.native_code import needs_native
from helpers.tiny_runs import TINY_MODEL, save_model, tokenizer

from seq2seq import checkpoint
from seq2seq.base.errors import CheckpointError, DataError
from seq2seq.decoding.native.transformer import NativeTransformer
from seq2seq.decoding.precision import with_precision

PROGRAM = Path(__file__).with_name("doctored.py")

Edit = Callable[[dict[str, Any]], Any]
SIZE = tokenizer().size
LAST = next(name for name, i in tokenizer()._library.get_vocab().items() if i == SIZE - 1)
PADDING = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None}
EDITS: dict[str, Edit] = {
    "an id beyond the rows": lambda t: t["model"]["vocab"].update({LAST: 10**6}),
    "the id after the last": lambda t: t["model"]["vocab"].update({LAST: SIZE}),
    "an id twice": lambda t: t["model"]["vocab"].update({LAST: SIZE - 2}),
    "fewer pieces": lambda t: t["model"]["vocab"].pop(LAST),
    "more pieces": lambda t: t["model"]["vocab"].update({"more": SIZE}),
    "an added token": lambda t: t["added_tokens"].append(
        {**t["added_tokens"][0], "content": "Hund", "id": SIZE}
    ),
    "symbols elsewhere": lambda t: t["model"]["vocab"].update({"<s>": 7, LAST: 1}),
    "padding by another id": lambda t: t.update(
        padding={**PADDING, "pad_id": 10**6, "pad_type_id": 0, "pad_token": "q"}
    ),
}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("whole") / "any.ckpt"
    save_model(path, *TINY_MODEL, "attn=mha", "position=learned")
    return torch.load(path, weights_only=True)


@pytest.fixture
def model(content: Any, tmp_path: Path) -> NativeTransformer:
    torch.save(content, tmp_path / "any.ckpt")
    found = with_precision(checkpoint.read(tmp_path / "any.ckpt").build(), "float32")
    assert isinstance(found, NativeTransformer)
    return found


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("name", EDITS)
def test_a_tokenizer_that_the_model_has_no_rows_for_is_refused_by_name(
    name: str, side: str, content: Any, tmp_path: Path
) -> None:
    pieces = json.loads(tokenizer().to_json())
    if name == "fewer pieces":  # no merge may make the one that is left out
        pieces["model"]["merges"].pop()
    EDITS[name](pieces)
    entry = content[checkpoint.ENTRY]
    texts = {**entry["tokenizer"], side: json.dumps(pieces)}
    edited = {**content, checkpoint.ENTRY: {**entry, "tokenizer": texts}}
    torch.save(edited, tmp_path / "any.ckpt")
    with pytest.raises(CheckpointError, match=f"any.ckpt is damaged: (its|the) {side} tokenizer"):
        checkpoint.read(tmp_path / "any.ckpt")


@needs_native
@pytest.mark.parametrize("token", [-1, SIZE, 2**62])
def test_no_id_beyond_the_rows_reaches_the_native_decoder(
    token: int, model: NativeTransformer
) -> None:
    source = source_batch(4, 2)
    state = model.start(model.encode(source))
    with pytest.raises(DataError, match=f"an id of {token} "):
        model.step(torch.tensor([[5], [token]]), state)
    source[1, 0] = token
    with pytest.raises(DataError, match=f"an id of {token} "):
        model.encode(source)


@needs_native
def test_no_position_beyond_the_tables_reaches_the_native_decoder(model: NativeTransformer) -> None:
    assert model.max_length is not None
    memories = model.memories(model.encode(source_batch(4)), 1)
    for position in (-1, model.max_length):
        with pytest.raises(DataError, match=f"a position of {position} "):
            model.decode(torch.tensor([[5]]), memories, torch.tensor([position]))


def try_edits(first: int, count: int, **environment: str) -> None:
    folders = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run(
        [sys.executable, str(PROGRAM), str(first), str(count)],
        env={**os.environ, **folders, **environment},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-3000:]


@needs_native
def test_random_edits_end_in_a_message_or_the_result_of_torch() -> None:
    try_edits(0, 3)


@needs_native
@pytest.mark.slow
def test_many_random_edits_end_in_a_message_or_the_result_of_torch() -> None:
    try_edits(1000, 300)


@pytest.mark.sanitized
def test_random_edits_read_nothing_beyond_the_memory_of_torch(tmp_path: Path) -> None:
    """Run the native decoder under AddressSanitizer, whose allocator also serves torch."""
    compiler = shutil.which("cc")
    # The first needs the second, to find the function that throws exceptions in C++.
    names = ("libasan.so", "libstdc++.so.6")
    libraries = [
        subprocess.check_output(["cc", f"-print-file-name={name}"], text=True).strip()
        for name in names
    ]
    wrapper = tmp_path / "cc"
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" -g -fsanitize=address -UNDEBUG\n')
    wrapper.chmod(0o755)
    try_edits(
        *(0, 200),
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        LD_PRELOAD=" ".join(libraries),
        ASAN_OPTIONS="detect_leaks=0",
    )
