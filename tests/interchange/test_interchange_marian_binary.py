"""Binary models of Marian and their shortlists, written here from the description of the format."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.marian import NONE, PIECES, PRE, RECURRENT, Marian, V
from helpers.piece_models import model_bytes

from seq2seq.base.errors import DataError, Seq2SeqError
from seq2seq.base.symbols import BOS, EOS
from seq2seq.cli import importing
from seq2seq.cli.main import parse_arguments
from seq2seq.decoding.shortlist.file import read_shortlist
from seq2seq.interchange.imported import ImportedModel
from seq2seq.interchange.marian import read_marian
from seq2seq.interchange.marian_binary import read_binary
from seq2seq.interchange.marian_shortlist import read_marian_shortlist
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.translation.translator import Translator

FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101
THEIRS = [-1, -1, 2, 0, 1, *range(3, V)]  # as in the tests of `.npz`
LEX_MAGIC = 0xF11A48D5013417F5
Entry = tuple[str, int, tuple[int, ...], bytes]


def binary(entries: list[Entry], version: int = 1) -> bytes:
    """A file of items: name, type, shape, data."""
    out = struct.pack("<QQ", version, len(entries))
    for name, kind, shape, data in entries:
        out += struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(data))
    for name, *_ in entries:
        out += name.encode("latin-1") + b"\0"
    for _, _, shape, _ in entries:
        out += np.array(shape, "<i4").tobytes()
    behind = 256 - (len(out) + 8) % 256
    out += struct.pack("<Q", behind) + b"\xee" * behind
    return out + b"".join(data for *_, data in entries)


def padded(data: bytes) -> bytes:
    """Padded with arbitrary bytes, as in Firefox's files."""
    return data + b"\xdd" * (-len(data) % 256)


class Quantized(Marian):
    """A random model in 8 bits, whose arrays hold the values that the integers represent."""

    def entries(self) -> list[Entry]:
        found: list[Entry] = []
        for name, array in sorted(self.arrays.items()):
            if ("_W" in name and "_ln_" not in name) or name == "Wemb":
                multiplier = np.float32(127 / np.abs(array).max())
                integers = np.round(array * multiplier).astype(np.int8)
                self.arrays[name] = (integers / np.float64(multiplier)).astype(np.float32)
                stored = integers if "Wemb" in name else integers.T
                data = stored.tobytes() + struct.pack("<f", multiplier)
                found.append((name, INTGEMM8, array.shape, padded(data)))
                alpha = struct.pack("<f", 20.0)
                found.append((f"{name}_QuantMultA", FLOAT32, (1,), padded(alpha)))
            else:
                found.append((name, FLOAT32, array.shape, padded(array.tobytes())))
        return [*found, self.description()]

    def description(self) -> Entry:
        lines = [f"{key}: {json.dumps(value)}" for key, value in self.options.items()]
        text = "\n".join(lines).encode() + b"\0"
        return ("special:model.yml", INT8, (len(text),), text)


def write(folder: Path, content: bytes) -> Path:
    (folder / "vocab.spm").write_bytes(model_bytes(PIECES))
    path = folder / "model.xxyy.intgemm.alphas.bin"
    path.write_bytes(content)
    return path


def imported_from(folder: Path, content: bytes) -> ImportedModel:
    return read_marian(write(folder, content), [folder / "vocab.spm"], NONE)


SIZES: list[dict[str, Any]] = [
    {**RECURRENT, "enc-depth": 6, "dec-depth": 2},
    {**RECURRENT, "enc-depth": 6, "dec-depth": 4},
    {"enc-depth": 6, "dec-depth": 2},
    {**RECURRENT, **PRE},
]


@pytest.mark.parametrize("sizes", SIZES, ids=["6+2 ssru", "6+4 ssru", "6+2 mha", "pre-norm"])
@pytest.mark.parametrize("quantized", [True, False])
@torch.no_grad()
def test_logits_are_those_of_the_formulas(
    sizes: dict[str, Any], quantized: bool, tmp_path: Path
) -> None:
    marian = Quantized(**sizes)
    entries = marian.entries()
    if not quantized:
        floats = [(n, FLOAT32, x.shape, x.tobytes()) for n, x in marian.arrays.items()]
        entries = [*floats, marian.description()]
    model = imported_from(tmp_path, binary(entries)).saved.build().double()
    source, target = [4, 6, 5, 4, EOS], [5, 7, 7, 9, 4]
    hidden = model(torch.tensor([source]), torch.tensor([[BOS, *target]])).hidden
    ours = [EOS, 3, *range(4, len(THEIRS))]
    logits = model.logits(hidden)[0].numpy()[:, ours]
    expected = marian.logits([THEIRS[i] for i in source], [THEIRS[i] for i in target])
    np.testing.assert_allclose(logits, expected[:, [THEIRS[i] for i in ours]], rtol=0, atol=1e-4)


def test_an_imported_decoder_starts_with_a_zero_vector(tmp_path: Path) -> None:
    imported = imported_from(tmp_path, binary(Quantized(**RECURRENT).entries()))
    assert imported.saved.config["model"]["zero_start"] is True
    assert not imported.saved.weights["embeddings.target.weight"][BOS].any()


# Hostile files: a valid one, changed in one place.


def test_a_file_that_ends_at_any_byte_is_refused(tmp_path: Path) -> None:
    content = binary(Quantized(**RECURRENT).entries())
    count = struct.unpack_from("<Q", content, 8)[0]
    heads = 16 + 32 * count
    edges = {0, 7, 8, 15, 16, 17, heads - 1, heads, heads + 1, len(content) - 1, len(content) - 256}
    for size in sorted(edges | set(range(0, len(content), 997))):
        path = tmp_path / "model.bin"
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"model\.bin") as caught:
            read_binary(path)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**32, 10**6])
@pytest.mark.parametrize("place", range(5))
def test_counts_and_lengths_beyond_the_file_take_no_memory(
    place: int, value: int, tmp_path: Path
) -> None:
    content = bytearray(binary(Quantized(**RECURRENT).entries()))
    offsets = [8, 16, 24, 32, 40]  # items; then of the first: name, type, shape, data
    struct.pack_into("<Q", content, offsets[place], value)
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"model\.bin"):
        read_binary(path)


ONE = struct.pack("<f", 1.0)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("a", FLOAT32, (2, -1), bytes(8)), r"a has the shape \(2, -1\) and 8 bytes"),
        (("a", FLOAT32, (-2, -2), bytes(16)), "do not fit together"),
        (("a", FLOAT32, (0, 2), bytes(8)), "do not fit together"),
        (("a", FLOAT32, (), bytes(8)), "do not fit together"),
        (("a", FLOAT32, (2**31 - 1, 2**31 - 1), bytes(8)), "do not fit together"),
        (("a", FLOAT32, (3, 1), bytes(8)), "do not fit together"),
        (("a", FLOAT32, (1,) * 9, bytes(8)), "9 dimensions"),
        (("a", INTGEMM8, (2, 2), bytes(4)), "do not fit together"),
        (("a", 0x4102, (2, 2), bytes(8)), "a is of the type 0x4102"),
        (("a", 2**63, (2, 2), bytes(8)), "expected float32, or intgemm8"),
        (("a", INTGEMM8, (2, 2), bytes(4) + struct.pack("<f", 0)), "multiplier of a is 0.0"),
        (("a", INTGEMM8, (2, 2), bytes(4) + struct.pack("<f", -1)), "multiplier of a is -1.0"),
        (("a", INTGEMM8, (2, 2), bytes(4) + struct.pack("<f", np.nan)), "is nan"),
        (("a", INTGEMM8, (2, 2), bytes(4) + struct.pack("<f", np.inf)), "is inf"),
        (("a", INTGEMM8, (2, 2), bytes(4) + struct.pack("<f", 1e-40)), "multiplier of a"),
        (("", FLOAT32, (1, 1), ONE), "is not the name"),
        (("a\0b", FLOAT32, (1, 1), ONE), "is not the name"),
        (("\xff", FLOAT32, (1, 1), ONE), "is not the name"),
        (("a" * 10**5, FLOAT32, (1, 1), ONE), "is not the name"),
        (("b", FLOAT32, (1, 1), ONE), "two items have the name 'b'"),
    ],
)
def test_a_damaged_item_is_named(entry: Entry, words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(binary([("b", FLOAT32, (1, 1), ONE), entry]))
    with pytest.raises(DataError, match=words) as caught:
        read_binary(path)
    assert len(str(caught.value)) < 400


def test_bytes_after_the_last_item_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(binary([("b", FLOAT32, (1, 1), ONE)]) + b"\0")
    with pytest.raises(DataError, match="1 bytes follow the last item"):
        read_binary(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a: [", "is not plain YAML"),
        (b"- 1", "should hold options"),
        (b"\xff", "is not plain YAML"),
        (b"[" * 5000, "is not plain YAML"),
        (b"type: s2s", "type='s2s'"),
        (b"a: &a [*a]", "a=a list is not known"),
        (b"x" * 2**17, "too large"),
        (b"", "should hold options"),
    ],
)
def test_a_wrong_description_is_refused(text: bytes, words: str, tmp_path: Path) -> None:
    *items, _ = Quantized(**RECURRENT).entries()
    entries = [*items, ("special:model.yml", INT8, (len(text) + 1,), text + b"\0")]
    with pytest.raises(Seq2SeqError, match=words):
        imported_from(tmp_path, binary(entries))


# Shortlists.


def lexicon(
    lists: list[list[int]], frequent: int = 1, *, offsets: list[int] | None = None, words: int = 0
) -> bytes:
    """A file of lists, whose header announces `words` more ids than there are."""
    ids = [i for each in lists for i in each]
    places = np.cumsum([0, *map(len, lists)]).tolist() if offsets is None else offsets
    body = struct.pack("<QQQQ", frequent, 50, len(places), len(ids) + words)
    body += struct.pack(f"<{len(places)}Q", *places) + struct.pack(f"<{len(ids)}I", *ids)
    seed = 0
    for at in range(0, len(body) - 7, 8):
        (word,) = struct.unpack_from("<Q", body, at)
        seed = (seed ^ ((word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64)) % 2**64
    return struct.pack("<QQ", LEX_MAGIC, seed) + body


# Of <unk>, <s>, </s> and the six pieces; ours are one higher from the first piece on, <s> too.
LISTS = [[], [], [8], [3, 4], [], [2, 5], [6], [], [0, 1, 7]]


def test_a_shortlist_is_imported_with_the_ids_of_the_run(tmp_path: Path) -> None:
    path = write(tmp_path, binary(Quantized(**RECURRENT).entries()))
    file = tmp_path / "lex.50.50.xxyy.s2t.bin"
    file.write_bytes(lexicon(LISTS, frequent=5))
    words = ["import", path, "--vocab", tmp_path / "vocab.spm", "--shortlist", file]
    run = tmp_path / "run"
    importing.run(parse_arguments([*map(str, words), "-o", str(run)]))
    translator = Translator.load(run, device="cpu")
    tokenizers = Tokenizers(translator.source, translator.target)
    lists = read_shortlist(run, tokenizers)
    names = translator.source.symbols()
    assert names[5] == "\u2581"  # 3 there: ours are two higher
    found = [set(each.tolist()) for each in lists.lists_of(range(tokenizers.source.size + 1))]
    # <s> of the file is the piece 4 here. A piece may stand in its own translation; those below 5,
    # and the list of </s>, in any.
    ours = {1: 4, **{i: i + 2 for i in range(3, V)}}
    expected = [{ours[i] for i in {*its, place} & {*ours}} for place, its in enumerate(LISTS)]
    assert found[5:-1] == expected[3:]
    assert found[:4] == [set()] * 4
    assert found[-1] == {4, 5, 6, 10}
    (text,) = translator.translate(["ab a"])
    assert isinstance(text, str)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a binary shortlist"),
        (b"dog Hund 0.5\n" * 9, "--lexicon"),
        (lexicon(LISTS)[:-1], "its size is not what its header says"),
        (lexicon(LISTS)[:40], "not a binary shortlist"),
        (lexicon(LISTS) + bytes(4), "its size is not"),
        (lexicon(LISTS, words=2**62), "its size is not"),
        (lexicon(LISTS, words=2**63), "its size is not"),
        (lexicon(LISTS)[:-20] + b"\1" + lexicon(LISTS)[-19:], "checksum does not match"),
        (lexicon(LISTS, offsets=[0, 2**63, 9]), "do not follow one another"),
        (lexicon(LISTS, offsets=[0, 50, 9]), "do not follow one another"),
        (lexicon(LISTS, offsets=[0, 5, 3, 9]), "do not follow one another"),
        (lexicon(LISTS, offsets=[1, 9]), "do not follow one another"),
        (lexicon(LISTS, offsets=[]), "its size is not"),
        (lexicon([[V]]), "belongs to another vocabulary"),
        (lexicon([[2**32 - 1]]), "belongs to another vocabulary"),
        (lexicon([[]] * (V + 1)), "belongs to another vocabulary"),
    ],
)
def test_a_damaged_shortlist_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    maps = imported_from(tmp_path, binary(Quantized(**RECURRENT).entries())).maps
    path = tmp_path / "lex.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_marian_shortlist(path, maps)
    assert len(str(caught.value)) < 300


def test_a_shortlist_may_end_early_and_announce_too_many_frequent_pieces(
    tmp_path: Path,
) -> None:
    maps = imported_from(tmp_path, binary(Quantized(**RECURRENT).entries())).maps
    path = tmp_path / "lex.bin"
    path.write_bytes(lexicon(LISTS[:4], frequent=2**64 - 1))
    lists = read_marian_shortlist(path, maps)
    *_, of_last, anywhere = lists.lists_of(range(len(maps[0].ids) + 1))
    assert of_last.tolist() == [V + 1]
    assert anywhere.tolist() == [4, *range(5, V + 2)]
